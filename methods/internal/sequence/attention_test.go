package sequence

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

func TestAttentionGradientMatchesFiniteDifferences(t *testing.T) {
	for _, keep := range []float32{1, 0.6} {
		checkGradients(t, attentionNetwork{width: 6, heads: 2, blocks: 2, expansion: 2, positions: 5}, 9, 6, keep)
		checkGradients(t, attentionNetwork{width: 16, heads: 1, blocks: 1, expansion: 3, positions: 50}, 4, 16, keep)
	}
}

// slowNorm is LayerNorm in float64.
func slowNorm(x []float64, gain, shift []float32) []float64 {
	mean, square := 0.0, 0.0
	for _, a := range x {
		mean += a / float64(len(x))
	}
	for _, a := range x {
		square += (a - mean) * (a - mean) / float64(len(x))
	}
	out := make([]float64, len(x))
	for i, a := range x {
		out[i] = (a-mean)/math.Sqrt(square+1e-5)*float64(gain[i]) + float64(shift[i])
	}
	return out
}

// slowAttention is the reference: the states in float64, each from the definition.
func slowAttention(a attentionNetwork, w *method.Work, n int, x []float32) [][]float64 {
	d, v := a.width, w.View[1:]
	h := make([][]float64, n)
	for t := range h {
		h[t] = make([]float64, d)
		at := min(n-1-t, a.positions-1) * vec.Pad(d)
		for i := range h[t] {
			h[t][i] = float64(x[t*vec.Pad(d)+i]) + float64(v[attentionPosition].Val[at+i])
		}
	}
	for b := range a.blocks {
		slowBlock(a, v[attentionBlocks+b*blockSlots:], h)
	}
	for t := range h {
		h[t] = slowNorm(h[t], v[attentionGain].Val, v[attentionShift].Val)
	}
	return h
}

func slowBlock(a attentionNetwork, v []method.View, h [][]float64) {
	d, size := a.width, a.width/a.heads
	var qkv [][]float64
	for _, row := range h {
		qkv = append(qkv, slowLayer(&v[blockQKV], nil, slowNorm(row, v[blockGain].Val, v[blockShift].Val)))
	}
	for t := range h {
		read := make([]float64, d)
		for head := range a.heads {
			weight, total := make([]float64, t+1), 0.0
			for from := range weight {
				product := 0.0
				for i := head * size; i < (head+1)*size; i++ {
					product += qkv[t][i] * qkv[from][d+i]
				}
				weight[from] = math.Exp(product / math.Sqrt(float64(size)))
				total += weight[from]
			}
			for from := range weight {
				for i := head * size; i < (head+1)*size; i++ {
					read[i] += weight[from] / total * qkv[from][2*d+i]
				}
			}
		}
		for i, y := range slowLayer(&v[blockOut], nil, read) {
			h[t][i] += y
		}
	}
	for t := range h {
		mid := slowNorm(h[t], v[blockMidGain].Val, v[blockMidShift].Val)
		hidden := slowLayer(&v[blockExpand], v[blockExpandBias].Val, mid)
		for i, y := range hidden {
			hidden[i] = y / (1 + math.Exp(-1.702*y))
		}
		for i, y := range slowLayer(&v[blockContract], v[blockContractBias].Val, hidden) {
			h[t][i] += y
		}
	}
}

func TestAttentionMatchesReference(t *testing.T) {
	for _, a := range []attentionNetwork{
		{width: 6, heads: 3, blocks: 1, expansion: 2, positions: 20},
		{width: 16, heads: 2, blocks: 2, expansion: 4, positions: 200},
	} {
		for _, n := range []int{1, 7, attentionRun + 5} {
			w, r, s := networkWork(a), rng.New(rng.Test, 8), vec.Pad(a.width)
			x := randomRows(&r, n, a.width, 1)
			z, newest := make([]float32, n*s), make([]float32, s)
			a.newest(w, 1, n, x, newest)
			a.forward(w, 1, n, x, 1, z)
			for p, row := range slowAttention(a, w, n, x) {
				for i, want := range row {
					if got := float64(z[p*s+i]); math.Abs(got-want) > 2e-4 {
						t.Fatalf("%+v: element %d of state %d is %g, want %g", a, i, p, got, want)
					}
				}
			}
			if !slices.Equal(newest, z[(n-1)*s:]) {
				t.Errorf("%+v: the newest state is %g alone and %g after the others", a, newest, z[(n-1)*s:])
			}
		}
	}
}

// Dropout is off, so a state must not depend on newer rows. Positions count from the newest row,
// so equal embeddings are used here.
func TestAttentionReadsNoNewerRows(t *testing.T) {
	a := attentionNetwork{width: 8, heads: 2, blocks: 2, expansion: 2, positions: 1}
	w, r := networkWork(a), rng.New(rng.Test, 9)
	const n, s = 60, 8
	x := randomRows(&r, n, 8, 1)
	z, part := make([]float32, n*s), make([]float32, n*s)
	a.forward(w, 1, n, x, 1, z)
	for _, short := range []int{1, 20, 49, 59} {
		a.forward(w, 1, short, x, 1, part)
		if !slices.Equal(part[:short*s], z[:short*s]) {
			t.Errorf("the first %d states differ when newer rows follow", short)
		}
	}
}

func TestAttentionAllocatesNothing(t *testing.T) {
	a := attentionNetwork{width: 16, heads: 2, blocks: 2, expansion: 2, positions: 200}
	w, r := networkWork(a), rng.New(rng.Test, 10)
	const n, s = 60, 16
	x, z, dx := randomRows(&r, n, 16, 1), make([]float32, n*s), make([]float32, n*s)
	visit := func() {
		mark := w.Mark()
		a.forward(w, 1, n, x, 0.8, z)
		a.back(w, 1, n, z, dx)
		w.Release(mark)
	}
	visit()
	visit()
	if got := testing.AllocsPerRun(3, visit); got > 0 {
		t.Errorf("forward and back allocate %v times", got)
	}
}

func BenchmarkAttention(b *testing.B) {
	a := attentionNetwork{width: 64, heads: 2, blocks: 1, expansion: 2, positions: 200}
	w, r := networkWork(a), rng.New(rng.Test, 11)
	const n, s = 130, 64
	x, z, dx := randomRows(&r, n, 64, 1), make([]float32, n*s), make([]float32, n*s)
	for b.Loop() {
		a.forward(w, 1, n, x, 0.8, z)
		a.back(w, 1, n, z, dx)
	}
}
