package learn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// Weight decay is applied lazily, row by row, while a dense optimiser shrinks every row in every
// step. Both must give the same result, including rows that no batch touched, for a shared table
// (returned as a delta) and for a private one (kept between rounds).
func TestLazyDecayMatchesDenseOptimiser(t *testing.T) {
	for _, scope := range []method.Scope{method.Shared, method.Private} {
		for _, decay := range []float32{0, 0.01, 0.3, 1, 1.7} { // rate 0.8: factors from 1 to -0.36
			var got []batch
			m := newTiny(scope, func(m method.Learner) method.Visit {
				return learn.Epochs(3, 0, seen(&got, learn.Descend(learn.BCE(m),
					learn.SGD(tinyItem, learn.Const(0.8), decay),
					learn.SGD(tinyVector, learn.Const(0.5), decay/2),
					learn.SGD(tinyBias, learn.Const(0.5), 0))))
			})
			b := open(t, m, false)
			d := newDense(b)
			for round := range 4 {
				if scope == method.Shared { // each local training starts from the coordinator's table
					d.item = newDense(b).item
				}
				got = nil
				b.Visit(&b.state, task(round), 0, false)
				if len(got) != 3*6 {
					t.Fatalf("21 samples in batches of 4, three times, are %d batches, want 18", len(got))
				}
				for _, x := range got {
					d.step(x, 0.8, 0.5, float64(decay))
				}
				b.agree(t, fmt.Sprintf("%s table, decay %g, visit %d", scope, decay, round), d, 2e-5)
			}
		}
	}
}

// step takes one dense step on all parameters.
func (d *dense) step(x batch, itemRate, rate, decay float64) {
	g := d.grad(x)
	for i := range d.item {
		for k := range d.item[i] {
			sgd(&d.item[i][k], g.item[i][k], itemRate, decay)
		}
	}
	for k := range d.vector {
		sgd(&d.vector[k], g.vector[k], rate, decay/2)
	}
	sgd(&d.bias, g.bias, rate, 0)
}

// A step with a decay factor of exactly 0 clears the row; later steps must still apply.
func TestStepsAfterFullDecayStillApply(t *testing.T) {
	var got []batch
	m := newTiny(method.Shared, func(m method.Learner) method.Visit {
		return learn.Epochs(2, 0, seen(&got, learn.Descend(learn.BCE(m),
			learn.SGD(tinyItem, learn.Const(0.5), 2), learn.SGD(tinyVector, learn.Const(0.5), 0))))
	})
	b := open(t, m, false)
	d := newDense(b)
	b.Visit(&b.state, task(0), 0, false)
	for _, x := range got {
		g := d.grad(x)
		for i := range d.item {
			for k := range d.item[i] {
				sgd(&d.item[i][k], g.item[i][k], 0.5, 2)
			}
		}
		for k := range d.vector {
			sgd(&d.vector[k], g.vector[k], 0.5, 0)
		}
	}
	b.agree(t, "rate 0.5, decay 2", d, 2e-5)
}

// moments is a dense Adam that, like PyTorch's SparseAdam, skips rows that a batch does not
// touch.
type moments struct {
	m, v  dense
	steps float64
}

func (a *moments) step(d *dense, x batch, lr float64) {
	const eps = 1e-8
	b1, b2 := float64(float32(0.9)), float64(float32(0.999))
	g := d.grad(x)
	a.steps++
	c1, c2 := 1-math.Pow(b1, a.steps), 1-math.Pow(b2, a.steps)
	one := func(x, m, v *float64, g float64) {
		*m, *v = b1**m+(1-b1)*g, b2**v+(1-b2)*g*g
		*x -= lr * (*m / c1) / (math.Sqrt(*v/c2) + eps)
	}
	touched := map[uint32]bool{}
	for _, i := range x.item {
		touched[i] = true
	}
	for i := range touched {
		for k := range tinyDim {
			one(&d.item[i][k], &a.m.item[i][k], &a.v.item[i][k], g.item[i][k])
		}
	}
	for k := range tinyDim {
		one(&d.vector[k], &a.m.vector[k], &a.v.vector[k], g.vector[k])
	}
	one(&d.bias, &a.m.bias, &a.v.bias, g.bias)
}

