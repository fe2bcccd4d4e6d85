package learn_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// distinct returns the batch's rows in float64, one per item.
func distinctRows(w *method.Work, b *method.Batch, m learn.Blend) (own, frozen [][]float64) {
	seen := map[uint32]bool{}
	for x, p := range b.Pos {
		if !seen[p] {
			seen[p] = true
			o, f := pair(w, b, m, x)
			own, frozen = append(own, o), append(frozen, f)
		}
	}
	return own, frozen
}

func centred(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows))
	for r := range rows {
		out[r] = append([]float64(nil), rows[r]...)
		for k := range rows[r] {
			for _, other := range rows {
				out[r][k] -= other[k] / float64(len(rows))
			}
		}
	}
	return out
}

// top returns the largest eigenvalue of the kernel Phi Phi'.
func top(rows [][]float64) float64 {
	v := make([]float64, len(rows))
	for i := range v {
		v[i] = 1 + float64(i%3)
	}
	value := 0.0
	for range 3000 {
		next := make([]float64, len(v))
		for a := range rows {
			for b := range rows {
				next[a] += dot(rows[a], rows[b]) * v[b]
			}
		}
		value = math.Sqrt(dot(next, next))
		for i := range v {
			v[i] = next[i] / value
		}
	}
	return value
}

func trace(rows [][]float64) float64 {
	s := 0.0
	for _, r := range rows {
		s += dot(r, r)
	}
	return s
}

func TestSharesMatchTangentKernel(t *testing.T) {
	of, m := newTiny(method.Shared, rests), learn.Blend{Own: tinyItem, Frozen: tinyItem}
	w, b := mixing(t, of, tinyItem)
	own, frozen := distinctRows(w, b, m)
	share := func(of func([][]float64) float64, center bool) float64 {
		a, c := own, frozen
		if center {
			a, c = centred(a), centred(c)
		}
		return of(a) / (of(a) + of(c))
	}
	vector, bias := widen(w.View[tinyVector].Val[:tinyDim]), float64(w.View[tinyBias].Val[0])
	rate := func(frozen bool) float64 {
		sum, rr := make([]float64, tinyDim), 0.0
		for x := range b.N {
			row, other := pair(w, b, m, x)
			if frozen {
				row = other
			}
			r := sigmoid(dot(row, vector)+bias) - float64(b.Y[x])
			rr += r * r
			for k := range sum {
				sum[k] += r * row[k]
			}
		}
		return dot(sum, sum) / rr
	}
	for _, c := range []struct {
		kind   string
		center bool
		want   float64
	}{
		{"trace", false, share(trace, false)},
		{"trace", true, share(trace, true)},
		{"lmax", false, share(top, false)},
		{"lmax", true, share(top, true)},
		{"residual", false, rate(false) / (rate(false) + rate(true))},
	} {
		got := learn.NTK{Blend: m, Kind: c.kind, Center: c.center}.Share(of, w, b)
		if math.Abs(float64(got)-c.want) > 1e-3 {
			t.Errorf("%s, centred %t: the share of the own rows is %g, the formula gives %g", c.kind, c.center, got,
				c.want)
		}
	}
}

func TestEqualTablesHaveShareOfOneHalf(t *testing.T) {
	one, deep := learn.Blend{Own: tinyItem, Frozen: tinyItem}, learn.Score{Dim: tinyDim, Hidden: learn.Layers{7, 3}}
	for _, c := range []struct {
		of method.Learner
		m  learn.Blend
	}{
		{newTiny(method.Shared, rests), one},
		{&network1{deep}, learn.Blend{Own: learn.ItemSlot, Frozen: learn.ItemSlot, Score: deep}},
	} {
		w, b := mixing(t, c.of)
		for _, kind := range []string{"trace", "lmax", "residual"} {
			if got := (learn.NTK{Blend: c.m, Kind: kind}).Share(c.of, w, b); got != 0.5 {
				t.Errorf("%s: equal rows have a share of %g, want exactly 0.5", kind, got)
			}
		}
	}
}

// network1 is a Score whose slots are all shared.
type network1 struct{ learn.Score }

