//go:build !purego

package vec

import "golang.org/x/sys/cpu"

// simd says whether the AVX2 kernels serve. They give the bits of their Go twins;
// tests switch it off to compare.
var simd = cpu.X86.HasAVX2

// checkRows panics if a row number is beyond the arena.
func checkRows(arena []float32, stride int, rd []uint32) {
	if (int(maxRowAVX2(&rd[0], len(rd)))+1)*stride > len(arena) {
		panic(badRow)
	}
}

// Each function below reports false where the Go twin must do the work. Lengths
// have been checked.

func dotsSIMD(arena []float32, stride int, rd []uint32, v []float32, bias float32, dst []float32) bool {
	if !simd || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	switch stride {
	case 32:
		dots32AVX2(&arena[0], &rd[0], len(rd), &v[0], bias, &dst[0])
	case 64:
		dots64AVX2(&arena[0], &rd[0], len(rd), &v[0], bias, &dst[0])
	default:
		return false
	}
	return true
}

func dotsAllSIMD(arena []float32, stride int, v []float32, bias float32, dst []float32) bool {
	if !simd || stride != 32 || len(dst) == 0 {
		return false
	}
	_ = arena[len(dst)*stride-1]
	dotsAll32AVX2(&arena[0], len(dst), &v[0], bias, &dst[0])
	return true
}

func wsumSIMD(arena []float32, stride int, rd []uint32, g, dst []float32) bool {
	if !simd || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	o := 0
	for ; o+32 <= stride; o += 32 {
		wsum32AVX2(&arena[o], stride, &rd[0], &g[0], len(rd), &dst[o])
	}
	for ; o < stride; o += 8 {
		wsum8AVX2(&arena[o], stride, &rd[0], &g[0], len(rd), &dst[o])
	}
	return true
}

func scatSIMD(arena []float32, stride int, wr []uint32, g, v []float32) bool {
	if !simd || len(wr) == 0 {
		return false
	}
	checkRows(arena, stride, wr)
	o := 0
	for ; o+32 <= stride; o += 32 {
		scat32AVX2(&arena[o], stride, &wr[0], &g[0], len(wr), &v[o])
	}
	for ; o < stride; o += 8 {
		scat8AVX2(&arena[o], stride, &wr[0], &g[0], len(wr), &v[o])
	}
	return true
}

// The next four return how many elements they did: a multiple of eight.

func bceGradSIMD(y []float32, scale float32, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	bceGradAVX2(&y[0], scale, n, &dst[0])
	return n
}

func axpySIMD(s float32, x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	axpyAVX2(s, &x[0], n, &dst[0])
	return n
}

func addSIMD(x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	addAVX2(&x[0], n, &dst[0])
	return n
}

func mergeSIMD(acc []float32, step, shards int, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 || shards == 0 {
		return 0
	}
	_ = acc[(shards-1)*step+n-1]
	mergeAVX2(&acc[0], step, shards, n, &dst[0])
	return n
}

func foldSIMD(arena []float32, stride int, item []uint32, s float32, loc, dst uint32) bool {
	if !simd || len(item) == 0 {
		return false
	}
	checkRows(arena[int(dst)*stride:], stride, item)
	checkRows(arena, stride, item)
	now := arena[int(loc)*stride:][:len(item)*stride]
	foldAVX2(s, &arena[0], stride, &item[0], len(item), &now[0], &arena[int(dst)*stride])
	return true
}

// sumSIMD leaves eight partial sums in lanes.
func sumSIMD(x []float32, lanes *[Lanes]float32) int {
	n := len(x) &^ 7
	if !simd || n == 0 {
		return 0
	}
	sumAVX2(&x[0], n, &lanes[0])
	return n
}

// skipSIMD returns how many scores, a multiple of eight, are not above least.
func skipSIMD(x []float32, least float32) int {
	n := len(x) &^ 7
	if !simd || n == 0 {
		return 0
	}
	return aboveAVX2(&x[0], n, least)
}

func adamSIMD(g []float32, rate, b1, b2, eps float32, m, v, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	adamAVX2(&g[0], rate, b1, 1-b1, b2, 1-b2, eps, n, &m[0], &v[0], &dst[0])
	return n
}

// gemmTile adds to rows (6 or 1) by sixteen places of c.
func gemmTile(rows, k int, a []float32, rowA, colA int, b []float32, rowB int, c []float32, rowC int) bool {
	if !simd || k == 0 {
		return false
	}
	if rows == 6 {
		gemm6x16AVX2(k, &a[0], rowA, colA, &b[0], rowB, &c[0], rowC)
	} else {
		gemm1x16AVX2(k, &a[0], rowA, colA, &b[0], rowB, &c[0], rowC)
	}
	return true
}

func drawSIMD(s *Stream, items, floor uint32, taken []uint64, n int, dst []uint32) bool {
	if !simd || n == 0 {
		return false
	}
	drawAVX2(&s[0][0], int(items), int(floor), &taken[0], n, &dst[0])
	return true
}

// resolveSIMD returns how many samples it did: a multiple of eight.
func resolveSIMD(raw []uint32, tab []int32, acc uint32, item []uint32, y []float32, rd, wr []uint32) int {
	n := len(raw) &^ 7
	if !simd || n == 0 {
		return 0
	}
	resolveAVX2(&raw[0], &tab[0], int(acc), n, &item[0], &y[0], &rd[0], &wr[0])
	return n
}

func gatherSIMD(arena []float32, stride int, src []uint32, dst uint32) bool {
	if !simd || stride != 32 || len(src) == 0 {
		return false
	}
	checkRows(arena, stride, src)
	to := arena[int(dst)*stride:][:len(src)*stride]
	gather32AVX2(&arena[0], &src[0], len(src), &to[0])
	return true
}
