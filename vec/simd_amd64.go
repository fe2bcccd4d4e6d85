//go:build amd64 && !purego

package vec

import "golang.org/x/sys/cpu"

// simd reports whether the AVX2 kernels are in use. They return the same bits as their Go twins;
// tests switch it off to compare.
var simd = cpu.X86.HasAVX2

// wide reports whether the AVX-512 forms of some kernels are in use as well. It has no effect
// without simd.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL

// checkRows panics if a row number is outside the arena.
func checkRows(arena []float32, stride int, rd []uint32) {
	if (int(maxRow(rd))+1)*stride > len(arena) {
		panic(badRow)
	}
}

// checkItems panics if the item of a raw sample is outside tab.
func checkItems(raw []uint32, tab []int32) {
	if int(maxRow(raw)) >= len(tab) {
		panic(badRow)
	}
}

func maxRow(rd []uint32) uint32 {
	n := len(rd) &^ 15
	if !wide || n == 0 {
		return maxRowAsm(&rd[0], len(rd))
	}
	m := maxRowWideAsm(&rd[0], n)
	for _, r := range rd[n:] {
		m = max(m, r&^Positive)
	}
	return m
}

// Each function below returns false if the Go twin must do the work. The caller has checked the
// lengths.

func dotsSIMD(arena []float32, stride int, rd []uint32, v []float32, bias float32, dst []float32) bool {
	if !simd || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	a, r, n, w, d := &arena[0], &rd[0], len(rd), &v[0], &dst[0]
	switch stride {
	case 8:
		dots8Asm(a, r, n, w, bias, d)
	case 16:
		dots16Asm(a, r, n, w, bias, d)
	case 24:
		dots24Asm(a, r, n, w, bias, d)
	case 32:
		if wide {
			dots32WideAsm(a, r, n, w, bias, d)
		} else {
			dots32Asm(a, r, n, w, bias, d)
		}
	case 40:
		dots40Asm(a, r, n, w, bias, d)
	case 48:
		dots48Asm(a, r, n, w, bias, d)
	case 64:
		dots64Asm(a, r, n, w, bias, d)
	case 72:
		dots72Asm(a, r, n, w, bias, d)
	case 96:
		dots96Asm(a, r, n, w, bias, d)
	case 128:
		dots128Asm(a, r, n, w, bias, d)
	default:
		return false
	}
	return true
}

func dotsAllSIMD(arena []float32, stride int, v []float32, bias float32, dst []float32) bool {
	if !simd || len(dst) == 0 {
		return false
	}
	_ = arena[len(dst)*stride-1]
	a, n, w, d := &arena[0], len(dst), &v[0], &dst[0]
	switch stride {
	case 8:
		dotsAll8Asm(a, n, w, bias, d)
	case 16:
		dotsAll16Asm(a, n, w, bias, d)
	case 24:
		dotsAll24Asm(a, n, w, bias, d)
	case 32:
		if wide {
			dotsAll32WideAsm(a, n, w, bias, d)
		} else {
			dotsAll32Asm(a, n, w, bias, d)
		}
	case 40:
		dotsAll40Asm(a, n, w, bias, d)
	case 48:
		dotsAll48Asm(a, n, w, bias, d)
	case 64:
		dotsAll64Asm(a, n, w, bias, d)
	case 72:
		dotsAll72Asm(a, n, w, bias, d)
	case 96:
		dotsAll96Asm(a, n, w, bias, d)
	case 128:
		dotsAll128Asm(a, n, w, bias, d)
	default:
		return false
	}
	return true
}

func wsumSIMD(arena []float32, stride int, rd []uint32, g, dst []float32) bool {
	if !simd || len(rd) == 0 {
		return false
	}
	checkRows(arena, stride, rd)
	if stride == 32 && wide {
		wsumRowsWideAsm(&arena[0], &rd[0], &g[0], len(rd), &dst[0])
		return true
	}
	if stride == 32 {
		wsumRowsAsm(&arena[0], stride, &rd[0], &g[0], len(rd), &dst[0])
		return true
	}
	o := 0
	for ; o+32 <= stride; o += 32 {
		wsum32Asm(&arena[o], stride, &rd[0], &g[0], len(rd), &dst[o])
	}
	for ; o < stride; o += 8 {
		wsum8Asm(&arena[o], stride, &rd[0], &g[0], len(rd), &dst[o])
	}
	return true
}

