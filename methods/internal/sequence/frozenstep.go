package sequence

import (
	"math"
	"sync"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Begin sets the biases and the probabilities of negatives from the number of devices that have
// each item: a number per row, stride floats apart. Maps and network stay as they are, which may
// be as an earlier run has trained them, but the moments of its gradients do not.
func (f *Frozen) Begin(g *method.Global, count []float32, stride int) {
	bias, draw := g.Value[f.First+frozenBias], g.Value[f.First+frozenDraw]
	for _, slot := range []int{frozenMean, frozenSpread, frozenSteps} {
		clear(g.Value[f.First+slot])
	}
	mean, sum := 0.0, 0.0
	for i := range g.Items {
		c := math.Max(float64(count[i*stride]), 0)
		log := rng.Log(c + 1)
		bias[i] = float32(log)
		mean += log / float64(g.Items)
		sum += math.Sqrt(c + 1)
		draw[i] = float32(sum)
	}
	for i := range g.Items {
		bias[i] -= float32(mean)
		draw[i] = float32(float64(draw[i]) / sum)
	}
}

// The server step.
const (
	beta1 = 0.9
	beta2 = 0.98
	// normDecay is that of the running mean of the gradient's norm; a longer gradient than
	// normLimit times this mean is shortened.
	normDecay = 0.95
	normLimit = 2
)

// trained is a slot with a gradient, and where its moments are.
type trained struct {
	value, grad  []float32
	rows, dim    int
	stride       int
	mean, square []float32
}

// fullCohort is the number of devices from which on a round moves by the whole learning rate.
// With fewer devices, rounds are more and their gradients less certain, and the rate is
// proportional to their number.
const fullCohort = 100

// Step moves the maps, the biases and the network by the mean gradient of a round. rate is the
// learning rate.
func (f *Frozen) Step(g *method.Global, rate float64) {
	if g.Devices == 0 {
		return
	}
	slots := f.trained(g)
	steps := g.Value[f.First+frozenSteps]
	square := 0.0
	for _, t := range slots {
		vec.Scale(1/float32(g.Devices), t.grad)
		square += vec.SumSquares(t.grad)
	}
	norm := math.Sqrt(square)
	if norm == 0 || norm-norm != 0 {
		return
	}
	limit := normLimit * float64(steps[1])
	if steps[0] == 0 {
		limit = norm
	}
	scale := float32(math.Min(1, limit/norm))
	steps[0]++
	steps[1] = float32(float64(normDecay*float64(steps[1])) + float64((1-normDecay)*math.Min(norm, limit)))
	if steps[0] == 1 {
		steps[1] = float32(norm)
	}
	rate *= math.Min(1, float64(g.Devices)/fullCohort)
	var wait sync.WaitGroup
	for _, t := range slots {
		wait.Go(func() { t.move(scale, rate, float64(steps[0]), g.Noise > 0) })
	}
	wait.Wait()
}

// Steps reports whether Step may change a slot.
func (f *Frozen) Steps(slot int) bool {
	switch slot -= f.First; slot {
	case frozenLean, frozenDraw, frozenTable, frozenState:
		return false
	default:
		return slot >= 0 && slot < f.end
	}
}

// trained lists the slots with a gradient.
func (f *Frozen) trained(g *method.Global) []trained {
	mean, square := g.Value[f.First+frozenMean], g.Value[f.First+frozenSpread]
	var out []trained
	add := func(value, grad int, s method.Slot) {
		stride := vec.Pad(s.Dim)
		n := s.Rows * stride
		out = append(out, trained{
			g.Value[f.First+value], g.Aggregate[f.First+grad], s.Rows, s.Dim, stride, mean[:n:n], square[:n:n],
		})
		mean, square = mean[n:], square[n:]
	}
	add(frozenBias, frozenLean, method.Slot{Rows: 1, Dim: g.Items})
	for i, s := range f.Slots(g.Items) {
		if s.Upload == method.Gradient {
			add(i, i, s)
		}
	}
	return out
}

// move takes one step: Adam, or for matrices their orthogonalised momentum (Muon, Jordan et al.
// 2024), which privacy noise would drown.
func (t *trained) move(scale float32, rate, step float64, adam bool) {
	vec.Scale(scale, t.grad)
	if t.rows == 1 || adam {
		one, two := 1-power(beta1, step), 1-power(beta2, step)
		root := math.Sqrt(two)
		vec.Adam(t.grad, float32(rate*root/one), beta1, beta2, float32(1e-8*root), t.mean, t.square, t.value)
		return
	}
	const momentum = 0.95
	vec.Scale(momentum, t.mean)
	vec.Add(t.grad, t.mean)
	ahead := t.square // Muon has no second moments
	vec.ScaleTo(momentum, t.mean, ahead)
	vec.Add(t.grad, ahead)
	learn.Orthogonal(ahead, t.rows, t.dim, t.stride)
	// The factor makes a step as long as one of Adam's, about a fifth of the rate per number.
	vec.Axpy(-float32(rate*0.2*math.Sqrt(float64(max(t.rows, t.dim)))), ahead, t.value)
}

// power returns x to the power of a whole number, by squaring: math.Pow has other bits on other
// platforms.
func power(x, n float64) float64 {
	out := 1.0
	for k := int(n); k > 0; k >>= 1 {
		if k&1 == 1 {
			out *= x
		}
		x *= x
	}
	return out
}

// SetTable computes the rows that devices recommend with. It reads the features of the whole catalogue, so that
// methods call it when a pass ends and not after each step.
func (f *Frozen) SetTable(g *method.Global) {
	const block = 256
	table, bias, name := g.Value[f.First+frozenTable], g.Value[f.First+frozenBias], g.Value[f.First+frozenName]
	wide, s := vec.Pad(f.Dim), g.Stride[f.First+frozenTable]
	shrink := float32(1 / math.Sqrt(float64(f.Dim)))
	var wait sync.WaitGroup
	for lo := 0; lo < g.Items; lo += block {
		n := min(block, g.Items-lo)
		in, rows := g.Value[f.Item][lo*wide:(lo+n)*wide], table[lo*s:(lo+n)*s]
		wait.Go(func() {
			clear(rows)
			pack := make([]float32, vec.GemmRoom(f.Dim))
			vec.Gemm(n, f.Width, f.Dim, vec.Rows(in, wide), vec.Rows(name, wide).T(), pack, vec.Rows(rows, s))
			vec.Scale(shrink, rows)
			for i := range n {
				rows[i*s+f.Width] = bias[lo+i]
			}
		})
	}
	wait.Wait()
}
