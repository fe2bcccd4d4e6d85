package learn_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

const centralUsers, centralItems = 4, 6

// pool returns the slots of a Central with random values and few samples, so that users and
// items repeat within a batch.
func pool(c learn.Central) *method.Pool {
	r := rng.New(rng.Test, uint64(c.Dim))
	p := &method.Pool{BatchSize: 5, WantLoss: true}
	for _, s := range c.Slots() {
		rows := s.Rows
		if s.PerItem {
			rows = centralItems
		}
		if s.PerUser {
			rows = centralUsers
		}
		v := make([]float32, rows*vec.Pad(s.Dim))
		for i := range rows {
			for k := range s.Dim {
				if s.Init.Kind != method.Zeros {
					v[i*vec.Pad(s.Dim)+k] = float32(r.Norm()) * 0.7
				}
			}
		}
		p.Value, p.Stride = append(p.Value, v), append(p.Stride, vec.Pad(s.Dim))
	}
	for x := range 13 {
		p.User = append(p.User, r.Uint32n(centralUsers))
		p.Item = append(p.Item, r.Uint32n(centralItems))
		p.Y = append(p.Y, float32(x%2))
		p.Rating = append(p.Rating, float32(x%2)*float32(x%5))
	}
	return p
}

// paper is the reference in float64, with gradients by finite differences and Adam as published
// by Kingma and Ba.
type paper struct {
	c     learn.Central
	value [][]float64
	m, v  [][]float64
	steps int
	p     *method.Pool
}

func paperOf(c learn.Central, p *method.Pool) *paper {
	own := (len(p.Value) - 1) / 3
	out := &paper{c: c, p: p}
	for _, v := range p.Value[:own] {
		out.value = append(out.value, widen(v))
		out.m, out.v = append(out.m, make([]float64, len(v))), append(out.v, make([]float64, len(v)))
	}
	return out
}

func (o *paper) logit(x int) float64 {
	row := func(slot int, id uint32) []float64 { return o.value[slot][int(id)*o.p.Stride[slot]:][:o.c.Dim] }
	user, item := row(learn.UserSlot, o.p.User[x]), row(learn.ItemSlot, o.p.Item[x])
	if len(o.c.Hidden) == 0 {
		z := o.value[learn.LayerSlot][0]
		for k := range user {
			z += user[k] * item[k]
		}
		return z
	}
	n := &network{user: user}
	in := 2 * o.c.Dim
	for l := range o.c.Layers() {
		out := 1
		if l < len(o.c.Hidden) {
			out = o.c.Hidden[l]
		}
		slot := learn.LayerSlot + 2*l
		var rows [][]float64
		for r := range out {
			rows = append(rows, o.value[slot][r*o.p.Stride[slot]:][:in])
		}
		n.weights, n.biases = append(n.weights, rows), append(n.biases, o.value[slot+1])
		in = out
	}
	return n.score(item)
}

func (o *paper) loss(lo, hi int) float64 {
	s := 0.0
	for x := lo; x < hi; x++ {
		z := o.logit(x)
		if o.c.Loss == "squared" {
			s += (z - float64(o.p.Rating[x])) * (z - float64(o.p.Rating[x]))
			continue
		}
		s += math.Log1p(math.Exp(-z)) + (1-float64(o.p.Y[x]))*z
	}
	return s / float64(hi-lo)
}

func (o *paper) step(lo, hi int) {
	o.steps++
	type move struct {
		at *float64
		to float64
	}
	var moves []move
	for slot := range o.value {
		for k := range o.value[slot] {
			if !o.touched(slot, k, lo, hi) {
				continue
			}
			const h = 1e-6
			at := &o.value[slot][k]
			old := *at
			*at = old + h
			up := o.loss(lo, hi)
			*at = old - h
			down := o.loss(lo, hi)
			*at = old
			g := (up-down)/(2*h) + float64(o.c.Decay)*old
			o.m[slot][k] = 0.9*o.m[slot][k] + 0.1*g
			o.v[slot][k] = 0.999*o.v[slot][k] + 0.001*g*g
			m := o.m[slot][k] / (1 - math.Pow(0.9, float64(o.steps)))
			v := o.v[slot][k] / (1 - math.Pow(0.999, float64(o.steps)))
			moves = append(moves, move{at, old - float64(o.c.LR)*m/(math.Sqrt(v)+1e-8)})
		}
	}
	for _, m := range moves {
		*m.at = m.to
	}
}

func (o *paper) touched(slot, k, lo, hi int) bool {
	ids := map[int][]uint32{learn.UserSlot: o.p.User, learn.ItemSlot: o.p.Item}[slot]
	if ids == nil {
		return true
	}
	for _, id := range ids[lo:hi] {
		if int(id) == k/o.p.Stride[slot] {
			return true
		}
	}
	return false
}

func TestCentralTrainingMatchesPublishedAdam(t *testing.T) {
	for _, c := range []learn.Central{
		{Score: learn.Score{Dim: 5}, Loss: "bce", LR: 0.05},
		{Score: learn.Score{Dim: 8}, Loss: "squared", LR: 0.02, Decay: 0.1},
		{Score: learn.Score{Dim: 3, Hidden: learn.Layers{6, 4}}, Loss: "bce", LR: 0.03, Decay: 0.01},
		{Score: learn.Score{Dim: 8, Hidden: learn.Layers{8}}, Loss: "squared", LR: 0.01},
	} {
		c.Start = 1
		p := pool(c)
		o := paperOf(c, p)
		first := o.loss(0, 5)
		c.Pass(p)
		if p.LossN != 13 || p.Loss <= 0 || first <= 0 {
			t.Errorf("%+v: a pass reports a loss of %g over %d samples", c, p.Loss, p.LossN)
		}
		for lo := 0; lo < 13; lo += 5 {
			o.step(lo, min(lo+5, 13))
		}
		for slot := range o.value {
			for k, want := range o.value[slot] {
				if got := float64(p.Value[slot][k]); math.Abs(got-want) > 2e-3*math.Max(0.1, math.Abs(want)) {
					t.Errorf("%+v: slot %d number %d is %g, the formula gives %g", c, slot, k, got, want)
				}
			}
		}
	}
}

func TestSolveIsTheInverse(t *testing.T) {
	r := rng.New(rng.Test)
	for _, d := range []int{1, 2, 7, 32} {
		a, x, y := make([]float64, d*d), make([]float64, d), make([]float64, d)
		for range 2 * d { // a sum of outer products, plus a small diagonal
			v := make([]float64, d)
			for i := range v {
				v[i] = r.Norm()
			}
			for i := range d {
				for j := range d {
					a[i*d+j] += v[i] * v[j]
				}
			}
		}
		for i := range d {
			a[i*d+i] += 0.1
			x[i] = r.Norm()
		}
		for i := range d {
			for j := range d {
				y[i] += a[i*d+j] * x[j]
			}
		}
		if !learn.Solve(a, y) {
			t.Fatalf("Solve fails on %d equations", d)
		}
		for i := range x {
			if math.Abs(x[i]-y[i]) > 1e-8 {
				t.Errorf("%d equations: unknown %d is %g, want %g", d, i, y[i], x[i])
			}
		}
	}
	for _, a := range [][]float64{{0}, {-1}, {math.NaN()}} {
		if learn.Solve(a, []float64{1}) {
			t.Errorf("Solve accepts %v, which is not positive definite", a)
		}
	}
}
