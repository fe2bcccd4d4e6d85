package learn_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// point holds the parameters that a batch reads, in float64: the rows of the two tables by
// position, the vector and the bias.
type point struct {
	item, other [][tinyDim]float64
	vector      [tinyDim]float64
	bias        float64
}

func pointOf(w *method.Work, rows int) *point {
	p := &point{bias: float64(w.View[tinyBias].Val[0])}
	for k := range p.vector {
		p.vector[k] = float64(w.View[tinyVector].Val[k])
	}
	for pos := range uint32(rows) {
		var a, b [tinyDim]float64
		for k := range a {
			a[k] = float64(w.View[tinyItem].Row(w.View[tinyItem].Local + pos)[k])
			b[k] = float64(w.View[tinyOther].Row(w.View[tinyOther].Local + pos)[k])
		}
		p.item, p.other = append(p.item, a), append(p.other, b)
	}
	return p
}

// each calls f for every number of the point and its gradient in w.
func (p *point) each(w *method.Work, f func(name string, x *float64, grad float32)) {
	for k := range p.vector {
		f("vector", &p.vector[k], w.View[tinyVector].Grad[k])
	}
	f("bias", &p.bias, w.View[tinyBias].Grad[0])
	for pos := range p.item {
		for k := range tinyDim {
			f("item", &p.item[pos][k], w.View[tinyItem].GradRow(uint32(pos))[k])
			f("other", &p.other[pos][k], w.View[tinyOther].GradRow(uint32(pos))[k])
		}
	}
}

func (p *point) bce(b *method.Batch) float64 {
	s := 0.0
	for x, pos := range b.Pos {
		z := p.bias
		for k, v := range p.vector {
			z += v * p.item[pos][k]
		}
		s += math.Log1p(math.Exp(-z)) + (1-float64(b.Y[x]))*z
	}
	return s / float64(b.N)
}

func (p *point) apart(b *method.Batch, lambda float64) float64 {
	s := 0.0
	for _, pos := range b.Pos {
		for k := range tinyDim {
			d := p.other[pos][k] - p.item[pos][k]
			s += d * d
		}
	}
	return -lambda * s / float64(b.N*tinyDim)
}

func (p *point) l1(b *method.Batch, mu float64) float64 {
	s := 0.0
	for _, pos := range b.Pos {
		for k := range tinyDim {
			s += math.Abs(p.item[pos][k])
		}
	}
	return mu * s / float64(b.N*tinyDim)
}

// oracles returns the losses under test, each with the same loss in float64.
func oracles(m method.Learner) map[string]struct {
	o    method.Oracle
	loss func(p *point, b *method.Batch) float64
} {
	bce := learn.BCE(m)
	apart, l1 := learn.Separate(tinyOther, tinyItem, learn.Const(0.4)), learn.L1(tinyItem, learn.Const(0.3))
	type c = struct {
		o    method.Oracle
		loss func(p *point, b *method.Batch) float64
	}
	return map[string]c{
		"BCE": {bce, (*point).bce},
		"BCE-Apart": {learn.WithTerms(bce, apart), func(p *point, b *method.Batch) float64 {
			return p.bce(b) +
				p.apart(b, 0.4)
		}},
		"BCE+L1": {learn.WithTerms(bce, l1), func(p *point, b *method.Batch) float64 {
			return p.bce(b) +
				p.l1(b, 0.3)
		}},
		"all": {learn.WithTerms(bce, apart, l1), func(p *point, b *method.Batch) float64 {
			return p.bce(b) + p.apart(b, 0.4) + p.l1(b, 0.3)
		}},
	}
}

