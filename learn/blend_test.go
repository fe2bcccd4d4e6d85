package learn_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// added scores the sum of two rows, as additive personalisation does.
type added struct{ *tiny }

func (m added) Visit(int) method.Visit { return m.visit(m) }

func (m added) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.tiny.Logits(w, b, out)
	for x, r := range b.Rd[tinyOther] {
		out[x] += vec.Dot(w.View[tinyOther].Row(r), w.View[tinyVector].Val)
	}
}

func (m added) Back(w *method.Work, b *method.Batch, dz []float32) {
	m.tiny.Back(w, b, dz)
	other := &w.View[tinyOther]
	vec.WSum(other.Arena, other.Stride, b.Rd[tinyOther], dz, w.View[tinyVector].Grad)
	vec.Spread(other.GradRows, other.Stride, b.Pos, dz, w.View[tinyVector].Val)
}

// mixing returns a device whose own rows differ from the downloaded ones.
func mixing(t *testing.T, m method.Learner, slots ...int) (*method.Work, *method.Batch) {
	t.Helper()
	d := open(t, m, true)
	w := d.ResolveSamples(&d.state, task(0))
	r := rng.New(rng.Test)
	for _, slot := range slots {
		v := &w.View[slot]
		for p := range len(d.Touched()) {
			row := v.Row(v.Local + uint32(p))
			for k := range v.Slot.Dim {
				row[k] += float32(r.Norm())
			}
		}
	}
	w.Z = make([]float32, len(w.Samples.Item))
	return w, w.Batch(0, len(w.Samples.Item))
}

// pair returns the two rows of a sample, in float64.
func pair(w *method.Work, b *method.Batch, m learn.Blend, x int) (own, frozen []float64) {
	own = widen(w.View[m.Own].Row(b.Rd[m.Own][x])[:tinyDim])
	if m.Own == m.Frozen {
		return own, widen(w.View[m.Own].Row(b.Item[x])[:tinyDim])
	}
	return own, widen(w.View[m.Frozen].Row(b.Rd[m.Frozen][x])[:tinyDim])
}

func close(got, want, tol float64) bool {
	return math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))
}

func TestBlendedLogitsAndGradientsMatchFormula(t *testing.T) {
	one, two := learn.Blend{Own: tinyItem, Frozen: tinyItem}, learn.Blend{Own: tinyOther, Frozen: tinyItem}
	for _, c := range []onPaper{
		{"one table", newTiny(method.Shared, rests), one, 0.3},
		{"own rows alone", newTiny(method.Shared, rests), one, 1},
		{"frozen rows alone", newTiny(method.Shared, rests), one, 0},
		{"two tables", added{newTiny(method.Shared, rests)}, two, 0.8},
	} {
		c.check(t)
	}
}

type onPaper struct {
	name string
	of   method.Learner
	m    learn.Blend
	l    float32
}

func (c onPaper) check(t *testing.T) {
	w, b := mixing(t, c.of, c.m.Own)
	r := rng.New(rng.Test, 1)
	z, dz := make([]float32, b.N), make([]float32, b.N)
	for x := range dz {
		dz[x] = float32(2*r.Float64() - 1)
	}
	w.ClearGrads(b)
	before := w.View[c.m.Own].GradRow(b.Rows[0])
	before[1] = 7 // an earlier gradient must remain
	c.m.Logits(c.of, w, b, c.l, z)
	c.m.Back(c.of, w, b, c.l, dz)
	before[1] -= 7
	vector, bias, l := widen(w.View[tinyVector].Val[:tinyDim]), float64(w.View[tinyBias].Val[0]), float64(c.l)
	grad, gradFrozen, gradVector := map[uint32][]float64{}, map[uint32][]float64{}, make([]float64, tinyDim)
	for x, p := range b.Pos {
		own, frozen := pair(w, b, c.m, x)
		want := bias
		if grad[p] == nil {
			grad[p], gradFrozen[p] = make([]float64, tinyDim), make([]float64, tinyDim)
		}
		for k := range vector {
			e := l*own[k] + (1-l)*frozen[k]
			want += e * vector[k]
			grad[p][k] += l * float64(dz[x]) * vector[k]
			gradFrozen[p][k] += (1 - l) * float64(dz[x]) * vector[k]
			gradVector[k] += e * float64(dz[x])
		}
		if !close(float64(z[x]), want, 1e-5) {
			t.Fatalf("%s: logit %d is %g, the formula gives %g", c.name, x, z[x], want)
		}
	}
	for p := range grad {
		c.compare(t, "own row", w.View[c.m.Own].GradRow(p), grad[p])
		if c.m.Own != c.m.Frozen {
			c.compare(t, "other row", w.View[c.m.Frozen].GradRow(p), gradFrozen[p])
		}
	}
	c.compare(t, "vector", w.View[tinyVector].Grad, gradVector)
}

func (c onPaper) compare(t *testing.T, what string, got []float32, want []float64) {
	for k := range want {
		if !close(float64(got[k]), want[k], 1e-5) {
			t.Errorf("%s: the %s has gradient %g at %d, want %g", c.name, what, got[k], k, want[k])
		}
	}
}

func TestBlendRestoresRowsWithoutAllocation(t *testing.T) {
	of, m := newTiny(method.Shared, rests), learn.Blend{Own: tinyItem, Frozen: tinyItem, PerItem: true}
	w, b := mixing(t, of, tinyItem)
	before := append([]float32(nil), w.View[tinyItem].Arena...)
	z := make([]float32, b.N)
	terms := []method.Term{}
	for _, view := range []string{"global", "mixed", "self"} {
		terms = append(terms, m.Decorrelate(view, 0.1, func(*method.Work) float32 { return 0.5 }))
	}
	all := func() {
		m.Logits(of, w, b, 0.5, z)
		m.Back(of, w, b, 0.5, z)
		for _, kind := range []string{"trace", "lmax", "residual"} {
			learn.NTK{Blend: m, Kind: kind, Center: true}.Share(of, w, b)
		}
		for _, term := range terms {
			term.Grad(w, b)
		}
	}
	all()
	if n := testing.AllocsPerRun(10, all); n != 0 {
		t.Errorf("a blended batch allocates %g times, want 0", n)
	}
	for i, x := range w.View[tinyItem].Arena {
		if x != before[i] {
			t.Fatalf("element %d of the arena is %g after, %g before", i, x, before[i])
		}
	}
}

// The weight of an item depends on the lengths of its two rows.
func TestBlendWeightCanDependOnItem(t *testing.T) {
	of, m := newTiny(method.Shared, rests), learn.Blend{Own: tinyItem, Frozen: tinyItem, PerItem: true}
	w, b := mixing(t, of, tinyItem)
	z := make([]float32, b.N)
	m.Logits(of, w, b, 0.5, z)
	vector := widen(w.View[tinyVector].Val[:tinyDim])
	for x := range z {
		own, frozen := pair(w, b, m, x)
		l := dot(own, own) / (dot(own, own) + dot(frozen, frozen))
		want := float64(w.View[tinyBias].Val[0]) + l*dot(own, vector) + (1-l)*dot(frozen, vector)
		if !close(float64(z[x]), want, 1e-5) {
			t.Errorf("logit %d is %g, want %g", x, z[x], want)
		}
	}
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