func (m *network1) Slots(int) []method.Slot {
	return m.Score.Slots(func(int) bool { return false })
}
func (m *network1) Visit(int) method.Visit { return rests(m) }

// For a network, NTK compares the outputs of the last hidden layer with each of the two tables.
func TestNTKUsesLastHiddenLayer(t *testing.T) {
	s := learn.Score{Dim: tinyDim, Hidden: learn.Layers{7, 3}}
	of, m := &network1{s}, learn.Blend{Own: learn.ItemSlot, Frozen: learn.ItemSlot, Score: s}
	w, b := mixing(t, of, learn.ItemSlot)
	n := networkOf(w, s)
	last := func(item []float64) float64 {
		hidden := &network{n.user, n.weights[:2], n.biases[:2]}
		sum := 0.0
		for o := range n.weights[1] { // one output at a time, with the same network
			one := &network{
				n.user,
				[][][]float64{hidden.weights[0], {hidden.weights[1][o]}},
				[][]float64{hidden.biases[0], {hidden.biases[1][o]}},
			}
			x := math.Max(one.score(item), 0)
			sum += x * x
		}
		return sum
	}
	own, frozen := distinctRows(w, b, m)
	a, c := 0.0, 0.0
	for i := range own {
		a, c = a+last(own[i]), c+last(frozen[i])
	}
	got := learn.NTK{Blend: m, Kind: "trace"}.Share(of, w, b)
	if want := a / (a + c); math.Abs(float64(got)-want) > 1e-4 {
		t.Errorf("the share of the own rows is %g, the formula gives %g", got, want)
	}
}

// redundancy is the reference for the loss that Decorrelate adds.
func redundancy(x, y [][]float64, off float64, self bool) float64 {
	if self {
		y = x
	}
	m := float64(len(x))
	std := func(rows [][]float64) [][]float64 {
		out := centred(rows)
		for k := range rows[0] {
			v := 0.0
			for _, r := range out {
				v += r[k] * r[k] / m
			}
			for _, r := range out {
				r[k] /= math.Sqrt(v + 1e-5)
			}
		}
		return out
	}
	x, y = std(x), std(y)
	sum := 0.0
	for k := range x[0] {
		for l := range x[0] {
			c := 0.0
			for r := range x {
				c += x[r][k] * y[r][l] / m
			}
			switch {
			case k != l && self:
				sum += c * c
			case k != l:
				sum += off * c * c
			case !self:
				sum += (1 - c) * (1 - c)
			}
		}
	}
	return m * sum
}

func TestDecorrelateGradientMatchesFiniteDifferences(t *testing.T) {
	of, m := newTiny(method.Shared, rests), learn.Blend{Own: tinyItem, Frozen: tinyItem}
	for _, view := range []string{"global", "mixed", "self"} {
		w, b := mixing(t, of, tinyItem)
		own, frozen := distinctRows(w, b, m)
		const off, l = 0.2, 0.6
		value := func() float64 {
			x := make([][]float64, len(own))
			for r := range own {
				x[r] = append([]float64(nil), own[r]...)
				for k := range x[r] {
					if view == "mixed" {
						x[r][k] = l*own[r][k] + (1-l)*frozen[r][k]
					}
				}
			}
			return redundancy(x, frozen, off, view == "self")
		}
		w.ClearGrads(b)
		got := m.Decorrelate(view, off, func(*method.Work) float32 { return l }).Grad(w, b)
		if want := value() * float64(b.N); !close(got, want, 1e-4) {
			t.Errorf("%s: the loss is %g, the formula gives %g", view, got, want)
		}
		for r, p := range b.Rows {
			for k := range tinyDim {
				const h = 1e-5
				old := own[r][k]
				own[r][k] = old + h
				up := value()
				own[r][k] = old - h
				down := value()
				own[r][k] = old
				if got, want := float64(w.View[tinyItem].GradRow(p)[k]),
					(up-down)/(2*h); math.Abs(got-want) > 1e-4*math.Max(0.1, math.Abs(want)) {
					t.Fatalf("%s: row %d element %d has gradient %g, the finite difference is %g", view, r, k, got,
						want)
				}
			}
		}
	}
}