// The batch holds all samples, and rows repeat in it.
func TestGradientsAreFiniteDifferences(t *testing.T) {
	m := newTiny(method.Shared, func(method.Learner) method.Visit { return method.Visit{Run: func(*method.Work) {}} })
	for name, c := range oracles(m) {
		b := open(t, m, true)
		w := b.ResolveSamples(&b.state, task(2))
		w.WantLoss = true
		w.Z = make([]float32, len(w.Samples.Item))
		all := w.Batch(0, len(w.Samples.Item))
		w.View[tinyItem].Row(all.Rd[tinyItem][3])[2] = 0 // |x| has a kink at 0
		p := pointOf(w, len(all.Rows))
		if len(all.Rows) == all.N {
			t.Fatal("no row repeats in the batch")
		}
		w.ClearGrads(all)
		sum := c.o.Grad(w, all)
		if want := c.loss(p, all) * float64(all.N); math.Abs(sum-want) > 1e-5*math.Abs(want) {
			t.Errorf("%s: the loss is %g, want %g: the sum over %d samples", name, sum, want, all.N)
		}
		p.each(w, func(slot string, x *float64, grad float32) {
			const h = 1e-6
			old := *x
			*x = old + h
			up := c.loss(p, all)
			*x = old - h
			down := c.loss(p, all)
			*x = old
			if want := (up - down) / (2 * h); math.Abs(float64(grad)-want) > 1e-6+1e-5*math.Abs(want) {
				t.Errorf("%s: a gradient of %s is %g, the finite difference %g", name, slot, grad, want)
			}
		})
	}
}

func TestTermsFollowTheirSchedules(t *testing.T) {
	m := newTiny(method.Shared, func(method.Learner) method.Visit { return method.Visit{Run: func(*method.Work) {}} })
	b := open(t, m, true)
	for _, round := range []int{0, 4} {
		w := b.ResolveSamples(&b.state, task(round))
		all := w.Batch(0, 4)
		p := pointOf(w, 21)
		at := math.Tanh(float64(round) / 10)
		grow := learn.Schedule{Kind: "tanh", V: 1, A: 10}
		if got, want := learn.L1(tinyItem, grow).Grad(w, all), 4*p.l1(all, at); math.Abs(got-want) > 1e-5 {
			t.Errorf("round %d: L1 is %g, want %g", round, got, want)
		}
		if got, want := learn.Separate(tinyItem, tinyOther, grow).Grad(w, all),
			4*p.apart(all, at); math.Abs(got-want) > 1e-5 {
			t.Errorf("round %d: Separate is %g, want %g", round, got, want)
		}
	}
}

// As in PyTorch, one sample contributes at most 100; NaN gives NaN.
func TestLossOfConfidentMistakeIsBounded(t *testing.T) {
	m := headed{newTiny(method.Shared, nil)}
	sum := learn.BCE(m).HeadLoss.Sum
	loss := func(z, y []float32) float64 { return sum(&method.Batch{N: len(y), Y: y}, z) }
	for _, c := range []struct {
		z, y float32
		want float64
	}{
		{0, 1, math.Ln2},
		{0, 0, math.Ln2},
		{3, 1, 0.04858735},
		{3, 0, 3.04858735},
		{-3, 0, 0.04858735},
		{50, 0, 100},
		{1e30, 0, 100},
		{1e30, 1, 0},
		{-1e30, 0, 0},
		{-20, 1, 20},
		{-80, 1, 80},
		{-1e30, 1, 80}, // the sigmoid clamps at 80
	} {
		if got := loss([]float32{c.z}, []float32{c.y}); math.Abs(got-c.want) > 1e-5*math.Max(1, c.want) {
			t.Errorf("the loss of logit %g with label %g is %g, want %g", c.z, c.y, got, c.want)
		}
	}
	if got := loss([]float32{float32(math.NaN())}, []float32{1}); got == got {
		t.Errorf("the loss of NaN is %g, want NaN", got)
	}
}

func TestLossIsComputedOnlyOnRequest(t *testing.T) {
	for _, m := range []method.Learner{newTiny(method.Shared, nil), headed{newTiny(method.Shared, nil)}} {
		step := learn.Descend(learn.BCE(m), learn.SGD(tinyBias, learn.Const(0), 0))
		for _, want := range []bool{false, true} {
			base := newTiny(method.Shared, func(method.Learner) method.Visit { return learn.Epochs(1, 0, step) })
			b := open(t, base, false)
			out := b.Visit(&b.state, task(0), 0, want)
			if (out.Loss != 0) != want || (out.LossN == 21) != want {
				t.Errorf("%T, asked %v: loss %g over %d samples", m, want, out.Loss, out.LossN)
			}
		}
	}
}

