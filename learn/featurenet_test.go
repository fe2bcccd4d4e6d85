package learn

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// sideData returns features of every kind for users, items and interactions.
func sideData() *rows.Features {
	return &rows.Features{
		User: []rows.Column{{Name: "job", Card: 3, Code: []uint32{2, 1}}, {Name: "age", Value: []float32{0.3, -0.7}}},
		Row:  []rows.Column{{Name: "hour", Card: 4, Code: []uint32{3, 0, 1, 2, 2}}},
		Item: []rows.Column{
			{Name: "genre", Card: 5, Code: []uint32{0, 4, 2, 2, 3, 1}, Start: []uint32{0, 2, 3, 3, 6}},
			{Name: "count", Value: []float32{0.1, 0.9, -0.4, 0.5}},
		},
	}
}

// sideWork returns a device with the network's slots and some samples.
func sideWork(t *testing.T, activation string, seed uint64) (*FeatureNet, *method.Work) {
	t.Helper()
	s, err := NewFeatureNet(sideData(), 3, Layers{6, 5, 4}, activation, 0.8)
	if err != nil {
		t.Fatal(err)
	}
	r := rng.New(rng.Test, seed)
	w := &method.Work{Device: 1, BatchSize: 4, Z: make([]float32, 4), Features: sideData()}
	for _, slot := range s.Slots() {
		n, stride := slot.Rows*vec.Pad(slot.Dim), vec.Pad(slot.Dim)
		v := method.View{
			Slot: slot, Stride: stride, Val: make([]float32, n), Grad: make([]float32, n),
			Base: make([]float32, n), Scale: 1,
		}
		for i := range v.Val {
			if i%stride < slot.Dim {
				v.Val[i], v.Base[i] = float32(r.Norm()*0.6), float32(r.Norm()*0.6)
			}
		}
		w.View = append(w.View, v)
	}
	q := &w.Samples
	q.Item, q.Row, q.Y = []uint32{0, 3, 2, 1, 3, 0, 1, 2, 0}, []uint32{4, 0, 1, 3, 2, 2, 0, 1, 4},
		[]float32{1, 0, 0, 1, 1, 0, 1, 0, 1}
	q.Rd, q.Wr = make([][]uint32, len(w.View)), make([][]uint32, len(w.View))
	q.Shuffle = func() {}
	return s, w
}

// wide is the reference: the same network in float64.
func wideLogit(s *FeatureNet, w *method.Work, theta [][]float64, x int) float64 {
	f := w.Features
	var in []float64
	add := func(c *rows.Column, k uint32, table *int) {
		if c.Card == 0 {
			in = append(in, float64(c.Value[k]))
			return
		}
		sum := make([]float64, 3)
		for _, code := range c.Of(k) {
			for i := range sum {
				sum[i] += theta[*table][int(code)*vec.Pad(3)+i] / float64(len(c.Of(k)))
			}
		}
		in = append(in, sum...)
		*table++
	}
	table := 0
	for i := range f.User {
		add(&f.User[i], w.Device, &table)
	}
	for i := range f.Row {
		add(&f.Row[i], w.Samples.Row[x], &table)
	}
	for i := range f.Item {
		add(&f.Item[i], w.Samples.Item[x], &table)
	}
	for l := table; l < len(theta); l += 2 {
		slot := &w.View[l].Slot
		out := make([]float64, slot.Rows)
		for o := range out {
			out[o] = theta[l+1][o]
			for i, v := range in {
				out[o] += v * theta[l][o*vec.Pad(slot.Dim)+i]
			}
			switch {
			case l+2 == len(theta):
			case s.curved:
				out[o] = 1 / (1 + math.Exp(-out[o]))
			default:
				out[o] = max(out[o], 0)
			}
		}
		in = out
	}
	return in[0]
}

func wideLoss(s *FeatureNet, w *method.Work, theta [][]float64, lo, hi int) float64 {
	sum := 0.0
	for x := lo; x < hi; x++ {
		z := wideLogit(s, w, theta, x)
		sum += max(z, 0) - z*float64(w.Samples.Y[x]) + math.Log1p(math.Exp(-math.Abs(z)))
	}
	return sum / float64(hi-lo)
}

// slope returns the gradient of f by central differences at a sample of the elements, and NaN at
// the others.
func slope(theta [][]float64, every int, f func() float64) [][]float64 {
	const h = 1e-5
	out := make([][]float64, len(theta))
	for i := range theta {
		out[i] = make([]float64, len(theta[i]))
		for k := range theta[i] {
			if out[i][k] = math.NaN(); (i+k)%every != 0 {
				continue
			}
			old := theta[i][k]
			theta[i][k] = old + h
			up := f()
			theta[i][k] = old - h
			out[i][k] = (up - f()) / (2 * h)
			theta[i][k] = old
		}
	}
	return out
}

func wideOf(w *method.Work) [][]float64 {
	out := make([][]float64, len(w.View))
	for i := range out {
		for _, v := range w.View[i].Val {
			out[i] = append(out[i], float64(v))
		}
	}
	return out
}

func compare(t *testing.T, what string, w *method.Work, got func(slot int) []float32, want [][]float64, tol float64) {
	t.Helper()
	most := 0.0
	for i := range want {
		for _, v := range want[i] {
			if v == v {
				most = max(most, math.Abs(v))
			}
		}
	}
	for i := range want {
		for k, v := range want[i] {
			if k%w.View[i].Stride < w.View[i].Slot.Dim && math.Abs(float64(got(i)[k])-v) > tol*most {
				t.Errorf("%s, slot %s, element %d: %g, want %g", what, w.View[i].Slot.Name, k, got(i)[k], v)
				return
			}
		}
	}
}