func TestAdamMatchesDenseOptimiserAndKeepsMomentsOnRequest(t *testing.T) {
	for _, persist := range []bool{true, false} {
		var got []batch
		m := newTiny(method.Private, func(m method.Learner) method.Visit {
			lr := learn.Const(0.05)
			return learn.Epochs(2, 0, seen(&got, learn.Descend(learn.BCE(m),
				learn.Adam(tinyItem, lr, persist), learn.Adam(tinyVector, lr, persist),
				learn.Adam(tinyBias, lr, persist))))
		})
		b := open(t, m, false)
		d, a := newDense(b), &moments{}
		for round := range 5 {
			if !persist {
				a = &moments{}
			}
			got = nil
			b.Visit(&b.state, task(round), 0, false)
			for _, x := range got {
				a.step(d, x, 0.05)
			}
			// Adam divides small numbers by small numbers: rounding is amplified.
			b.agree(t, fmt.Sprintf("persist %v, visit %d", persist, round), d, 2e-3)
		}
		if n := len(b.plan.Slots); n != 4+9 {
			t.Errorf("three Adam rules turn 4 slots into %d, want 13", n)
		}
		for _, s := range b.plan.Slots[4:] {
			if want := map[bool]method.Scope{true: method.Private, false: method.Ephemeral}[persist]; s.Scope != want {
				t.Errorf("persist %v: slot %q is %s, want %s", persist, s.Name, s.Scope, want)
			}
		}
	}
}

func TestSlotWithoutRuleIsFrozen(t *testing.T) {
	m := newTiny(method.Private, func(m method.Learner) method.Visit {
		return learn.Epochs(2, 0, learn.Descend(learn.BCE(m), learn.SGD(tinyBias, learn.Const(0.5), 0)))
	})
	b := open(t, m, false)
	d := newDense(b)
	for round := range 3 {
		b.Visit(&b.state, task(round), 0, false)
	}
	if got := float64(b.state.Plain[8]); got == d.bias {
		t.Errorf("the bias is %g after three rounds of local training", got)
	}
	d.bias = float64(b.state.Plain[8])
	b.agree(t, "only the bias has a rule", d, 0)
}

// The second step must see the result of the first, fused or not.
func TestAlternateTakesStepsInOrderOnSameBatch(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, itemFirst := range []bool{false, true} {
			var got []batch
			base := newTiny(method.Shared, func(m method.Learner) method.Visit {
				bce := learn.BCE(m)
				score := learn.Descend(bce, learn.SGD(tinyVector, learn.Const(0.5), 0.1),
					learn.SGD(tinyBias, learn.Const(0.5), 0))
				rows := learn.Descend(bce, learn.SGD(tinyItem, learn.Const(3), 0))
				steps := []method.Step{seen(&got, score), rows}
				if itemFirst {
					steps = []method.Step{seen(&got, rows), score}
				}
				return learn.Epochs(1, 0, learn.Alternate(steps...))
			})
			b := open(t, headed{base}, plain)
			d := newDense(b)
			b.Visit(&b.state, task(0), 0, false)
			score := func(x batch) {
				g := d.grad(x)
				for k := range d.vector {
					sgd(&d.vector[k], g.vector[k], 0.5, 0.1)
				}
				sgd(&d.bias, g.bias, 0.5, 0)
			}
			rows := func(x batch) {
				g := d.grad(x)
				for i := range d.item {
					for k := range d.item[i] {
						sgd(&d.item[i][k], g.item[i][k], 3, 0)
					}
				}
			}
			for _, x := range got {
				if itemFirst {
					rows(x)
					score(x)
				} else {
					score(x)
					rows(x)
				}
			}
			if len(got) != 6 {
				t.Fatalf("21 samples in batches of 4 are %d batches, want 6", len(got))
			}
			b.agree(t, fmt.Sprintf("plain %v, item first %v", plain, itemFirst), d, 2e-5)
		}
	}
}