// For a batch with 3 positives and 5 negatives, bpr uses five pairs: it cycles through the
// positives.
func TestLossesMatchFormulas(t *testing.T) {
	y := []float32{0, 1, 0, 0, 1, 0, 1, 0}
	b := &method.Batch{N: 8, Y: y, Rating: []float32{0, 5, 0, 0, 3, 0, 0.5, 0}}
	pos, neg := []int{1, 4, 6, 1, 4}, []int{0, 2, 3, 5, 7}
	onPaper := map[string]func(z []float64) float64{
		"bce": func(z []float64) float64 {
			s := 0.0
			for x := range z {
				s += math.Log1p(math.Exp(-z[x])) + (1-float64(y[x]))*z[x]
			}
			return s
		},
		"squared": func(z []float64) float64 {
			s := 0.0
			for x := range z {
				s += (z[x] - float64(b.Rating[x])) * (z[x] - float64(b.Rating[x]))
			}
			return s
		},
		"bpr": func(z []float64) float64 {
			s := 0.0
			for k := range pos {
				s += math.Log1p(math.Exp(-(z[pos[k]] - z[neg[k]])))
			}
			return s * 8 / 5
		},
	}
	for name := range onPaper {
		l := learn.LossNamed(name)
		z := []float32{0.3, -1, 2, 0, 1.5, -0.2, 0.7, 3}
		wide := widen(z)
		if got, want := l.Sum(b, z), onPaper[name](wide); math.Abs(got-want) > 1e-5*want {
			t.Errorf("%s: the loss is %g, the formula gives %g", name, got, want)
		}
		var room method.Scratch
		l.Grad(&room, b, 0.5, z)
		for x := range wide {
			const h = 1e-6
			wide[x] += h
			up := onPaper[name](wide)
			wide[x] -= 2 * h
			down := onPaper[name](wide)
			wide[x] += h
			if want := 0.5 * (up - down) / (2 * h); math.Abs(float64(z[x])-want) > 1e-5 {
				t.Errorf("%s: the gradient of logit %d is %g, the finite difference %g", name, x, z[x], want)
			}
		}
	}
}

func TestPairsRequirePositivesAndNegatives(t *testing.T) {
	l := learn.LossNamed("bpr")
	var room method.Scratch
	for _, y := range [][]float32{{}, {1}, {0}, {1, 1}, {0, 0, 0}} {
		b, z := &method.Batch{N: len(y), Y: y}, make([]float32, len(y))
		for i := range z {
			z[i] = 3
		}
		if got := l.Sum(b, z); got != 0 {
			t.Errorf("labels %v: the loss is %g, want 0", y, got)
		}
		if l.Grad(&room, b, 1, z); !zero(z) {
			t.Errorf("labels %v: the gradient is %v, want zeros", y, z)
		}
	}
}

func TestRatingsReachTheLossInEveryLayout(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, rating := range [][]float32{nil, {5, 4, 3, 2, 1, 0.5, 4.5}} {
			var got map[uint32]float32
			look := method.Step{InPlace: true, UsesRatings: true, Do: func(w *method.Work, b *method.Batch) float64 {
				for x, item := range b.Item {
					if (b.Y[x] == 0) != (b.Rating[x] == 0) {
						t.Errorf("item %d has label %g and rating %g", item, b.Y[x], b.Rating[x])
					}
					if b.Y[x] != 0 {
						got[item] = b.Rating[x]
					}
				}
				return 0
			}}
			b := open(t, headed{newTiny(method.Shared, func(method.Learner) method.Visit {
				return learn.Epochs(1, 0,
					look)
			})}, plain)
			got = map[uint32]float32{}
			at := task(0)
			at.Rating = rating
			b.Visit(&b.state, at, 0, false)
			for x, item := range train {
				want := float32(1)
				if rating != nil {
					want = rating[x]
				}
				if item == 3 && rating != nil {
					want = rating[2] // rated twice: the newest rating counts
				}
				if got[item] != want {
					t.Errorf("plain %v: the rating of item %d is %g, want %g", plain, item, got[item], want)
				}
			}
		}
	}
}
