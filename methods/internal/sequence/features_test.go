package sequence

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// featuring is a method that computes features and does nothing else.
type featuring struct{ Features }

var (
	_ method.EmptyUpdater = (*featuring)(nil)
	_ method.PhasedSlots  = (*featuring)(nil)
	_ method.InPasses     = (*featuring)(nil)
)

func (m *featuring) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { m.Features.Visit(w, w.History, w.Phase) }}
}

func (m *featuring) Logits(_ *method.Work, b *method.Batch, out []float32) { clear(out[:b.N]) }
func (m *featuring) Passes() int                                           { return FeaturePasses }
func (m *featuring) UpdatesEmptyRounds() bool                              { return true }

func (m *featuring) Phase(round, rounds int) (int, string) {
	pass, _, _ := method.PassOf(round, rounds, m.Passes())
	return pass, fmt.Sprint("pass ", pass)
}

func (m *featuring) Update(g *method.Global) {
	pass, first, last := method.PassOf(g.Round, g.Rounds, m.Passes())
	m.Features.Update(g, pass, first, last)
}

// featureSplit is a small world, without the test and validation items of its users.
func featureSplit(t *testing.T, users, items int) *data.Split {
	t.Helper()
	return testworld.World(t, data.WorldConfig{Users: users, Items: items, MeanRows: 12, Seed: 1, Drift: 0.5})
}

