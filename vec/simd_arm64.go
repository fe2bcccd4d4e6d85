//go:build arm64 && !purego

package vec

// simd reports whether the NEON kernels are in use. Every arm64 processor has NEON; tests switch
// it off to compare.
var simd = true

// checkRows panics if a row number is outside the arena.
func checkRows(arena []float32, stride int, rd []uint32) {
	last := uint32(0)
	for _, r := range rd {
		last = max(last, r)
	}
	if (int(last)+1)*stride > len(arena) {
		panic(badRow)
	}
}

func dotsSIMD(arena []float32, stride int, rd []uint32, v []float32, bias float32, dst []float32) bool {
	if !simd || stride != 32 || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	dots32Asm(&arena[0], &rd[0], len(rd), &v[0], bias, &dst[0])
	return true
}

func wsumSIMD(arena []float32, stride int, rd []uint32, g, dst []float32) bool {
	if !simd || stride != 32 || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	wsumRowsAsm(&arena[0], stride, &rd[0], &g[0], len(rd), &dst[0])
	return true
}

func scatSIMD(arena []float32, stride int, wr []uint32, g, v []float32) bool {
	if !simd || stride != 32 || len(wr) == 0 {
		return false
	}
	checkRows(arena, stride, wr)
	scatRowsAsm(&arena[0], stride, &wr[0], &g[0], len(wr), &v[0])
	return true
}

func dotsAllSIMD(arena []float32, stride int, v []float32, bias float32, dst []float32) bool {
	if !simd || stride != 32 || len(dst) == 0 {
		return false
	}
	_ = arena[len(dst)*stride-1]
	dotsAll32Asm(&arena[0], len(dst), &v[0], bias, &dst[0])
	return true
}

func bceGradSIMD(y []float32, scale float32, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	bceGradAsm(&y[0], scale, n, &dst[0])
	return n
}

// tileRows returns the number of rows of the next tile of Gemm if left rows remain.
func tileRows(left int) int {
	if left < 6 {
		return 1
	}
	return 6
}

// gemmTile adds to a tile of tileRows rows by sixteen columns of c.
func gemmTile(rows, k int, a []float32, rowA, colA int, b []float32, rowB int, c []float32, rowC int) {
	if rows == 6 {
		gemm6x16Asm(k, &a[0], rowA, colA, &b[0], rowB, &c[0], rowC)
	} else {
		gemm1x16Asm(k, &a[0], rowA, colA, &b[0], rowB, &c[0], rowC)
	}
}