func scatSIMD(arena []float32, stride int, wr []uint32, g, v []float32) bool {
	if !simd || len(wr) == 0 {
		return false
	}
	checkRows(arena, stride, wr)
	if stride == 32 && wide {
		scatRowsWideAsm(&arena[0], &wr[0], &g[0], len(wr), &v[0])
		return true
	}
	if stride == 32 {
		scatRowsAsm(&arena[0], stride, &wr[0], &g[0], len(wr), &v[0])
		return true
	}
	o := 0
	for ; o+32 <= stride; o += 32 {
		scat32Asm(&arena[o], stride, &wr[0], &g[0], len(wr), &v[o])
	}
	for ; o < stride; o += 8 {
		scat8Asm(&arena[o], stride, &wr[0], &g[0], len(wr), &v[o])
	}
	return true
}

func bceGradSIMD(y []float32, scale float32, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	if wide {
		bceGradWideAsm(&y[0], scale, n, &dst[0])
	} else {
		bceGradAsm(&y[0], scale, n, &dst[0])
	}
	return n
}

func foldSIMD(arena []float32, stride int, item []uint32, s float32, loc, dst uint32) bool {
	if !simd || len(item) == 0 {
		return false
	}
	checkRows(arena[int(dst)*stride:], stride, item)
	checkRows(arena, stride, item)
	now := arena[int(loc)*stride:][:len(item)*stride]
	if stride == 32 && wide {
		fold32WideAsm(s, &arena[0], &item[0], len(item), &now[0], &arena[int(dst)*stride])
		return true
	}
	foldAsm(s, &arena[0], stride, &item[0], len(item), &now[0], &arena[int(dst)*stride])
	return true
}

// sumSIMD leaves eight partial sums in lanes.
func sumSIMD(x []float32, lanes *[Lanes]float32) int {
	n := len(x) &^ 7
	if !simd || n == 0 {
		return 0
	}
	sumAsm(&x[0], n, &lanes[0])
	return n
}

// skipSIMD returns the number of leading scores, a multiple of eight, that are not above least.
func skipSIMD(x []float32, least float32) int {
	n := len(x) &^ 7
	if !simd || n == 0 {
		return 0
	}
	return aboveAsm(&x[0], n, least)
}

func adamSIMD(g []float32, rate, b1, b2, eps float32, m, v, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	adamAsm(&g[0], rate, b1, 1-b1, b2, 1-b2, eps, n, &m[0], &v[0], &dst[0])
	return n
}

func drawSIMD(s *Stream, items, floor uint32, taken []uint64, n int, dst []uint32) bool {
	if !simd || n == 0 {
		return false
	}
	if wide && items <= 64*64 && n >= 16 {
		done := drawWide(s, items, floor, taken, n, dst)
		n, dst = n-done, dst[done:]
	}
	if n > 0 {
		drawAsm(&s[0][0], int(items), int(floor), &taken[0], n, &dst[0])
	}
	return true
}

// drawWide draws all but the last numbers, with the bits of the items in registers. It returns
// how many it has drawn.
func drawWide(s *Stream, items, floor uint32, taken []uint64, n int, dst []uint32) int {
	var words [64]uint64
	copy(words[:], taken)
	if items <= 32*64 {
		return draw2048Asm(&s[0][0], int(items), int(floor), &words[0], n, &dst[0])
	}
	return draw4096Asm(&s[0][0], int(items), int(floor), &words[0], n, &dst[0])
}

// equalInFoursSIMD returns the number of leading numbers, a multiple of sixteen, whose groups of
// four have no equal members.
func equalInFoursSIMD(x []uint32) int {
	n := len(x) &^ 15
	if !simd || n == 0 {
		return 0
	}
	return equalInFoursAsm(&x[0], n)
}

// resolveSIMD returns the number of samples that it processed, a multiple of eight.
func resolveSIMD(raw []uint32, tab []int32, acc uint32, item []uint32, y []float32, rd, wr []uint32) int {
	n := len(raw) &^ 7
	if !simd || n == 0 {
		return 0
	}
	checkItems(raw, tab)
	resolveAsm(&raw[0], &tab[0], int(acc), n, &item[0], &y[0], &rd[0], &wr[0])
	return n
}

func gatherSIMD(arena []float32, stride int, src []uint32, dst uint32) bool {
	if !simd || stride != 32 || len(src) == 0 {
		return false
	}
	checkRows(arena, stride, src)
	to := arena[int(dst)*stride:][:len(src)*stride]
	if wide {
		gather32WideAsm(&arena[0], &src[0], len(src), &to[0])
	} else {
		gather32Asm(&arena[0], &src[0], len(src), &to[0])
	}
	return true
}

