package methods_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

func world(t *testing.T) *data.Split {
	t.Helper()
	return testworld.World(t, data.WorldConfig{Users: 60, Items: 300, MeanRows: 20, Seed: 1, Drift: 0.5})
}

// run trains "method key=value ..." on the small world.
func run(t *testing.T, words string, rounds int) *sim.Run {
	t.Helper()
	return runOn(t, world(t), words, rounds)
}

func runOn(t testing.TB, s *data.Split, words string, rounds int) *sim.Run {
	t.Helper()
	f := strings.Fields(words)
	e, err := methods.Default().Lookup(f[0])
	if err != nil {
		t.Fatal(err)
	}
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Batch = rounds, 64
	r, err := sim.New(with(t, e.New(), f[1:]...), s, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for !r.Done() {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// places returns the test ranks of the selected round and the model's values.
func places(r *sim.Run) ([]metrics.Rank, []float32) {
	return append(slices.Clone(r.Best.Test), r.Best.TestFull...), r.Value(learn.ItemSlot)
}

// PFedRec with suitable settings ends with the same bits as FedMF and FedNCF.
func TestPFedRecCoversFedMFAndFedNCF(t *testing.T) {
	for _, c := range []struct{ general, special string }{
		{"pfedrec infer=global", "fedmf"},
		{"pfedrec", "fedmf+dualper"},
		{"pfedrec layers=32,16,8 private=none order=joint user-eta=79 infer=global", "fedncf"},
		{"pfedrec layers=32,16,8 private=all user-eta=79", "fedncf+dualper"},
		{"pfedrec layers=32,16,8 private=1,2,3,4 user-eta=79", "fedncf+dualper"},
		{"pfedrec layers=16 private=none user-eta=79", "fedncf+dualper layers=16 network=shared"},
		{"pfedrec layers=32,16,8 private=2 user-eta=79", "fedncf+dualper private=2 network=shared"},
	} {
		pa, va := places(run(t, c.general, 5))
		pb, vb := places(run(t, c.special, 5))
		if !slices.Equal(pa, pb) || !slices.Equal(va, vb) {
			t.Errorf("%q and %q do not end with the same bits", c.general, c.special)
		}
	}
}

func TestPrivateLayersAreNotShared(t *testing.T) {
	for private, want := range map[string]string{
		"all":  "item",
		"none": "item weight.1 bias.1 weight.2 bias.2 weight.3 bias.3",
		"1":    "item weight.2 bias.2 weight.3 bias.3",
		"2, 3": "item weight.1 bias.1",
	} {
		m := with(t, &methods.PFedRec{}, "layers=16,8", "private="+private)
		var shared []string
		for _, s := range m.Slots(100) {
			if s.Scope == method.Shared {
				shared = append(shared, s.Name)
			}
		}
		if got := strings.Join(shared, " "); got != want {
			t.Errorf("private=%s shares %q, want %q", private, got, want)
		}
	}
}

func TestRejectsInvalidParameters(t *testing.T) {
	for _, words := range []string{
		"pfedrec private=none", "pfedrec private=1", "pfedrec layers=8 private=3", "pfedrec layers=8 private=x",
		"pfedrec layers=8 private=",
		"pfedrec dim=0", "fedncf user-eta=-1", "fedrecon recon=0", "fedrecon recon-lr=-1", "fedrecon dim=0",
		"mf lr=-1", "mf dim=0", "ncf start=-1",
		"fcf reg=0", "fcf dim=0", "fedncf+dualper epochs=0", "fedrecgel dim=0", "fedrecgel layers=none",
		"fedrecgel layers=8,8,8,8,8,8,8", "fedrecgel rho-user=-1",
	} {
		f := strings.Fields(words)
		e, err := methods.Default().Lookup(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := method.Check(with(t, e.New(), f[1:]...)); err == nil {
			t.Errorf("%s is accepted", words)
		}
	}
	for name, want := range map[string]string{
		"fedmff": `did you mean "fedmf"`, "fedmf+dualpr": `did you mean "dualper"`,
		"mf+dualper": "dualper fits fedmf, fedncf and fedrecon",
		"fedmf+":     "invalid method name", "+dualper": "invalid method name",
		"fedmf+dualper+dualper": "cannot have +dualper",
	} {
		if _, err := methods.Default().Lookup(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// FCF's sums must be the gradient of its objective over all users and items.
func TestFCFSendsTheGradientOfItsObjective(t *testing.T) {
	s := repeated(t)
	r := runOn(t, s, "fcf dim=5 alpha=3 reg=0.7 lr=0 start=0.3", 3) // with a learning rate of 0 the rows do not change
	const d, alpha, reg = 5, 3.0, 0.7
	stride, value := 8, r.Value(0)
	loss := func(y []float64, x [][]float64) float64 {
		sum := 0.0
		var p data.Part
		for u := range s.Users() {
			s.User(u, &p)
			for i := range s.Items() {
				z := dot(x[u], y[i*d:(i+1)*d])
				c, want := confidence(p.Train, uint32(i), alpha)
				sum += c * (want - z) * (want - z)
			}
			sum += reg * dot(x[u], x[u])
		}
		return sum + reg*dot(y, y)
	}
	y := make([]float64, s.Items()*d)
	for i := range s.Items() {
		for k := range d {
			y[i*d+k] = float64(value[i*stride+k])
		}
	}
	x := alsVectors(s, y, d, alpha, reg)
	// Adam's first moment is a tenth of the gradient after one step, 0.19 after two.
	moment := r.Value(5)
	for _, place := range []int{0, 7, 44, 123, 300 * d / 2} {
		const h = 1e-5
		old := y[place]
		y[place] = old + h
		up := loss(y, x)
		y[place] = old - h
		down := loss(y, x)
		y[place] = old
		want := (up - down) / (2 * h)
		got := float64(moment[place/d*stride+place%d]) / 0.19
		if math.Abs(got-want) > 1e-3*math.Max(1, math.Abs(want)) {
			t.Errorf("the gradient of number %d is %g, the finite difference %g", place, got, want)
		}
	}
}

// confidence returns 1 + alpha times the item's count, and 1 if the user has the item.
func confidence(train []uint32, item uint32, alpha float64) (c, want float64) {
	c = 1
	for _, i := range train {
		if i == item {
			c += alpha
			want = 1
		}
	}
	return c, want
}

// repeated returns the small world with some repeated rows.
func repeated(t *testing.T) *data.Split {
	t.Helper()
	s := world(t)
	set := *s.Source.(*data.Set)
	set.Item = slices.Clone(set.Item)
	for u := range set.Users() {
		if rows := set.Item[set.Start[u]:set.Start[u+1]]; len(rows) > 6 && u%2 == 0 {
			rows[1], rows[3], rows[4] = rows[0], rows[2], rows[2]
		}
	}
	out, err := data.NewSplit(&set, s.Protocol, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// alsVectors solves for every user by Gauss-Jordan elimination.
func alsVectors(s *data.Split, y []float64, d int, alpha, reg float64) [][]float64 {
	var out [][]float64
	var p data.Part
	for u := range s.Users() {
		s.User(u, &p)
		a := make([][]float64, d)
		for k := range a {
			a[k] = make([]float64, d+1)
			a[k][k] = reg
		}
		for i := range s.Items() {
			row := y[i*d : (i+1)*d]
			c, want := confidence(p.Train, uint32(i), alpha)
			for k := range d {
				for l := range d {
					a[k][l] += c * row[k] * row[l]
				}
				a[k][d] += c * want * row[k]
			}
		}
		for k := range d {
			for l := d; l >= k; l-- {
				a[k][l] /= a[k][k]
			}
			for o := range d {
				for l := d; o != k && l >= k; l-- {
					a[o][l] -= a[o][k] * a[k][l]
				}
			}
		}
		x := make([]float64, d)
		for k := range x {
			x[k] = a[k][d]
		}
		out = append(out, x)
	}
	return out
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func TestPublishedNumbersAreFractionsOfKnownMethodsAndSets(t *testing.T) {
	sets := map[string]bool{}
	for _, k := range data.KnownSets() {
		sets[k.Name] = true
	}
	n := 0
	for _, name := range []string{
		"ncf", "mf", "fedmf", "fedncf", "fedrecon", "pfedrec", "metamf", "fedmf+dualper",
		"fedncf+dualper", "fedrecon+dualper", "fedrecgel",
	} {
		if _, err := methods.Default().Lookup(name); err != nil {
			t.Error(err)
		}
		for set := range sets {
			for _, noise := range []string{"none", "laplace:0.3"} {
				if p := methods.Published(name, set, noise); p != nil {
					n++
					if !(p.NDCG10 > 0.2 && p.HR10 > p.NDCG10 && p.HR10 < 1) {
						t.Errorf("%s on %s: published %g / %g", name, set, p.HR10, p.NDCG10)
					}
				}
			}
		}
	}
	if p := methods.Published("pfedrec", "ml-1m", "laplace:0.5"); p == nil || p.HR10 != 0.7308 {
		t.Errorf("Table 4 of the PFedRec paper has 73.08 for ML-1M with noise 0.5, got %+v", p)
	}
	if n < 20 {
		t.Errorf("only %d published numbers are found", n)
	}
	if methods.Published("pfedrec", "ml-1m", "gauss:0.5") != nil || methods.Published("fcf", "ml-1m", "none") != nil {
		t.Error("Published returns a number that was never published")
	}
}
