package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemm adds the product of k columns of a and k rows of b to a tile of c, one to six rows (AVX2)
// or 6, 12 or 24 rows (AVX-512) by sixteen columns. Strides are in floats; a's element (i, k) is at
// i*rowA + k*colA, so a may be transposed. Each element of c is one sum in the order of k, so all
// kernels return the same bits.
func gemm() {
	for rows := 6; rows > 0; rows-- {
		gemmTile(fmt.Sprintf("gemm%dx16Asm", rows), rows, YMM)
	}
	for _, rows := range []int{24, 12, 6} {
		gemmTile(fmt.Sprintf("gemmWide%dx16Asm", rows), rows, ZMM)
	}
	turn()
}

// turn transposes sixteen rows of k floats, a multiple of eight, to k rows of sixteen.
func turn() {
	text("turnAsm", "func(k int, src *float32, stride int, dst *float32)")
	k, src, stride, dst := Load(Param("k"), GP64()), Load(Param("src"), GP64()), Load(Param("stride"), GP64()),
		Load(Param("dst"), GP64())
	SHLQ(Imm(2), stride)
	loop("eight", k, 8, func() {
		at := GP64()
		MOVQ(src, at)
		for half := range 2 {
			var row [8]VecVirtual
			for i := range row {
				row[i] = YMM()
				VMOVUPS(Mem{Base: at}, row[i])
				ADDQ(stride, at)
			}
			for i, y := range transposed(row) {
				VMOVUPS(y, Mem{Base: dst, Disp: 64*i + 32*half})
			}
		}
		ADDQ(Imm(32), src)
		ADDQ(U32(8*64), dst)
	})
	VZEROUPPER()
	RET()
}

// transposed returns the columns of eight rows of eight floats.
func transposed(row [8]VecVirtual) (out [8]VecVirtual) {
	var pair, quad [8]VecVirtual
	for i := 0; i < 8; i += 2 {
		pair[i], pair[i+1] = YMM(), YMM()
		VUNPCKLPS(row[i+1], row[i], pair[i])
		VUNPCKHPS(row[i+1], row[i], pair[i+1])
	}
	for _, i := range []int{0, 4} {
		for h := range 2 {
			quad[i+2*h], quad[i+2*h+1] = YMM(), YMM()
			VSHUFPS(Imm(0x44), pair[i+2+h], pair[i+h], quad[i+2*h])
			VSHUFPS(Imm(0xee), pair[i+2+h], pair[i+h], quad[i+2*h+1])
		}
	}
	for i := range 4 {
		out[i], out[i+4] = YMM(), YMM()
		VPERM2F128(Imm(0x20), quad[i+4], quad[i], out[i])
		VPERM2F128(Imm(0x31), quad[i+4], quad[i], out[i+4])
	}
	return out
}

func gemmTile(name string, rows int, vector func() VecVirtual) {
	text(name, "func(k int, a *float32, rowA int, colA int, b *float32, rowB int, c *float32, rowC int)")
	k, a, rowA, colA := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("rowA"), GP64()),
		Load(Param("colA"), GP64())
	b, rowB := Load(Param("b"), GP64()), Load(Param("rowB"), GP64())
	for _, r := range []Register{rowA, colA, rowB} {
		SHLQ(Imm(2), r)
	}
	size := int(vector().Size())
	acc := make([][]VecVirtual, rows)
	for i := range acc {
		for range 64 / size {
			acc[i] = append(acc[i], vector())
		}
	}
	tile := func(move func(y VecVirtual, m Mem)) {
		at, rowC := Load(Param("c"), GP64()), Load(Param("rowC"), GP64())
		SHLQ(Imm(2), rowC)
		for i := range acc {
			for h, y := range acc[i] {
				move(y, Mem{Base: at, Disp: size * h})
			}
			if i+1 < rows {
				ADDQ(rowC, at)
			}
		}
	}
	tile(func(y VecVirtual, m Mem) { VMOVUPS(m, y) })
	// The address of every third row of a; the index reaches the two rows after it.
	third := []GPVirtual{a.(GPVirtual)}
	for i := 3; i < rows; i += 3 {
		next, last := GP64(), third[len(third)-1]
		LEAQ(Mem{Base: last, Index: rowA, Scale: 2}, next)
		ADDQ(rowA, next)
		third = append(third, next)
	}
	loop("k", k, 1, func() {
		x, t := vector(), vector()
		var right []VecVirtual
		for h := range acc[0] {
			y := vector()
			VMOVUPS(Mem{Base: b, Disp: size * h}, y)
			right = append(right, y)
		}
		for i := range acc {
			m := Mem{Base: third[i/3]}
			if i%3 > 0 {
				m.Index, m.Scale = rowA, uint8(i%3)
			}
			VBROADCASTSS(m, x)
			for h, y := range right {
				VMULPS(y, x, t)
				VADDPS(t, acc[i][h], acc[i][h])
			}
		}
		for _, r := range third {
			ADDQ(colA, r)
		}
		ADDQ(rowB, b)
	})
	tile(func(y VecVirtual, m Mem) { VMOVUPS(y, m) })
	VZEROUPPER()
	RET()
}
