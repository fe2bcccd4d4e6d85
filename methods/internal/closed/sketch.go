package closed

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
)

// Sketch computes EASE from Y = G Q, where G is the Gram matrix and Q has Rank columns.
// With F = Y chol(Q'Y)^-T it approximates G by F F' plus a diagonal that keeps each
// item's count (Nystrom), so that EASE inverts no matrix larger than Rank (Woodbury).
type Sketch struct {
	Items, Rank, Stride int
	Reg                 float64
	Few                 int     // items that fewer devices sent are excluded
	All                 float64 // users per reporting device
}

// Make computes the rows R of dst, each followed by a divisor, from a round's sums. The
// weights of EASE are R_i . R_j / divisor_j, or 0 if the divisor is 0. It sets q to an
// orthonormal basis of the sums' columns, for the next round. A row of sums holds Y and
// the item's count.
func (s Sketch) Make(sums, q, dst []float32) {
	n, k := s.Items, s.Rank
	y, count := make([]float64, n*k), make([]float64, n)
	base := make([]float64, n*k)
	for i := range n {
		row := sums[i*s.Stride:]
		if count[i] = float64(row[k]); count[i] < float64(s.Few) {
			count[i] = 0
			continue
		}
		for a := range k {
			y[i*k+a], base[i*k+a] = float64(s.All*float64(row[a])), float64(q[i*s.Stride+a])
		}
		count[i] *= s.All
	}
	f := s.nystrom(y, base)
	s.rows(f, count, dst)
	orthonormal(y, n, k)
	for i := range n {
		for a := range k {
			q[i*s.Stride+a] = float32(y[i*k+a])
		}
	}
}

// nystrom returns F with F F' the Nystrom approximation of G from Y = G Q. It adds a
// small multiple of Q to Y; otherwise rounding errors could make Q'Y indefinite.
func (s Sketch) nystrom(y, q []float64) []float64 {
	n, k := s.Items, s.Rank
	core, long := gramOf(q, y, n, k), gramOf(q, q, n, k)
	trace := 0.0
	for a := range k {
		trace += core[a*k+a]
	}
	shift := 1e-9*trace/float64(k) + 1e-30
	for a := range k {
		for b := range a {
			core[a*k+b] = (core[a*k+b] + core[b*k+a]) / 2
		}
		for b := range a + 1 {
			core[a*k+b] += float64(shift * long[a*k+b])
		}
		core[a*k+a] += shift
	}
	f := make([]float64, n*k)
	if !learn.Cholesky(core, k) {
		return f
	}
	for i := range n {
		forward(core, y[i*k:(i+1)*k], f[i*k:(i+1)*k])
	}
	return f
}

// rows sets R_i = L^-1 F_i / d_i, with d the remaining diagonal and L L' = I + F'F/d.
// Then (G + Reg I)^-1 is -R_i . R_j off the diagonal and 1/d_i - R_i . R_i on it.
func (s Sketch) rows(f, count []float64, dst []float32) {
	n, k := s.Items, s.Rank
	d, inner := make([]float64, n), make([]float64, k*k)
	for i := range n {
		fi := f[i*k : (i+1)*k]
		d[i] = max(0, count[i]-dot64(fi, fi)) + s.Reg
		for a, x := range fi {
			for b, z := range fi[:a+1] {
				inner[a*k+b] += x * z / d[i]
			}
		}
	}
	for a := range k {
		inner[a*k+a]++
	}
	clear(dst)
	if !learn.Cholesky(inner, k) {
		return
	}
	r := make([]float64, k)
	for i := range n {
		if count[i] == 0 {
			continue
		}
		forward(inner, f[i*k:(i+1)*k], r)
		row := dst[i*s.Stride:]
		for a := range r {
			r[a] /= d[i]
			row[a] = float32(r[a])
		}
		row[k] = float32(1/d[i] - dot64(r, r))
	}
}

// forward sets dst to L^-1 y for a Cholesky factor.
func forward(l, y, dst []float64) {
	k := len(y)
	for a := range k {
		x := y[a]
		for b, z := range l[a*k : a*k+a] {
			x -= float64(z * dst[b])
		}
		dst[a] = x / l[a*k+a]
	}
}

func dot64(a, b []float64) (s float64) {
	for i, x := range a {
		s += float64(x * b[i])
	}
	return s
}

// gramOf returns a'b for two n by k matrices.
func gramOf(a, b []float64, n, k int) []float64 {
	out := make([]float64, k*k)
	for i := range n {
		for r, x := range a[i*k : (i+1)*k] {
			if x == 0 {
				continue
			}
			row := out[r*k : (r+1)*k]
			for c, z := range b[i*k : (i+1)*k] {
				row[c] += float64(x * z)
			}
		}
	}
	return out
}

// orthonormal makes the columns of an n by k matrix orthonormal, in order, with two
// passes against rounding errors. A column that depends on earlier ones becomes zero.
func orthonormal(y []float64, n, k int) {
	col := make([][]float64, k)
	for a := range col {
		col[a] = make([]float64, n)
		for i := range n {
			col[a][i] = y[i*k+a]
		}
		first := math.Sqrt(dot64(col[a], col[a]))
		for range 2 {
			for b := range a {
				x := dot64(col[b], col[a])
				for i, z := range col[b] {
					col[a][i] -= float64(x * z)
				}
			}
		}
		norm := math.Sqrt(dot64(col[a], col[a]))
		if norm <= 1e-9*first || norm == 0 {
			clear(col[a])
			continue
		}
		for i := range n {
			col[a][i] /= norm
		}
	}
	for a := range col {
		for i := range n {
			y[i*k+a] = col[a][i]
		}
	}
}
