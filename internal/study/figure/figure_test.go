package figure

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// normal is a table of standard normal numbers with a gap between its rows.
func normal(n, dim int, key uint64) Rows {
	r := rng.New(rng.Test, 77, key)
	out := Rows{n, dim, dim + 3, make([]float32, n*(dim+3))}
	for i := range n {
		for k := range dim {
			out.Row(i)[k] = float32(r.Norm())
		}
	}
	return out
}

func dense(r Rows, centred bool) *mat.Dense {
	m, mean := mat.NewDense(r.N, r.Dim, nil), r.mean()
	for i := range r.N {
		for k, x := range r.Row(i) {
			if m.Set(i, k, float64(x)); centred {
				m.Set(i, k, float64(x)-mean[k])
			}
		}
	}
	return m
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %g, want %g within %g", what, got, want, within)
	}
}

func TestSingularValuesAreThoseOfAnSVD(t *testing.T) {
	for _, r := range []Rows{normal(200, 16, 1), normal(7, 12, 2), lowRank(300, 24, 3, 0.01)} {
		var svd mat.SVD
		if !svd.Factorize(dense(r, true), mat.SVDNone) {
			t.Fatal("no SVD")
		}
		want := svd.Values(nil)
		got := SpectrumOf(r)
		for k, w := range want {
			near(t, "singular value", got.Singular[k], w, 1e-6*want[0])
		}
		if !slices.IsSortedFunc(got.Singular, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
			t.Errorf("singular values are not sorted: %v", got.Singular)
		}
	}
}

// lowRank is a table of the given rank, and a little noise.
func lowRank(n, dim, rank int, noise float32) Rows {
	a, b, out := normal(n, rank, 11), normal(rank, dim, 12), normal(n, dim, 13)
	for i := range n {
		for k := range dim {
			s := out.Row(i)[k] * noise
			for j := range rank {
				s += a.Row(i)[j] * b.Row(j)[k]
			}
			out.Row(i)[k] = s
		}
	}
	return out
}

// The values were computed elsewhere, in numpy, for tables of the same kind.
func TestMeasuresOfCollapseOnKnownTables(t *testing.T) {
	full := SpectrumOf(normal(2000, 32, 4))
	near(t, "effective rank of noise", full.EffectiveRank, 31.9, 0.1)
	near(t, "abundance of noise", full.Abundance, 28.6, 0.6)
	near(t, "participation of noise", full.Participation, 31.5, 0.2)
	low := SpectrumOf(lowRank(2000, 32, 4, 0.01))
	near(t, "effective rank of rank 4", low.EffectiveRank, 4.2, 0.4)
	near(t, "abundance of rank 4", low.Abundance, 3.5, 0.6)
	near(t, "participation of rank 4", low.Participation, 3.7, 0.4)
	same := SpectrumOf(Rows{3, 2, 2, []float32{1, 2, 1, 2, 1, 2}})
	if same.EffectiveRank != 0 || same.Abundance != 0 {
		t.Errorf("equal rows have effective rank %g and abundance %g, want 0", same.EffectiveRank, same.Abundance)
	}
	// A table that spreads equally over k directions has every measure k.
	cross := Rows{6, 3, 3, []float32{1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1}}
	s := SpectrumOf(cross)
	for _, x := range []float64{s.EffectiveRank, s.Abundance, s.Participation} {
		near(t, "a measure of a cross", x, 3, 1e-9)
	}
}

func TestUnitRowsHaveLengthOne(t *testing.T) {
	r := normal(20, 5, 5)
	clear(r.Row(3))
	u := r.Unit()
	for i := range u.N {
		s := 0.0
		for _, x := range u.Row(i) {
			s += float64(x) * float64(x)
		}
		near(t, "squared length", s, float64(min(1, i^3)), 1e-6)
	}
}

func TestPCAKeepsTheWidestDirections(t *testing.T) {
	r := lowRank(150, 10, 2, 0.05)
	xy, shares := PCA(r)
	var svd mat.SVD
	if !svd.Factorize(dense(r, true), mat.SVDThin) {
		t.Fatal("no SVD")
	}
	var u mat.Dense
	svd.UTo(&u)
	s := svd.Values(nil)
	total := 0.0
	for _, x := range s {
		total += x * x
	}
	for k := range 2 {
		near(t, "share", shares[k], s[k]*s[k]/total, 1e-6)
		sign := math.Copysign(1, u.At(0, k)*xy[0][k])
		for i := range xy {
			near(t, "coordinate", xy[i][k], sign*u.At(i, k)*s[k], 1e-4*s[0])
		}
	}
	if got, _ := PCA(Rows{2, 1, 1, []float32{1, 3}}); got[0][0] != -1 || got[0][1] != 0 {
		t.Errorf("PCA of one dimension gives %v, want -1, 0 first", got)
	}
}

