package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// align turns new features towards those of an earlier run, so that maps that were trained on these fit the new ones.
// Features are factors of matrices, and any rotation of a part's columns is as good a factor: their signs and their
// order follow from the data. Each part is multiplied by the orthogonal matrix that brings it nearest to the old part
// (Schönemann 1966). Without old features it changes nothing.
func (f *Features) align(g *method.Global, old []float32) {
	r, stride := f.rankOf(g.Items), g.Stride[f.First+featureTable]
	table := g.Value[f.First+featureTable]
	for part := range 3 {
		rotation := nearestOrthogonal(cross(table[part*r:], old[part*r:], g.Items, r, stride), r)
		if rotation == nil {
			continue
		}
		packed := make([]float32, g.Items*r)
		for i := range g.Items {
			copy(packed[i*r:(i+1)*r], table[i*stride+part*r:])
		}
		packed = product(packed, g.Items, r, rotation, r)
		for i := range g.Items {
			copy(table[i*stride+part*r:][:r], packed[i*r:(i+1)*r])
		}
	}
}

// nearestOrthogonal returns the orthogonal factor of an n by n matrix, A B' of its singular value decomposition
// A S B', or nil if the matrix is zero or not finite. Columns of A without a singular value complete the basis.
func nearestOrthogonal(m []float64, n int) []float32 {
	values, b := learn.Eigen(gramOf(m, n), n)
	if !(values[0] > 0) || math.IsInf(values[0], 0) {
		return nil
	}
	a := make([][]float64, n)
	for c := range a {
		a[c] = make([]float64, n)
		if values[c] > tinyShare*values[0] {
			for i := range n {
				for j, x := range b[c] {
					a[c][i] += float64(m[i*n+j] * x)
				}
			}
		}
		for axis := 0; !orthonormalise(a[c], a[:c]) && axis < n; axis++ {
			clear(a[c])
			a[c][axis] = 1
		}
	}
	out := make([]float32, n*n)
	for i := range n {
		for j := range n {
			sum := 0.0
			for c := range n {
				sum += float64(a[c][i] * b[c][j])
			}
			out[i*n+j] = float32(sum)
		}
	}
	return out
}

// orthonormalise removes the components of v in the directions of unit vectors and scales it to length 1. It reports
// false if hardly anything is left.
func orthonormalise(v []float64, units [][]float64) bool {
	before := length(v)
	for range 2 { // the second time removes rounding errors
		for _, u := range units {
			dot := 0.0
			for i, x := range u {
				dot += float64(x * v[i])
			}
			for i, x := range u {
				v[i] -= float64(dot * x)
			}
		}
	}
	after := length(v)
	if !(after > 1e-3*before) {
		return false
	}
	for i := range v {
		v[i] /= after
	}
	return true
}

func length(v []float64) float64 {
	square := 0.0
	for _, x := range v {
		square += float64(x * x)
	}
	return math.Sqrt(square)
}

// gramOf returns m'm for an n by n matrix.
func gramOf(m []float64, n int) []float64 {
	out := make([]float64, n*n)
	for k := range n {
		for i := range n {
			for j := range n {
				out[i*n+j] += float64(m[k*n+i] * m[k*n+j])
			}
		}
	}
	return out
}

// cross returns x'y for the first k columns of two matrices with n rows, stride floats apart. Blocks of rows are added
// up in float64, so that the error does not grow with n.
func cross(x, y []float32, n, k, stride int) []float64 {
	wide := vec.Pad(k)
	out, block := make([]float64, k*k), make([]float32, k*wide)
	room := make([]float32, vec.GemmRoom(blockRows))
	for from := 0; from < n; from += blockRows {
		rows := min(blockRows, n-from)
		left, right := vec.Rows(x[from*stride:], stride), vec.Rows(y[from*stride:], stride)
		clear(block)
		vec.Gemm(k, k, rows, left.T(), right, room, vec.Rows(block, wide))
		for i := range k {
			for j := range k {
				out[i*k+j] += float64(block[i*wide+j])
			}
		}
	}
	return out
}
