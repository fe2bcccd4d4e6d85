package private

import (
	"cmp"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Packed is a symmetric matrix as a list: the upper triangle, row by row, with what is
// off the diagonal times the root of 2. So the list is as long as the matrix is by its
// Frobenius norm, and noise that is alike on all its numbers is, off the diagonal of the
// matrix, smaller by that root: each of the two halves of a matrix would carry the same.
type Packed struct{ N int }

// Len is how many numbers the list has.
func (p Packed) Len() int { return p.N * (p.N + 1) / 2 }

// Outer lists y y' in a Sparse slot, y being as wide as the matrix: only places where
// it is not zero are touched. at is room for as many numbers as y has.
func (p Packed) Outer(y []float32, at []uint32, dst *method.View) {
	n := 0
	for i, x := range y {
		if x != 0 {
			at[n] = uint32(i)
			n++
		}
	}
	at = at[:n]
	for k, i := range at {
		row := i*uint32(p.N) - i*(i+1)/2
		dst.Add(row+i, float32(y[i]*y[i]))
		twice := float32(math.Sqrt2 * float64(y[i]))
		for _, j := range at[k+1:] {
			dst.Add(row+j, float32(twice*y[j]))
		}
	}
}

// Matrix is scale times the list as a full matrix of padded rows.
func (p Packed) Matrix(list []float32, scale float64) []float32 {
	s, x := vec.Pad(p.N), 0
	out := make([]float32, p.N*s)
	for i := range p.N {
		out[i*s+i] = float32(float64(list[x]) * scale)
		x++
		for j := i + 1; j < p.N; j++ {
			y := float32(float64(list[x]) * scale / math.Sqrt2)
			out[i*s+j], out[j*s+i] = y, y
			x++
		}
	}
	return out
}

// Denoise finds the eigenvectors of a symmetric matrix that stand out of its noise, at
// most so many, and the values that bring them nearest the matrix without it. Noise of
// deviation sigma on the diagonal, and smaller by the root of 2 off it, has eigenvalues up to
// an edge of sigma sqrt(2 n); a value w above it becomes sqrt(w² - edge²), the shrinker of a
// spiked Wigner matrix (Donoho, Gavish and Johnstone 2018). matrix is destroyed.
func Denoise(matrix []float32, n, most int, sigma float64) (values []float64, vectors [][]float32) {
	values, vectors = Eigen(matrix, n, most)
	edge, kept := sigma*math.Sqrt(2*float64(n)), 0
	for _, w := range values {
		if !(w > 1.02*edge && w > 1e-6*values[0]) {
			break
		}
		values[kept] = math.Sqrt(float64(w*w) - float64(edge*edge))
		kept++
	}
	return values[:kept], vectors[:kept]
}

// Top lists the places of the n largest numbers, the largest first, and of equals the
// first first.
func Top(x []float64, n int) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	return order[:min(n, len(x))]
}

// Shrink sets the rows of dst to those of raw, which have noise of a variance on each of
// their numbers, shrunk towards zero by what that amounts to (James and Stein 1961): a row
// that may be noise alone becomes zero. Below three numbers nothing is gained by it.
func Shrink(dim, stride int, variance float64, raw, dst []float32) {
	noise := float64(max(dim-2, 0)) * variance
	for lo := 0; lo < len(raw); lo += stride {
		row, left := raw[lo:lo+stride], 1.0
		if square := float64(vec.Dot(row, row)); noise > 0 {
			left = math.Max(0, 1-noise/math.Max(square, 1e-30))
		}
		vec.ScaleTo(float32(left), row, dst[lo:lo+stride])
	}
}
