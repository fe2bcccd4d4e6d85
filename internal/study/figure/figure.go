// Package figure computes what a report's figures show: projections of a table to the plane, measures of its
// spectrum, and directions through a loss landscape. It draws nothing, trains nothing and reads no clock.
//
// All randomness comes from its own streams, so a figure is reproducible.
package figure

import "math"

// Rows is a table of N rows of Dim numbers, Stride apart.
type Rows struct {
	N, Dim, Stride int
	Data           []float32
}

// Row returns row i.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Stride : i*r.Stride+r.Dim] }

// Pick returns a copy of some rows.
func (r Rows) Pick(ids []uint32) Rows {
	out := Rows{len(ids), r.Dim, r.Dim, make([]float32, 0, len(ids)*r.Dim)}
	for _, i := range ids {
		out.Data = append(out.Data, r.Row(int(i))...)
	}
	return out
}

// Unit returns a copy with rows of length 1; rows of zeros stay zero.
func (r Rows) Unit() Rows {
	out := Rows{r.N, r.Dim, r.Dim, make([]float32, 0, r.N*r.Dim)}
	for i := range r.N {
		s := 0.0
		for _, x := range r.Row(i) {
			s += float64(x) * float64(x)
		}
		if s > 0 {
			s = 1 / math.Sqrt(s)
		}
		for _, x := range r.Row(i) {
			out.Data = append(out.Data, float32(float64(x)*s))
		}
	}
	return out
}

// mean is the mean of each column.
func (r Rows) mean() []float64 {
	m := make([]float64, r.Dim)
	for i := range r.N {
		for k, x := range r.Row(i) {
			m[k] += float64(x)
		}
	}
	for k := range m {
		m[k] /= float64(max(r.N, 1))
	}
	return m
}

// scatter is the Dim by Dim sum of products of the centred columns.
func (r Rows) scatter(mean []float64) []float64 {
	d := r.Dim
	s, c := make([]float64, d*d), make([]float64, d)
	for i := range r.N {
		for k, x := range r.Row(i) {
			c[k] = float64(x) - mean[k]
		}
		for a, x := range c {
			row := s[a*d : a*d+d]
			for b := a; b < d; b++ {
				row[b] += x * c[b]
			}
		}
	}
	for a := range d {
		for b := range a {
			s[a*d+b] = s[b*d+a]
		}
	}
	return s
}
