package private

import (
	"cmp"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Packed stores a symmetric matrix as a list: the upper triangle, row by row, with
// off-diagonal entries times sqrt(2). The norm of the list is the Frobenius norm of the
// matrix, and equal noise on all entries of the list is smaller by sqrt(2) on the
// off-diagonal entries of the matrix.
type Packed struct{ N int }

// Len returns the length of the list.
func (p Packed) Len() int { return p.N * (p.N + 1) / 2 }

// Outer adds y y' to a Sparse slot. It only lists entries that are not zero. at is
// scratch memory of the length of y.
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

// Matrix returns scale times the list as a full matrix with padded rows.
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

// Denoise returns at most `most` eigenvectors of a noisy symmetric matrix whose
// eigenvalues exceed the noise, with the eigenvalues that best approximate the noise-free
// matrix. Noise with standard deviation sigma on the diagonal and sigma/sqrt(2) off it
// has eigenvalues up to edge = sigma sqrt(2 n). An eigenvalue w above the edge becomes
// sqrt(w² - edge²), the shrinker of a spiked Wigner matrix (Donoho, Gavish and Johnstone
// 2018). matrix is overwritten.
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

// Top returns the indices of the n largest numbers in descending order; of equals, the
// lower index comes first.
func Top(x []float64, n int) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	return order[:min(n, len(x))]
}

// Shrink sets the rows of dst to those of raw, which have noise of the given variance on
// each number, shrunk towards zero (James and Stein 1961). A row that is not longer than
// its noise becomes zero. Rows of fewer than three numbers are not shrunk.
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
