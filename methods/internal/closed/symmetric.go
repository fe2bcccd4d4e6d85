package closed

import "github.com/tacit-rec/tacit/method"

// SymmetricRows is a symmetric matrix over a number of items, stored as rows of a PerItem
// slot with one entry per pair. The pair (i, j) is in row i at the cyclic distance from i
// to j if that is at most half of the catalogue, and otherwise in row j. All rows have
// the same length, so the slot has half the size of the full matrix.
type SymmetricRows uint32

// Dim returns the length of a row.
func (n SymmetricRows) Dim() int { return int(n)/2 + 1 }

// Place returns the row and the column of the pair (i, j).
func (n SymmetricRows) Place(i, j uint32) (row, at uint32) {
	d := j - i
	if j < i {
		d += uint32(n)
	}
	if 2*d > uint32(n) || 2*d == uint32(n) && j < i {
		return j, uint32(n) - d
	}
	return i, d
}

// Whole returns the full matrix with ridge added to its diagonal. Rows and columns of
// items not in keep are zero.
func (n SymmetricRows) Whole(rows []float32, stride int, ridge float64, keep []bool) *Dense {
	d := NewDense(int(n))
	for i := range uint32(n) {
		for at, x := range rows[int(i)*stride:][:n.Dim()] {
			j := (i + uint32(at)) % uint32(n)
			if x != 0 && keep[i] && keep[j] { // entries without a pair are zero
				d.Data[int(i)*d.Stride+int(j)] = x
				d.Data[int(j)*d.Stride+int(i)] = x
			}
		}
		d.Data[int(i)*d.Stride+int(i)] += float32(ridge)
	}
	return d
}

// Factored returns the Cholesky factor of Whole. Sums of honest devices are positive semidefinite; if a
// lie makes the matrix indefinite, it takes the smallest of ten, a hundred, ... times the ridge that helps.
// It returns nil if none does.
func (n SymmetricRows) Factored(rows []float32, stride int, ridge float64, keep []bool) *Dense {
	for range 9 {
		d := n.Whole(rows, stride, ridge, keep)
		if d.Factor() {
			return d
		}
		ridge *= 10
	}
	return nil
}

// FrequentItems reports which items at least few devices have. The first number of each
// row of counts is the item's count.
func FrequentItems(counts []float32, n, stride, few int) []bool {
	keep := make([]bool, n)
	for i := range keep {
		keep[i] = counts[i*stride] >= float32(few)
	}
	return keep
}

// Pairs adds 1 for each pair of a device's distinct items, including each item with
// itself. base is the slot's first row.
func (n SymmetricRows) Pairs(items []uint32, base uint32, v *method.View) {
	for x, i := range items {
		for _, j := range items[x:] {
			row, at := n.Place(i, j)
			v.Row(base + row)[at]++
		}
	}
}

// Ease computes the weights of EASE from the sums of Pairs: row i of dst holds
// -P_ij/P_jj, where P = (gram + reg I)^-1, and 0 on the diagonal. Rows and columns of
// items not in keep are zero.
func (n SymmetricRows) Ease(keep []bool, gram []float32, stride int, reg float64, dst []float32, wide int) {
	clear(dst)
	d := n.Factored(gram, stride, reg, keep)
	if d == nil {
		return
	}
	p := d.Inverse()
	for i := range int(n) {
		for j := range int(n) {
			if i != j {
				dst[i*wide+j] = -p.Data[i*p.Stride+j] / p.Data[j*p.Stride+j]
			}
		}
	}
}
