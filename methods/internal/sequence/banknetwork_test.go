package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// networkWork returns a device with the slots of a network after a slot of one number. All
// values are random.
func networkWork(net network) *method.Work {
	r := rng.New(rng.Test, 5)
	w := &method.Work{Rand: rng.New(rng.Test, 6)}
	for _, s := range append([]method.Slot{{Rows: 1, Dim: 1}}, net.slots()...) {
		stride := vec.Pad(s.Dim)
		w.View = append(w.View, method.View{
			Slot: s, Stride: stride, Val: randomRows(&r, s.Rows, s.Dim, 0.4), Grad: make([]float32, s.Rows*stride),
		})
	}
	return w
}

func randomRows(r *rng.Rand, rows, dim int, scale float64) []float32 {
	stride := vec.Pad(dim)
	out := make([]float32, rows*stride)
	for i := range out {
		if i%stride < dim {
			out[i] = float32(scale * r.Norm())
		}
	}
	return out
}

// checkGradients compares the gradients of a network with finite differences of a random linear
// function of its states.
func checkGradients(t *testing.T, net network, n, width int, keep float32) {
	t.Helper()
	w, r, s := networkWork(net), rng.New(rng.Test, 7), vec.Pad(width)
	x, c, stream := randomRows(&r, n, width, 1), randomRows(&r, n, width, 1), w.Rand
	z := make([]float32, n*s)
	value := func() float64 {
		mark := w.Mark()
		defer w.Release(mark)
		w.Rand = stream
		net.forward(w, 1, n, x, keep, z)
		out := 0.0
		for i := range z {
			out += float64(z[i]) * float64(c[i])
		}
		return out
	}
	value()
	dx := randomRows(&r, n, width, 1) // back overwrites it
	net.back(w, 1, n, slices.Clone(c), dx)
	check := func(name string, val, grad []float32, stride, dim int) {
		for range 40 {
			k := int(r.Uint32n(uint32(len(val))))
			if k%stride >= dim {
				continue
			}
			const h = 1.0 / 64
			old := val[k]
			val[k] = old + h
			up := value()
			val[k] = old - h
			down := value()
			val[k] = old
			if want := (up - down) / (2 * h); math.Abs(float64(grad[k])-want) > 0.01*math.Max(0.1, math.Abs(want)) {
				t.Fatalf("keep %g: element %d of %s has the gradient %g, the finite difference is %g", keep, k, name,
					grad[k], want)
			}
		}
	}
	check("x", x, dx, s, width)
	for i := range w.View[1:] {
		v := &w.View[i+1]
		check(v.Slot.Name, v.Val, v.Grad, v.Stride, v.Slot.Dim)
	}
}

func TestBankGradientMatchesFiniteDifferences(t *testing.T) {
	for _, keep := range []float32{1, 0.6} {
		checkGradients(t, bankNetwork{5}, 9, 5, keep)
		checkGradients(t, bankNetwork{16}, 3, 16, keep)
	}
}

// slowBank is the reference: the states in float64, each from the definition.
func slowBank(b bankNetwork, w *method.Work, n int, x []float32) [][]float64 {
	d, v := b.width, w.View[1:]
	var out [][]float64
	for t := range n {
		y := make([]float64, len(decays)*d)
		for k, decay := range decays {
			weight, sum := 1.0, 0.0
			for from := t; from >= 0; from-- {
				for i := range d {
					y[k*d+i] += weight * float64(x[from*vec.Pad(d)+i])
				}
				sum += weight
				weight *= float64(decay)
			}
			for i := range d {
				y[k*d+i] /= math.Sqrt(sum)
			}
		}
		hidden := slowLayer(&v[bankHidden], v[bankHiddenBias].Val, y)
		for i, h := range hidden {
			hidden[i] = h / (1 + math.Exp(-1.702*h))
		}
		z, skip := slowLayer(&v[bankOut], v[bankOutBias].Val, hidden), slowLayer(&v[bankSkip], nil, y)
		mean, square := 0.0, 0.0
		for i := range z {
			z[i] += skip[i]
			mean += z[i] / float64(d)
		}
		for _, a := range z {
			square += (a - mean) * (a - mean) / float64(d)
		}
		for i := range z {
			z[i] = (z[i]-mean)/math.Sqrt(square+1e-5)*float64(v[bankGain].Val[i]) + float64(v[bankShift].Val[i])
		}
		out = append(out, z)
	}
	return out
}

func slowLayer(v *method.View, bias []float32, x []float64) []float64 {
	out := make([]float64, v.Slot.Rows)
	for i := range out {
		if bias != nil {
			out[i] = float64(bias[i])
		}
		for j, a := range x {
			out[i] += float64(v.Val[i*v.Stride+j]) * a
		}
	}
	return out
}

func TestBankMatchesReference(t *testing.T) {
	for _, d := range []int{3, 8, 20} {
		const n = 30
		b := bankNetwork{d}
		w, r, s := networkWork(b), rng.New(rng.Test, 8), vec.Pad(d)
		x := randomRows(&r, n, d, 1)
		z, newest := make([]float32, n*s), make([]float32, s)
		b.newest(w, 1, n, x, newest)
		b.forward(w, 1, n, x, 1, z)
		for p, row := range slowBank(b, w, n, x) {
			for i, want := range row {
				if got := float64(z[p*s+i]); math.Abs(got-want) > 1e-4 {
					t.Fatalf("width %d: element %d of state %d is %g, want %g", d, i, p, got, want)
				}
			}
		}
		if !slices.Equal(newest, z[(n-1)*s:]) {
			t.Errorf("width %d: the newest state is %g alone and %g after the others", d, newest, z[(n-1)*s:])
		}
	}
}
