package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/vec"
)

// Dense is a symmetric positive definite matrix over a catalogue, in float32, with rows
// Stride apart. Operations work on blocks with vec.Gemm, so results have the same bits on
// every platform; arithmetic inside a diagonal block is in float64.
type Dense struct {
	N, Stride int
	Data      []float32
	inverse   [][]float32 // inverses of the factor's diagonal blocks
	room      []float32
	side      []float32
}

const block = 64

// NewDense returns a matrix of zeros.
func NewDense(n int) *Dense {
	s := vec.Pad(n)
	return &Dense{
		N: n, Stride: s, Data: make([]float32, n*s), room: make([]float32, vec.GemmRoom(max(n, block))),
		side: make([]float32, n*block),
	}
}

func (d *Dense) at(i, j int) vec.Mat {
	return vec.Mat{Data: d.Data[i*d.Stride+j:], Row: d.Stride, Col: 1}
}

// Factor replaces the lower triangle with its Cholesky factor. It reports false if the
// matrix is not positive definite.
func (d *Dense) Factor() bool {
	d.inverse = nil
	for j := 0; j < d.N; j += block {
		b := min(block, d.N-j)
		if !d.factorBlock(j, b) {
			return false
		}
		rest, below := j+b, d.N-j-b
		if below == 0 {
			break
		}
		// The panel below is A L^-T; its negative updates the blocks to the right.
		side := d.side[:below*block]
		clear(side)
		inv := vec.Rows(d.inverse[len(d.inverse)-1], block)
		vec.Gemm(below, b, b, d.at(rest, j), inv.T(), d.room, vec.Rows(side, block))
		for i := range below {
			copy(d.Data[(rest+i)*d.Stride+j:][:b], side[i*block:])
		}
		vec.Scale(-1, side)
		for k := rest; k < d.N; k += block {
			wide := min(block, d.N-k)
			vec.Gemm(d.N-k, wide, b, vec.Rows(side[(k-rest)*block:], block), d.at(k, j).T(), d.room, d.at(k, k))
		}
	}
	return true
}

// factorBlock factors a diagonal block and stores its inverse.
func (d *Dense) factorBlock(j, b int) bool {
	a := make([]float64, b*b)
	for r := range b {
		for c := range r + 1 {
			a[r*b+c] = float64(d.Data[(j+r)*d.Stride+j+c])
		}
	}
	if !learn.Cholesky(a, b) {
		return false
	}
	inv, x := make([]float32, block*block), make([]float64, b)
	for c := range b {
		for r := c; r < b; r++ {
			x[r] = 0
			if r == c {
				x[r] = 1
			}
			for k := c; k < r; k++ {
				x[r] -= float64(a[r*b+k] * x[k])
			}
			x[r] /= a[r*b+r]
			inv[r*block+c] = float32(x[r])
		}
	}
	for r := range b {
		for c := range r + 1 {
			d.Data[(j+r)*d.Stride+j+c] = float32(a[r*b+c])
		}
	}
	d.inverse = append(d.inverse, inv)
	return true
}

// Solve replaces y, which has d.N rows of wide numbers, stride apart, with the solution x
// of d x = y. Call Factor first.
func (d *Dense) Solve(y []float32, wide, stride int) {
	part := make([]float32, block*stride)
	at := func(i int) vec.Mat { return vec.Rows(y[i*stride:], stride) }
	times := func(j, b int, m vec.Mat) { // rows j to j+b become m times themselves
		clear(part)
		vec.Gemm(b, wide, b, m, at(j), d.room, vec.Rows(part, stride))
		copy(y[j*stride:(j+b)*stride], part)
	}
	minus := func() vec.Mat { vec.Scale(-1, part); return vec.Rows(part, stride) }
	for j, n := 0, 0; j < d.N; j, n = j+block, n+1 {
		b := min(block, d.N-j)
		times(j, b, vec.Rows(d.inverse[n], block))
		if below := d.N - j - b; below > 0 {
			vec.Gemm(below, wide, b, d.at(j+b, j), minus(), d.room, at(j+b))
		}
	}
	for n := len(d.inverse) - 1; n >= 0; n-- {
		j := n * block
		b := min(block, d.N-j)
		times(j, b, vec.Rows(d.inverse[n], block).T())
		if j > 0 {
			vec.Gemm(j, wide, b, d.at(j, 0).T(), minus(), d.room, at(0))
		}
	}
}

// Inverse returns the inverse. Call Factor first.
func (d *Dense) Inverse() *Dense {
	p := NewDense(d.N)
	for i := range d.N {
		p.Data[i*p.Stride+i] = 1
	}
	d.Solve(p.Data, d.N, p.Stride)
	return p
}