func scaleRowsSIMD(s float32, src []float32, from []uint32, stride int, dst []float32, to []uint32) bool {
	if !simd || len(from) == 0 {
		return false
	}
	checkRows(src, stride, from)
	checkRows(dst, stride, to)
	scaleRowsAsm(s, &src[0], &from[0], stride, len(from), &dst[0], &to[0])
	return true
}

func scaleEachSIMD(s []float32, at []uint32, stride int, dst []float32) bool {
	if !simd || len(at) == 0 {
		return false
	}
	checkRows(dst, stride, at)
	scaleEachAsm(&s[0], &at[0], stride, len(at), &dst[0])
	return true
}

// countSIMD counts over a multiple of eight floats and returns the number of floats that it
// processed.
func countSIMD(x []float32, s float32) (below, equal, n int) {
	n = len(x) &^ 7
	if !simd || n == 0 {
		return 0, 0, 0
	}
	var lt, eq [Lanes]int32
	countAsm(&x[0], n, s, &lt[0], &eq[0])
	for l := range lt {
		below += int(lt[l])
		equal += int(eq[l])
	}
	return below, equal, n
}

func scaleSIMD(s float32, x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	scaleAsm(s, &x[0], n, &dst[0])
	return n
}

func reluSIMD(dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	reluAsm(&dst[0], n, &dst[0])
	return n
}

func reluBackSIMD(h, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	reluBackAsm(&h[0], n, &dst[0])
	return n
}

func pullSIMD(c, d []float32, stride int, pos []uint32, s, n, u []float32, k *PullRates,
	sums *[3 * Lanes]float32,
) bool {
	if !simd || len(pos) == 0 || stride%Lanes != 0 || stride == 0 {
		return false
	}
	checkRows(c, stride, pos)
	checkRows(d, stride, pos)
	if k.L2 == 0 {
		pullLeanAsm(&c[0], &d[0], stride, &pos[0], &s[0], &n[0], len(pos), &u[0], &k.KeepC, &sums[0])
	} else {
		pullAsm(&c[0], &d[0], stride, &pos[0], &s[0], &n[0], len(pos), &u[0], &k.KeepC, &sums[0])
	}
	return true
}

// roofSIMD returns the number of operations of each round, or 0 without SIMD.
func roofSIMD(n int, x *[2 * Lanes]float32) int {
	switch {
	case !simd:
		return 0
	case wide:
		roofWideAsm(n, &x[0])
		return 10 * 2 * 2 * Lanes
	}
	roofAsm(n, &x[0])
	return 10 * 2 * Lanes
}

func features(on bool) string {
	switch {
	case on && wide:
		return "AVX2, AVX-512"
	case on:
		return "AVX2"
	}
	return "pure Go (no AVX2)"
}

// repeatsSIMD returns the number of samples that it processed and the end of the list of
// occurrences. dst must have room for one more than it lists.
func repeatsSIMD(raw []uint32, tab []int32, dst []uint32, end int) (n, newEnd int) {
	n = len(raw) &^ 3
	if !simd || n == 0 {
		return 0, end
	}
	checkItems(raw, tab)
	return n, repeatsAsm(&raw[0], n, &tab[0], &dst[0], end)
}

// largestSIMD returns the largest bits, without sign, of a multiple of eight numbers, and the
// number of numbers that it processed.
func largestSIMD(x []float32) (m uint32, n int) {
	n = len(x) &^ 7
	if !simd || n == 0 {
		return 0, 0
	}
	var lanes [Lanes]uint32
	largestAsm(&x[0], n, &lanes[0])
	for _, l := range lanes {
		m = max(m, l)
	}
	return m, n
}

func packSIMD(bits int, per float32, row []float32, dst []uint32) bool {
	switch {
	case !simd || len(row) == 0:
		return false
	case bits == 8:
		pack8Asm(per, &row[0], len(row), &dst[0])
	default:
		pack16Asm(per, &row[0], len(row), &dst[0])
	}
	return true
}

func unpackSIMD(bits int, unit float32, row []uint32, dst []float32) bool {
	switch {
	case !simd || len(dst) == 0:
		return false
	case bits == 8:
		unpack8Asm(unit, &row[0], len(dst), &dst[0])
	default:
		unpack16Asm(unit, &row[0], len(dst), &dst[0])
	}
	return true
}
