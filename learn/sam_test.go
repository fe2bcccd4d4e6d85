package learn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// counted counts the evaluations of an oracle.
func counted(n *int, o method.Oracle) method.Oracle {
	inner := o.Grad
	o.Grad = func(w *method.Work, b *method.Batch) float64 { *n++; return inner(w, b) }
	o.HeadLoss = nil
	return o
}

// unsharp is a bilinear head with two SAM groups: rows and bias, and the vector.
func unsharp(rho, own float32, passes *int) *tiny {
	return newTiny(method.Shared, func(m method.Learner) method.Visit {
		o := learn.SAM(counted(passes, learn.BCE(m)),
			learn.Neighbourhood{Rho: learn.Const(rho), Slots: []int{tinyItem, tinyBias}}, learn.Neighbourhood{
				Rho:   learn.Const(own),
				Slots: []int{tinyVector},
			})
		rate := learn.Const(0.3)
		return learn.Epochs(2, 0, learn.Descend(o, learn.SGD(tinyItem, rate, 0), learn.SGD(tinyVector, rate, 0),
			learn.SGD(tinyBias, rate, 0)))
	})
}

// sharpen is the reference: SAM over whole tables in float64. It moves each group separately,
// along the gradient at the point and with one norm per group.
func (d *dense) sharpen(b batch, rho, own float64) *dense {
	g := d.grad(b)
	norm, mine := g.bias*g.bias, 0.0
	for i := range g.item {
		for _, x := range g.item[i] {
			norm += x * x
		}
	}
	for _, x := range g.vector {
		mine += x * x
	}
	rho, own = rho/(math.Sqrt(norm)+1e-12), own/(math.Sqrt(mine)+1e-12)
	beside, other := *d, *d
	beside.bias += rho * g.bias
	for i := range g.item {
		for k := range g.item[i] {
			beside.item[i][k] += rho * g.item[i][k]
		}
	}
	for k := range g.vector {
		other.vector[k] += own * g.vector[k]
	}
	out := beside.grad(b)
	out.vector = other.grad(b).vector
	return out
}

func TestSAMIsTheGradientAtThePerturbedPoint(t *testing.T) {
	for _, c := range [][2]float32{{0.5, 0.2}, {0.5, 0}, {0, 0.2}} {
		passes := 0
		m := unsharp(c[0], c[1], &passes)
		var batches []batch
		b := open(t, m, false)
		d := newDense(b)
		// The batches that a plain method gets for the same samples.
		spy := newTiny(method.Shared, func(l method.Learner) method.Visit {
			return learn.Epochs(2, 0, seen(&batches, learn.Descend(learn.WithTerms(learn.BCE(l)),
				learn.SGD(tinyBias, learn.Const(0), 0))))
		})
		s := open(t, spy, false)
		s.Visit(&s.state, task(0), local.NotCounted, false)
		b.Visit(&b.state, task(0), 0, true)
		for _, x := range batches {
			g := d.sharpen(x, float64(c[0]), float64(c[1]))
			d.bias -= 0.3 * g.bias
			for k := range d.vector {
				d.vector[k] -= 0.3 * g.vector[k]
			}
			for i := range d.item {
				for k := range d.item[i] {
					d.item[i][k] -= 0.3 * g.item[i][k]
				}
			}
		}
		b.agree(t, "after SAM", d, 1e-5)
		want := len(batches)
		for _, rho := range c {
			if rho != 0 {
				want += len(batches)
			}
		}
		if passes != want {
			t.Errorf("rho %v: %d passes over %d batches, want %d", c, passes, len(batches), want)
		}
	}
}

func TestSAMWithoutRhoHasTheBitsOfThePlainGradient(t *testing.T) {
	passes := 0
	still := open(t, unsharp(0, 0, &passes), false)
	plain := open(t, newTiny(method.Shared, func(m method.Learner) method.Visit {
		rate := learn.Const(0.3)
		return learn.Epochs(2, 0, learn.Descend(learn.WithTerms(learn.BCE(m)), learn.SGD(tinyItem, rate, 0),
			learn.SGD(tinyVector, rate, 0), learn.SGD(tinyBias, rate, 0)))
	}), false)
	for round := range 3 {
		a, b := still.Visit(&still.state, task(round), 0, true), plain.Visit(&plain.state, task(round), 0, true)
		if a != b || !slices.Equal(still.state.Plain, plain.state.Plain) ||
			!slices.Equal(still.Delta(0).Parts[0].Data, plain.Delta(0).Parts[0].Data) {
			t.Fatalf("round %d: SAM without rho differs from the plain gradient", round)
		}
	}
	if passes != 3*2*6 { // 21 samples in batches of 4
		t.Errorf("%d passes, want one for each of 36 batches", passes)
	}
}

