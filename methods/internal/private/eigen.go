package private

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/vec"
)

// Eigen returns the k largest eigenvalues of a symmetric n by n matrix, in descending
// order, and their eigenvectors at unit length as padded rows. a has padded rows too, and
// is overwritten. Householder reflections (1958) make the matrix tridiagonal in float32
// with the kernels of vec; bisection (Givens 1954) finds the eigenvalues and inverse
// iteration the eigenvectors, in float64. Every sum has a fixed order, so the bits are
// the same on every platform.
func Eigen(a []float32, n, k int) (values []float64, vectors [][]float32) {
	t := tridiagonal(a, n)
	var basis [][]float64
	for j := range min(k, n) {
		values = append(values, t.value(j))
		basis = append(basis, t.vector(values[j], basis))
	}
	s := vec.Pad(n)
	for _, y := range basis {
		row := make([]float32, s)
		for i, x := range y {
			row[i] = float32(x)
		}
		for i := n - 3; i >= 0; i-- { // reflections in reverse order
			o := (i + 1) &^ (vec.Lanes - 1)
			v := a[i*s+o : (i+1)*s]
			vec.Axpy(-vec.Dot(v, row[o:]), v, row[o:])
		}
		vectors = append(vectors, row)
	}
	return values, vectors
}

// bands is a symmetric tridiagonal matrix.
type bands struct {
	d, e  []float64 // diagonal and subdiagonal
	wide  float64   // no eigenvalue is larger in magnitude
	start rng.Rand
}

// tridiagonal makes a matrix tridiagonal. Row i of a, from column i+1 on, becomes the
// vector v of the reflection I - v v'; |v|² is 2 or 0.
func tridiagonal(a []float32, n int) *bands {
	s := vec.Pad(n)
	t := &bands{d: make([]float64, n), e: make([]float64, n), start: rng.New(uint64(n))}
	v, w := make([]float32, s), make([]float32, s)
	for k := range n {
		row := a[k*s : (k+1)*s]
		t.d[k] = float64(row[k])
		if k == n-2 {
			t.e[k] = float64(row[n-1])
		}
		if k >= n-2 {
			continue
		}
		t.e[k] = mirror(row, k+1, n, v)
		copy(row, v)
		reflect(a, k+1, n, v, w)
	}
	for i := range n {
		left := 0.0
		if i > 0 {
			left = math.Abs(t.e[i-1])
		}
		t.wide = max(t.wide, math.Abs(t.d[i])+math.Abs(t.e[i])+left)
	}
	return t
}

// mirror sets v to the reflection that maps row, from column k on, to (beta, 0, ...).
func mirror(row []float32, k, n int, v []float32) (beta float64) {
	clear(v)
	square := 0.0
	for _, x := range row[k+1 : n] {
		square += float64(float64(x) * float64(x))
	}
	head := float64(row[k])
	if square == 0 {
		return head
	}
	beta = -math.Copysign(math.Sqrt(square+float64(head*head)), head)
	first := head - beta
	unit := math.Sqrt(2 / (square + float64(first*first)))
	v[k] = float32(first * unit)
	for i := k + 1; i < n; i++ {
		v[i] = float32(float64(row[i]) * unit)
	}
	return beta
}

// reflect applies the reflection to rows and columns from k on: a - v w' - w v', w = a v
// - v (v'av)/2.
func reflect(a []float32, k, n int, v, w []float32) {
	s, o := len(v), k&^(vec.Lanes-1)
	if v[k] == 0 {
		return
	}
	clear(w)
	for r := k; r < n; r++ {
		w[r] = vec.Dot(a[r*s+o:(r+1)*s], v[o:])
	}
	vec.Axpy(-vec.Dot(v[o:], w[o:])/2, v[o:], w[o:])
	for r := k; r < n; r++ {
		row := a[r*s+o : (r+1)*s]
		vec.Axpy(-v[r], w[o:], row)
		vec.Axpy(-w[r], v[o:], row)
	}
}

// above returns the number of eigenvalues above x (Sturm sequence).
func (t *bands) above(x float64) (n int) {
	tiny := float64(t.wide*1e-18) + 1e-300
	q := 1.0
	for i, d := range t.d {
		q, d = d-x, q
		if i > 0 {
			q -= float64(t.e[i-1]*t.e[i-1]) / d
		}
		if math.Abs(q) < tiny {
			q = -tiny
		}
		if q > 0 {
			n++
		}
	}
	return n
}

// value returns the eigenvalue that has j larger ones.
func (t *bands) value(j int) float64 {
	lo, hi := -t.wide, t.wide
	for range 64 {
		mid := lo + float64((hi-lo)/2)
		if t.above(mid) > j {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + float64((hi-lo)/2)
}

// vector returns an eigenvector of value that is orthogonal to those in before.
func (t *bands) vector(value float64, before [][]float64) []float64 {
	y := make([]float64, len(t.d))
	for i := range y {
		y[i] = t.start.Norm()
	}
	f := t.factor(value)
	for range 4 {
		f.solve(y)
		for range 2 {
			for _, b := range before {
				along := 0.0
				for i, x := range b {
					along += float64(x * y[i])
				}
				for i, x := range b {
					y[i] -= float64(along * x)
				}
			}
		}
		square := 0.0
		for _, x := range y {
			square += float64(x * x)
		}
		unit := 1 / math.Sqrt(square)
		for i := range y {
			y[i] *= unit
		}
	}
	return y
}

// factors is the LU decomposition of a tridiagonal matrix with row exchanges.
type factors struct {
	u, v, w []float64 // upper factor: diagonal and two superdiagonals
	l       []float64
	swap    []bool
}

// factor decomposes the matrix minus x times the identity. x is an eigenvalue, so a pivot
// may be zero; factor replaces it with a tiny one.
func (t *bands) factor(x float64) *factors {
	n := len(t.d)
	f := &factors{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]bool, n)}
	tiny := float64(t.wide*1e-16) + 1e-290
	diagonal, right := t.d[0]-x, t.e[0]
	for i := range n {
		if i == n-1 {
			f.u[i] = diagonal
		} else if below, next := t.e[i], t.d[i+1]-x; math.Abs(below) > math.Abs(diagonal) {
			f.swap[i] = true
			f.l[i] = diagonal / below
			f.u[i], f.v[i], f.w[i] = below, next, t.e[i+1]
			diagonal, right = right-float64(f.l[i]*next), -float64(f.l[i]*t.e[i+1])
		} else {
			if math.Abs(diagonal) < tiny {
				diagonal = tiny
			}
			f.l[i] = below / diagonal
			f.u[i], f.v[i] = diagonal, right
			diagonal, right = next-float64(f.l[i]*right), t.e[i+1]
		}
		if math.Abs(f.u[i]) < tiny {
			f.u[i] = tiny
		}
	}
	return f
}

// solve replaces y with the solution, scaled against overflow.
func (f *factors) solve(y []float64) {
	n := len(y)
	for i := range n - 1 {
		if f.swap[i] {
			y[i], y[i+1] = y[i+1], y[i]
		}
		y[i+1] -= float64(f.l[i] * y[i])
	}
	for i := n - 1; i >= 0; i-- {
		if i+1 < n {
			y[i] -= float64(f.v[i] * y[i+1])
		}
		if i+2 < n {
			y[i] -= float64(f.w[i] * y[i+2])
		}
		y[i] /= f.u[i]
		if big := math.Abs(y[i]); big > 1e100 {
			for j := range y {
				y[j] /= big
			}
		}
	}
}
