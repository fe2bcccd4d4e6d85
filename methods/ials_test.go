package methods_test

import (
	"context"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/lab"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// als is alternating least squares with a matrix for each item, in float64 and all in
// one place: what shared curvature stands for.
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

// loss is the objective, with the best vector of each user.
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

// rows copies a padded table.
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

// alsAgainst runs both for so many rounds and returns their losses.
func alsAgainst(t *testing.T, src data.Source, rounds int, settings ...string) (shared, exact float64) {
	t.Helper()
	protocol, err := data.ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	split, err := data.NewSplit(src, protocol, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := with(t, &methods.IALS{}, settings...).(*methods.IALS)
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery = rounds+1, rounds+1
	run, err := sim.New(m, split, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	table := run.Engine.Value[0]
	x := &als{d: m.Dim, a0: m.A0, reg: m.Reg, own: make([][]uint32, split.Users()), p: make([]*mat.VecDense, split.Users()), n: make([]float64, split.Items())}
	var part data.Part
	for u := range x.own {
		split.User(u, &part)
		seen := map[uint32]bool{}
		for _, i := range part.Train {
			if !seen[i] {
				seen[i] = true
				x.own[u] = append(x.own[u], i)
				x.n[i]++
			}
		}
	}
	x.q = rowsOf(table, split.Items(), m.Dim)
	for !run.Done() {
		if _, err := run.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds {
		x.users()
		x.items()
	}
	exact = x.loss()
	x.q = rowsOf(table, split.Items(), m.Dim)
	return x.loss(), exact
}

func TestSharedCurvatureNeedsNoMoreRoundsThanALS(t *testing.T) {
	w, err := data.NewWorld(data.WorldConfig{Users: 150, Items: 90, MeanRows: 20, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	shared, exact := alsAgainst(t, w, 12, "dim=8", "few=1")
	if shared > 1.005*exact {
		t.Errorf("after 12 rounds the loss is %.1f, that of ALS %.1f", shared, exact)
	}
	dir := os.Getenv("TACIT_DATA")
	if dir == "" {
		t.Log("no ml-100k: set TACIT_DATA to the folder of data sets")
		return
	}
	spec, err := lab.Resolve([]lab.Setting{{Key: "data", Value: "ml-100k", From: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	src, err := lab.OpenData(&spec.Settings, dir)
	if err != nil {
		t.Fatal(err)
	}
	shared, exact = alsAgainst(t, src, 12, "dim=16", "a0=0.3", "few=1")
	t.Logf("ml-100k: %.0f with shared curvature, %.0f with ALS", shared, exact)
	if shared > 1.005*exact {
		t.Errorf("after 12 rounds on ml-100k the loss is %.1f, that of ALS %.1f", shared, exact)
	}
}