func TestFeatureNetGradientsMatchFiniteDifferences(t *testing.T) {
	for _, act := range []string{"relu", "sigmoid"} {
		s, w := sideWork(t, act, 1)
		theta := wideOf(w)
		n := len(w.Samples.Item)
		z := make([]float32, n)
		w.BatchSize = n
		b := w.Batch(0, n)
		s.Logits(w, b, z)
		for x := range z {
			if want := wideLogit(s, w, theta, x); math.Abs(float64(z[x])-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("%s: the logit of sample %d is %g, want %g", act, x, z[x], want)
			}
		}
		vec.BCEGrad(b.Y, 1/float32(n), z)
		s.Back(w, b, z)
		compare(t, act, w, func(i int) []float32 { return w.View[i].Grad },
			slope(theta, 1, func() float64 { return wideLoss(s, w, theta, 0, n) }), 1e-4)
	}
}

// At inference the part before the item is computed once; the scores must be the same.
func TestFoldingSharedInputsKeepsScores(t *testing.T) {
	s, w := sideWork(t, "relu", 2)
	b := *w.Batch(0, 4)
	b.Row = []uint32{3, 3, 3, 3}
	plain, folded := make([]float32, 4), make([]float32, 4)
	s.Logits(w, &b, plain)
	b.Inference = true
	s.Logits(w, &b, folded)
	for x := range plain {
		if math.Abs(float64(plain[x]-folded[x])) > 1e-5 {
			t.Errorf("sample %d scores %g folded, want %g", x, folded[x], plain[x])
		}
	}
}

// The reference differentiates the whole objective, adaptation included, numerically in float64.
func TestMetaGradientMatchesWholeObjective(t *testing.T) {
	const inner = 0.7
	for _, act := range []string{"relu", "sigmoid"} {
		for steps := range 3 {
			s, w := sideWork(t, act, uint64(10+steps))
			theta := wideOf(w)
			n := len(w.Samples.Item)
			objective := func() float64 {
				at := make([][]float64, len(theta))
				for i := range at {
					at[i] = slices.Clone(theta[i])
				}
				for range steps {
					g := exact(s, w, at, 0, n/2)
					for i := range at {
						for k := range at[i] {
							at[i][k] -= inner * g[i][k]
						}
					}
				}
				return wideLoss(s, w, at, n/2, n)
			}
			want := slope(theta, 29, objective)
			before := make([][]float32, len(w.View))
			for i := range before {
				before[i] = slices.Clone(w.View[i].Val)
			}
			Meta(s, steps, Const(inner), Const(1), 1).Run(w)
			got := func(i int) []float32 {
				g := slices.Clone(before[i])
				for k := range g {
					g[k] -= w.View[i].Val[k]
				}
				return g
			}
			compare(t, act, w, got, want, 2e-3)
		}
	}
}

// exact returns the gradient by smaller differences than slope; combining two step sizes cancels
// their second-order error.
func exact(s *FeatureNet, w *method.Work, theta [][]float64, lo, hi int) [][]float64 {
	const h = 1e-4
	out := make([][]float64, len(theta))
	for i := range theta {
		out[i] = make([]float64, len(theta[i]))
		for k := range theta[i] {
			if k%w.View[i].Stride >= w.View[i].Slot.Dim {
				continue
			}
			old := theta[i][k]
			at := func(d float64) float64 {
				theta[i][k] = old + d
				v := wideLoss(s, w, theta, lo, hi)
				theta[i][k] = old
				return v
			}
			out[i][k] = (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
		}
	}
	return out
}

func TestProximalTermPullsTowardsDownloadedModel(t *testing.T) {
	for _, squared := range []bool{true, false} {
		s, w := sideWork(t, "relu", 5)
		theta := wideOf(w)
		value := func() float64 {
			sum := 0.0
			for i := range theta {
				for k, v := range theta[i] {
					d := v - float64(w.View[i].Base[k])
					sum += d * d
				}
			}
			if !squared {
				sum = math.Sqrt(sum)
			}
			return 0.3 / 2 * sum
		}
		w.WantLoss = true
		b := w.Batch(0, 4)
		if got := Proximal(len(s.slots), Const(0.3), squared).Grad(w, b); math.Abs(got-4*value()) > 1e-4 {
			t.Errorf("squared %v: four samples' term is %g, want %g", squared, got, 4*value())
		}
		compare(t, "near", w, func(i int) []float32 { return w.View[i].Grad }, slope(theta, 1, value), 1e-4)
		for i := range w.View {
			copy(w.View[i].Val, w.View[i].Base)
			clear(w.View[i].Grad)
		}
		Proximal(len(s.slots), Const(0.3), squared).Grad(w, b)
		for i := range w.View {
			if slices.ContainsFunc(w.View[i].Grad, func(g float32) bool { return g != 0 }) {
				t.Fatalf("squared %v: the gradient is not 0 at the downloaded model", squared)
			}
		}
	}
}

func TestFeatureNetRejectsMissingFeaturesAndLayers(t *testing.T) {
	if _, err := NewFeatureNet(&rows.Features{User: sideData().User}, 3, Layers{4}, "relu", 1); err == nil {
		t.Error("data without item features is accepted")
	}
	if _, err := NewFeatureNet(sideData(), 3, nil, "relu", 1); err == nil {
		t.Error("a network without hidden layers is accepted")
	}
}
