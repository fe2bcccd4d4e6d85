package methods_test

import (
	"context"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// als is centralised alternating least squares in float64, with a matrix per item.
type als struct {
	d       int
	a0, reg float64
	own     [][]uint32 // by user
	q       []*mat.VecDense
	p       []*mat.VecDense
	n       []float64 // by item
}

func outer(sum *mat.SymDense, w float64, v *mat.VecDense) { sum.SymRankOne(sum, w, v) }

func solve(a *mat.SymDense, y *mat.VecDense) *mat.VecDense {
	var c mat.Cholesky
	if !c.Factorize(a) {
		panic("not positive definite")
	}
	x := mat.NewVecDense(y.Len(), nil)
	if err := c.SolveVecTo(x, y); err != nil {
		panic(err)
	}
	return x
}

func (m *als) ridge(r float64) *mat.SymDense {
	a := mat.NewSymDense(m.d, nil)
	for i := range m.d {
		a.SetSym(i, i, r)
	}
	return a
}

func (m *als) users() {
	g := mat.NewSymDense(m.d, nil)
	for _, q := range m.q {
		outer(g, m.a0, q)
	}
	for u, own := range m.own {
		a := m.ridge(m.reg * (float64(len(own)) + m.a0*float64(len(m.q))))
		a.AddSym(a, g)
		y := mat.NewVecDense(m.d, nil)
		for _, i := range own {
			outer(a, 1, m.q[i])
			y.AddVec(y, m.q[i])
		}
		m.p[u] = solve(a, y)
	}
}

func (m *als) items() {
	g := mat.NewSymDense(m.d, nil)
	for _, p := range m.p {
		outer(g, m.a0, p)
	}
	a, y := make([]*mat.SymDense, len(m.q)), make([]*mat.VecDense, len(m.q))
	for i := range m.q {
		a[i], y[i] = m.ridge(m.reg*(m.n[i]+m.a0*float64(len(m.p)))), mat.NewVecDense(m.d, nil)
		a[i].AddSym(a[i], g)
	}
	for u, own := range m.own {
		for _, i := range own {
			outer(a[i], 1, m.p[u])
			y[i].AddVec(y[i], m.p[u])
		}
	}
	for i := range m.q {
		m.q[i] = solve(a[i], y[i])
	}
}

// loss returns the objective with the best vector of each user.
func (m *als) loss() float64 {
	m.users()
	total := 0.0
	for u, own := range m.own {
		p := m.p[u]
		total += m.reg * (float64(len(own)) + m.a0*float64(len(m.q))) * mat.Dot(p, p)
		for _, q := range m.q {
			s := mat.Dot(p, q)
			total += m.a0 * s * s
		}
		for _, i := range own {
			s := mat.Dot(p, m.q[i])
			total += (1 - s) * (1 - s)
		}
	}
	for i, q := range m.q {
		total += m.reg * (m.n[i] + m.a0*float64(len(m.p))) * mat.Dot(q, q)
	}
	return total
}

// rowsOf copies a padded table.
func rowsOf(table []float32, items, d int) []*mat.VecDense {
	var out []*mat.VecDense
	for i := range items {
		v := mat.NewVecDense(d, nil)
		for k := range d {
			v.SetVec(k, float64(table[i*vec.Pad(d)+k]))
		}
		out = append(out, v)
	}
	return out
}

// central returns centralised ALS on a split, with the initial rows of the method.
func central(t testing.TB, split *data.Split, settings ...string) *als {
	t.Helper()
	m := with(t, &methods.ALS{}, settings...).(*methods.ALS)
	x := &als{
		d: m.Dim, a0: m.A0, reg: m.Reg, own: make([][]uint32, split.Users()),
		p: make([]*mat.VecDense, split.Users()), n: make([]float64, split.Items()),
	}
	for u, train := range trains(split) {
		seen := map[uint32]bool{}
		for _, i := range train {
			if !seen[i] {
				seen[i] = true
				x.own[u] = append(x.own[u], i)
				x.n[i]++
			}
		}
	}
	var o sim.Options
	param.Defaults(&o)
	r, err := sim.New(m, split, o, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	x.q = rowsOf(r.Value(0), split.Items(), m.Dim)
	return x
}

// ended returns the loss of a method's final item rows.
func (m *als) ended(t testing.TB, split *data.Split, words string, rounds int) float64 {
	t.Helper()
	name, settings, _ := strings.Cut(words, " ")
	e, err := methods.Default().Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery = rounds+1, rounds+1 // the first round counts
	r, err := sim.New(with(t, e.New(), strings.Fields(settings)...), split, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for !r.Done() {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	m.q = rowsOf(r.Value(0), split.Items(), m.d)
	return m.loss()
}

func TestFederatedALSEqualsCentralisedALS(t *testing.T) {
	s := world(t)
	set := []string{"dim=8", "few=1"}
	x := central(t, s, set...)
	for range 4 {
		x.users()
		x.items()
	}
	r := runOn(t, s, "als dim=8 few=1", 5)
	got, far, long := rowsOf(r.Value(0), s.Items(), 8), 0.0, 0.0
	for i, q := range x.q {
		var d mat.VecDense
		d.SubVec(got[i], q)
		far, long = max(far, mat.Norm(&d, 2)), max(long, mat.Norm(q, 2))
	}
	if far > 1e-3*long {
		t.Errorf("after 4 rounds a row is off by %.2g; the longest has norm %.2g", far, long)
	}
}

func TestSharedCurvatureNeedsNoMoreRoundsThanALS(t *testing.T) {
	w, err := data.NewWorld(data.WorldConfig{Users: 150, Items: 90, MeanRows: 20, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	compare := func(s *data.Split, words string) {
		t.Helper()
		x := central(t, s, strings.Fields(words)...)
		shared, exact := x.ended(t, s, "ials "+words, 12), x.ended(t, s, "als "+words, 12)
		t.Logf("%d items: %.0f with shared curvature, %.0f with ALS", s.Items(), shared, exact)
		if shared > 1.005*exact {
			t.Errorf("%d items: after 12 rounds the loss is %.1f, that of ALS %.1f", s.Items(), shared, exact)
		}
	}
	compare(testworld.Deployed(t, w), "dim=8 few=1")
	compare(movies(t, "ml-100k"), "dim=32 a0=0.3 few=1")
}

// BenchmarkLossOfTwelveRounds reports the losses of docs/ials.md, not a time.
func BenchmarkLossOfTwelveRounds(b *testing.B) {
	for name, words := range map[string]string{"ml-100k": "dim=32 a0=0.3 few=1", "ml-1m": "dim=64 few=1"} {
		b.Run(name, func(b *testing.B) {
			s := movies(b, name)
			x := central(b, s, strings.Fields(words)...)
			for b.Loop() {
				b.ReportMetric(x.ended(b, s, "ials "+words, 12), "ials-loss")
				b.ReportMetric(x.ended(b, s, "als "+words, 12), "als-loss")
			}
		})
	}
}
