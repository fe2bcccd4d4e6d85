package figure

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Mode is how the directions of a landscape are made.
type Mode string

const (
	// Authors is the mode of FedRecGEL's released code: every entry is drawn from N(1, 1) (mean 1, so two directions
	// have a cosine of about a half), and the direction is divided by its norm. A step hardly moves a single weight.
	Authors Mode = "authors"
	// Filter is the mode of Li et al., NeurIPS 2018: entries from N(0, 1), each row scaled to the length of the same
	// row of the weights; one-dimensional tensors do not move. A step of 1 is the length of the weights, so landscapes
	// are comparable.
	Filter Mode = "filter"
)

// Tensor is one tensor of a point. Flat is set for one-dimensional tensors, such as biases.
type Tensor struct {
	Rows
	Flat bool
}

// Direction draws a direction at a point, tensor by tensor in the layout of the point. Different values of which give
// different directions.
func Direction(mode Mode, at []Tensor, seed, which uint64) [][]float32 {
	var out [][]float32
	norm := 0.0
	for t, w := range at {
		d := make([]float32, len(w.Data))
		out = append(out, d)
		r := rng.New(seed, rng.Figure, streamDirection, which, uint64(t))
		for i := range w.N {
			row := d[i*w.Stride : i*w.Stride+w.Dim]
			own, weight := 0.0, 0.0
			for k, x := range w.Row(i) {
				z := r.Norm()
				if mode == Authors {
					z++
				}
				row[k] = float32(z)
				own += z * z
				weight += float64(x) * float64(x)
			}
			norm += own
			if mode == Filter {
				s := 0.0
				if !w.Flat && own > 0 {
					s = math.Sqrt(weight / own)
				}
				for k := range row {
					row[k] = float32(float64(row[k]) * s)
				}
			}
		}
	}
	if mode == Authors && norm > 0 {
		s := 1 / math.Sqrt(norm)
		for _, d := range out {
			for k := range d {
				d[k] = float32(float64(d[k]) * s)
			}
		}
	}
	return out
}

// Move sets dst to at + a*d0 + b*d1.
func Move(at []Tensor, d0, d1 [][]float32, a, b float64, dst [][]float32) {
	x, y := float32(a), float32(b)
	for t, w := range at {
		p, q, to := d0[t], d1[t], dst[t]
		for i, v := range w.Data {
			to[i] = v + x*p[i] + y*q[i]
		}
	}
}

// Axis returns n positions from -radius to radius; the middle one is exactly 0 for odd n.
func Axis(n int, radius float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = radius * float64(2*i-(n-1)) / float64(max(n-1, 1))
	}
	return out
}

// Sharpness is the increase of the loss over a square of a landscape, above its centre.
type Sharpness struct {
	Most float64 `json:"most"`
	Mean float64 `json:"mean"`
}

// SharpnessOf returns the sharpness of a grid of losses with the given centre.
func SharpnessOf(grid [][]float64, centre float64) Sharpness {
	s := Sharpness{Most: math.Inf(-1)}
	n := 0
	for _, row := range grid {
		for _, x := range row {
			s.Most = math.Max(s.Most, x-centre)
			s.Mean += x - centre
			n++
		}
	}
	if n == 0 {
		return Sharpness{}
	}
	s.Mean /= float64(n)
	return s
}

// Ascent returns the step of length rho along a gradient, as in sharpness-aware minimisation (Foret et al., ICLR
// 2021): the norm is over all tensors. The step of a zero gradient is zero.
func Ascent(grad [][]float32, rho float64) [][]float32 {
	norm := 0.0
	for _, g := range grad {
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
	}
	s := 0.0
	if norm > 0 {
		s = rho / math.Sqrt(norm)
	}
	out := make([][]float32, len(grad))
	for t, g := range grad {
		out[t] = make([]float32, len(g))
		for i, x := range g {
			out[t][i] = float32(float64(x) * s)
		}
	}
	return out
}