// featuresOf returns the features after a simulation, by item, and the counts.
func featuresOf(t *testing.T, s *data.Split, f Features, change func(o *sim.Options)) (table [][]float64, n []float64) {
	t.Helper()
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery = 3, 1000
	if change != nil {
		change(&o)
	}
	r, err := sim.New(&featuring{f}, s, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for !r.Done() {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	wide, values, counts := f.Width(s.Items()), r.Value(featureTable), r.Value(featureCounts)
	for i := range s.Items() {
		row := make([]float64, wide)
		for k := range row {
			row[k] = float64(values[i*(len(values)/s.Items())+k])
		}
		table, n = append(table, row), append(n, float64(counts[i*(len(counts)/s.Items())]))
	}
	return table, n
}

// slowFeatures is the reference: whole matrices in float64, and their singular value decomposition.
func slowFeatures(s *data.Split, rank, few int) (table [][]float64, n []float64) {
	m := s.Items()
	follows, together := mat.NewDense(m, m, nil), mat.NewDense(m, m, nil)
	n = make([]float64, m)
	add := func(a *mat.Dense, i, j uint32, x float64) { a.Set(int(i), int(j), a.At(int(i), int(j))+x) }
	var p data.Part
	for u := range s.Users() {
		s.User(u, &p)
		often := map[uint32]float64{}
		for _, i := range p.Train {
			often[i]++
		}
		pairs := func(use func(i, j uint32, x float64)) {
			for t, i := range p.Train {
				for g := 1; g <= 20 && t+g < len(p.Train); g++ {
					j := p.Train[t+g]
					use(i, j, math.Pow(0.8, float64(g-1))/math.Sqrt(often[i]*often[j]))
				}
			}
		}
		before, after, most := map[uint32]float64{}, map[uint32]float64{}, 5.0
		pairs(func(i, j uint32, x float64) {
			before[i] += x
			after[j] += x
			most = max(most, before[i], after[j])
		})
		pairs(func(i, j uint32, x float64) { add(follows, i, j, x*5/most) })
		own := slices.Compact(slices.Sorted(slices.Values(p.Train)))
		for _, i := range own {
			n[i]++
			for _, j := range own {
				if i != j {
					add(together, i, j, math.Pow(float64(len(own)), -0.5))
				}
			}
		}
	}
	var kept []bool
	for i := range n {
		if kept = append(kept, n[i] >= float64(few)); !kept[i] {
			n[i] = 0
		}
	}
	left, right := slowFactors(follows, rank, kept)
	both, _ := slowFactors(together, rank, kept)
	for i := range m {
		row := slices.Concat(left[i], right[i], both[i])
		square := 0.0
		for _, x := range row {
			square += x * x
		}
		for k := range row {
			row[k] *= math.Sqrt(float64(3*rank)) / math.Max(1e-6, math.Sqrt(square))
		}
		table = append(table, row)
	}
	return table, n
}

func slowFactors(a *mat.Dense, rank int, kept []bool) (left, right [][]float64) {
	m := len(kept)
	row, col := make([]float64, m), make([]float64, m)
	for i := range m {
		row[i], col[i] = 50+mat.Sum(a.RowView(i)), 50+mat.Sum(a.ColView(i))
	}
	normal := mat.NewDense(m, m, nil)
	for i := range m {
		for j := range m {
			if kept[i] && kept[j] {
				normal.Set(i, j, a.At(i, j)/math.Sqrt(row[i]*col[j]))
			}
		}
	}
	var svd mat.SVD
	svd.Factorize(normal, mat.SVDThin)
	values := svd.Values(nil)
	part := func(vectors *mat.Dense) (rows [][]float64) {
		sum, square, n := 0.0, 0.0, 0.0
		for i := range m {
			row := make([]float64, rank)
			for c := range row {
				row[c] = vectors.At(i, c) * math.Sqrt(values[c])
				sum, square = sum+row[c], square+row[c]*row[c]
			}
			if rows = append(rows, row); kept[i] {
				n += float64(rank)
			}
		}
		deviation := math.Sqrt((square - sum*sum/n) / (n - 1))
		for _, row := range rows {
			for c := range row {
				row[c] /= deviation
			}
		}
		return rows
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	return part(&u), part(&v)
}

// products returns the inner products of all pairs of rows of columns a and columns b: they do not depend on the
// signs of singular vectors.
func products(table [][]float64, rank, a, b int) (out []float64) {
	for _, x := range table {
		for _, y := range table {
			sum := 0.0
			for c := range rank {
				sum += x[a*rank+c] * y[b*rank+c]
			}
			out = append(out, sum)
		}
	}
	return out
}

// difference is the norm of the difference of two lists, relative to that of the second one.
func difference(a, b []float64) float64 {
	d, all := 0.0, 0.0
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
		all += b[i] * b[i]
	}
	return math.Sqrt(d / all)
}

// similar compares features with a reference: each part, and the left part of follows with the right one.
func similar(t *testing.T, what string, got, want [][]float64, rank int, most float64) {
	t.Helper()
	for _, pair := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {0, 1}} {
		d := difference(products(got, rank, pair[0], pair[1]), products(want, rank, pair[0], pair[1]))
		if !(d <= most) {
			t.Errorf("%s: parts %v differ by %.2g, want at most %.2g", what, pair, d, most)
		}
	}
}

// With as many columns as items the range finder is exact.
func TestFeaturesAreThoseOfTheWholeMatrices(t *testing.T) {
	s := featureSplit(t, 60, 40)
	for _, few := range []int{1, 8} {
		got, n := featuresOf(t, s, Features{Rank: 24, Few: few}, nil)
		want, counts := slowFeatures(s, 24, few)
		similar(t, fmt.Sprint("few = ", few), got, want, 24, 0.01)
		if !slices.Equal(n, counts) {
			t.Errorf("few = %d: the counts are %v, want %v", few, n, counts)
		}
		if few > 1 && !slices.Contains(n, 0) {
			t.Error("no item is rare: the test shows nothing")
		}
		for i, c := range n {
			if c == 0 && slices.ContainsFunc(got[i], func(x float64) bool { return x != 0 }) {
				t.Errorf("item %d, which few devices have, has the features %v", i, got[i])
			}
		}
	}
}

// repeats is a data set whose users repeat some items, up to hundreds of times. The newest two are held out.
func repeats(t *testing.T, users, items int) *data.Split {
	t.Helper()
	var text strings.Builder
	text.WriteString("user,item,time\n")
	r := rng.New(rng.Test, 5)
	for u := range users {
		for at := range 20 + r.Uint32n(400) {
			// One time in four, or more often, the same item.
			item := (uint32(u) + r.Uint32n(4)*r.Uint32n(uint32(items))) % uint32(items)
			fmt.Fprintf(&text, "%d,%d,%d\n", u, item, at)
		}
	}
	set, err := data.Read(strings.NewReader(text.String()), "repeats", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return testworld.Deployed(t, set)
}

// However often a device repeats an item, it adds little: nothing is clipped, and features are those of the matrices.
func TestFeaturesOfRepeatedItems(t *testing.T) {
	s := repeats(t, 60, 40)
	got, _ := featuresOf(t, s, Features{Rank: 24, Few: 2}, nil)
	want, _ := slowFeatures(s, 24, 2)
	similar(t, "repeated items", got, want, 24, 0.01)
	got, _ = featuresOf(t, s, Features{Rank: 24, Few: 2}, func(o *sim.Options) { o.Sums = "integer" })
	similar(t, "repeated items, sums of integers", got, want, 24, 0.03)
}

// Features do not depend on how the devices are divided among the rounds of a pass, but for rounding errors.
func TestFeaturesDoNotDependOnCohorts(t *testing.T) {
	s := featureSplit(t, 60, 40)
	f := Features{Rank: 16, Few: 2}
	want, counts := featuresOf(t, s, f, nil)
	for _, cohort := range []round.Cohort{{Kind: "cycle", Count: 7}, {Kind: "cycle", Share: 0.02}, {Kind: "all"}} {
		got, n := featuresOf(t, s, f, func(o *sim.Options) {
			o.Cohort, o.Rounds = cohort, 3*max(2, cohort.Epoch(s.Users()))
		})
		text, _ := cohort.MarshalText()
		if similar(t, string(text), got, want, 16, 0.01); !slices.Equal(n, counts) {
			t.Errorf("%s: the counts are %v, want %v", text, n, counts)
		}
	}
	got, _ := featuresOf(t, s, f, func(o *sim.Options) { o.Sums = "integer" })
	similar(t, "sums of integers", got, want, 16, 0.02)
}

// Rounds without reports do no harm: sums of the others stand for all devices.
func TestFeaturesWithDropouts(t *testing.T) {
	s := featureSplit(t, 60, 40)
	f := Features{Rank: 8, Few: 2}
	got, n := featuresOf(t, s, f, func(o *sim.Options) {
		o.Cohort, o.Rounds, o.Dropout = round.Cohort{Kind: "cycle", Count: 1}, 3*s.Users(), 0.3
	})
	all := 0.0
	for i, c := range n {
		square := 0.0
		for _, x := range got[i] {
			square += x * x
		}
		if all += c; c > 0 && math.Abs(square-24) > 1e-3 || c == 0 && square != 0 {
			t.Errorf("item %d of %g devices has features of length %g, want sqrt(24)", i, c, math.Sqrt(square))
		}
	}
	_, counts := slowFeatures(s, 8, 2)
	for _, c := range counts {
		all -= c
	}
	if math.Abs(all) > 60 {
		t.Errorf("estimated counts of items differ by %g from the true ones", all)
	}
}

// Fewer columns than items: the largest singular vectors are found, and all factors together are nearly as good.
func TestFeaturesOfFewColumns(t *testing.T) {
	s := featureSplit(t, 2000, 120)
	got, _ := featuresOf(t, s, Features{Rank: 60, Few: 1}, nil)
	want, _ := slowFeatures(s, 60, 1)
	similar(t, "rank 60", got, want, 60, 0.4)
}

// The server's part for 55,000 items.
func BenchmarkFeaturesServer(b *testing.B) {
	const n, k = 55000, 144
	y, r := make([]float32, n*k), rng.New(1)
	for i := range y {
		y[i] = float32(r.Norm())
	}
	for b.Loop() {
		orthonormal(y, n, k)
		left, _ := factorMaps(y, n, k, 128)
		product(y, n, k, left, 128)
	}
}
