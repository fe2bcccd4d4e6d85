//go:build amd64 && !purego

package vec

// tileRows returns the number of rows of the next tile of Gemm if left rows remain.
func tileRows(left int) int {
	switch {
	case wide && left >= 24:
		return 24
	case wide && left >= 12:
		return 12
	}
	return min(left, 6)
}

// gemmTile adds to a tile of tileRows rows by sixteen columns of c.
func gemmTile(rows, k int, a []float32, rowA, colA int, b []float32, rowB int, c []float32, rowC int) {
	pa, pb, pc := &a[0], &b[0], &c[0]
	switch rows {
	case 24:
		gemmWide24x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	case 12:
		gemmWide12x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	case 6:
		if wide {
			gemmWide6x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
		} else {
			gemm6x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
		}
	case 5:
		gemm5x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	case 4:
		gemm4x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	case 3:
		gemm3x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	case 2:
		gemm2x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	default:
		gemm1x16Asm(k, pa, rowA, colA, pb, rowB, pc, rowC)
	}
}

// turnSIMD transposes sixteen rows of src, stride floats apart, to rows of sixteen floats of dst.
// It returns the number of columns that it processed, a multiple of eight.
func turnSIMD(k int, src []float32, stride int, dst []float32) int {
	n := k &^ 7
	if !simd || n == 0 {
		return 0
	}
	turnAsm(n, &src[0], stride, &dst[0])
	return n
}