func TestEveryRowReachesThePerplexity(t *testing.T) {
	r := normal(120, 6, 6)
	const want = 17
	p, reached := affinities(distances(r), r.N, want)
	sum := 0.0
	for i := range r.N {
		near(t, "perplexity", reached[i], want, 1e-3)
		for j := range r.N {
			sum += float64(p[i*r.N+j])
			if p[i*r.N+j] != p[j*r.N+i] {
				t.Fatalf("p is not symmetric at %d, %d", i, j)
			}
		}
	}
	near(t, "sum of p", sum, 1, 1e-4)
}

// divergence is Kullback and Leibler's, written from its definition.
func divergence(p []float32, y [][2]float64, boost float64) float64 {
	n, sum, out := len(y), 0.0, 0.0
	q := func(i, j int) float64 {
		return 1 / (1 + math.Pow(y[i][0]-y[j][0], 2) + math.Pow(y[i][1]-y[j][1], 2))
	}
	for i := range n {
		for j := range n {
			if i != j {
				sum += q(i, j)
			}
		}
	}
	for i := range n {
		for j := range n {
			if i != j { // the weights of q's logarithm sum to boost, of the normaliser's to 1
				out += -boost*float64(p[i*n+j])*math.Log(q(i, j)) + float64(p[i*n+j])*math.Log(sum)
			}
		}
	}
	return out
}

func TestTheGradientIsTheFiniteDifference(t *testing.T) {
	r := normal(25, 4, 7)
	p, _ := affinities(distances(r), r.N, 6)
	y, g := make([][2]float64, r.N), make([][2]float64, r.N)
	random := rng.New(rng.Test, 8)
	for i := range y {
		y[i] = [2]float64{random.Norm(), random.Norm()}
	}
	for _, boost := range []float64{1, 4} {
		gradient(p, y, boost, g)
		for i := range y {
			for k := range 2 {
				const h = 1e-5
				y[i][k] += h
				up := divergence(p, y, boost)
				y[i][k] -= 2 * h
				down := divergence(p, y, boost)
				y[i][k] += h
				near(t, "gradient", g[i][k], (up-down)/(2*h), 1e-6)
			}
		}
	}
}

func TestTSNESeparatesPlantedGroups(t *testing.T) {
	const groups, each = 4, 40
	r, centre := normal(groups*each, 10, 9), normal(groups, 10, 10)
	for i := range r.N {
		for k := range r.Row(i) {
			r.Row(i)[k] = 0.3*r.Row(i)[k] + 4*centre.Row(i / each)[k]
		}
	}
	y := TSNE(r, 15, 250, 1, nil)
	wrong := 0
	for i := range y {
		best, at := math.Inf(1), -1
		for j := range y {
			if d := math.Hypot(y[i][0]-y[j][0], y[i][1]-y[j][1]); j != i && d < best {
				best, at = d, j
			}
		}
		if at/each != i/each {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d rows have their nearest neighbour in another group, want none", wrong, r.N)
	}
	if again := TSNE(r, 15, 250, 1, nil); !slices.Equal(again, y) {
		t.Error("the same table and seed gave another picture")
	}
	for _, n := range []int{0, 1, 3, 5} {
		for _, c := range TSNE(normal(n, 3, 1), 30, 50, 1, nil) {
			if math.IsNaN(c[0] + c[1]) {
				t.Errorf("%d rows give %v", n, c)
			}
		}
	}
	equal := Rows{10, 2, 2, make([]float32, 20)}
	for _, c := range TSNE(equal, 5, 100, 1, nil) {
		if math.IsNaN(c[0]+c[1]) || math.IsInf(c[0]+c[1], 0) {
			t.Errorf("equal rows give %v", c)
		}
	}
	if asked := 0; len(TSNE(r, 15, 250, 1, func() bool { asked++; return true })) != r.N || asked != 1 {
		t.Error("stop was not heard at once")
	}
}

func BenchmarkTSNE1000(b *testing.B) {
	r := normal(1000, 32, 3)
	for b.Loop() {
		TSNE(r, 30, 250, 1, nil)
	}
}