// SAM must restore every value exactly: if the rules change nothing, local training changes
// nothing.
func TestSAMRestoresEveryValue(t *testing.T) {
	for _, up := range []method.Upload{method.Delta, method.Gradient} {
		m := &neural{NeuMF: learn.NeuMF{Dim: 6, Hidden: learn.Layers{10, 4}}, up: up, start: 0.3}
		m.visit = func(l method.Learner) method.Visit {
			shared, user := m.Groups()
			o := learn.SAM(learn.InSubBatches(learn.BCE(l)), learn.Neighbourhood{Rho: learn.Const(3), Slots: shared},
				learn.Neighbourhood{Rho: learn.Const(7), Slots: user})
			return learn.Once(learn.Descend(o, learn.SGD(user[0], learn.Const(0), 0)))
		}
		b := open(t, m, false)
		before := slices.Clone(b.state.Plain)
		b.Visit(&b.state, task(0), 0, false)
		if !slices.Equal(before, b.state.Plain) {
			t.Errorf("%v: the private vectors have changed", up)
		}
		for _, p := range b.Delta(0).Parts {
			if !zero(p.Data) {
				t.Errorf("%v: slot %d has a non-zero delta", up, p.Slot)
			}
		}
	}
}

// SendGradient must send the sum over sub-batches of their mean gradients; rows that occur twice
// contribute the sum.
func TestSendGradientSendsTheGradient(t *testing.T) {
	m := &neural{NeuMF: learn.NeuMF{Dim: 6, Hidden: learn.Layers{10, 4}}, up: method.Gradient, start: 0.3}
	m.visit = func(l method.Learner) method.Visit {
		shared, _ := m.Groups()
		var rules []learn.Rule
		for _, i := range shared {
			rules = append(rules, learn.SendGradient(i))
		}
		return learn.Once(learn.Descend(learn.InSubBatches(learn.BCE(l)), rules...))
	}
	b := open(t, m, false)
	out := b.Visit(&b.state, task(0), 0, true)
	u := b.Delta(0)
	o := open(t, m, true)
	w := o.ResolveSamples(&o.state, task(0))
	w.WantLoss = true
	n, loss := len(w.Samples.Item), 0.0
	for lo := 0; lo < n; lo += 4 {
		loss += learn.BCE(m).Grad(w, w.Batch(lo, min(lo+4, n)))
	}
	if out.Loss != loss || out.LossN != n {
		t.Errorf("the loss of %d samples is reported as %g, want %g of %d", out.LossN, out.Loss, loss, n)
	}
	at := map[uint32]uint32{}
	for x, i := range w.Samples.Item {
		at[i] = w.Samples.Pos[x]
	}
	for _, p := range u.Parts {
		v := &w.View[p.Slot]
		for k := range len(p.Data) / p.Dim {
			want := v.Grad
			if p.IDs != nil {
				want = v.GradRow(at[p.IDs[k]])
			} else {
				want = want[k*v.Stride:]
			}
			if !slices.Equal(p.Data[k*p.Dim:(k+1)*p.Dim], want[:p.Dim]) {
				t.Fatalf("slot %s row %d: the device sends %v, the gradient is %v", v.Slot.Name, k,
					p.Data[k*p.Dim:(k+1)*p.Dim],
					want[:p.Dim])
			}
		}
	}
	if len(u.Parts) != 9 || zero(u.Parts[0].Data) {
		t.Errorf("%d slots are sent, want 9, and they must not be empty", len(u.Parts))
	}
}

// mute has no Update method, so the server would ignore the gradients that it sends.
type mute struct{ m *neural }

func (x mute) Slots(n int) []method.Slot                             { return x.m.Slots(n) }
func (x mute) Visit(int) method.Visit                                { return rests(nil) }
func (x mute) Logits(w *method.Work, b *method.Batch, out []float32) { x.m.Logits(w, b, out) }

func TestRejectsGradientUploadWithoutServerUpdate(t *testing.T) {
	m := mute{&neural{NeuMF: learn.NeuMF{Dim: 2, Hidden: learn.Layers{2}}, up: method.Gradient}}
	const want = `slot "item.gmf": devices send its gradient, so the method must implement Updater`
	if _, err := local.NewPlan(m, local.Options{Items: 3, Rounds: 1, Batch: 4, Negatives: 1}); err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
