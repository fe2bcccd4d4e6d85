package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gemm adds the product of k columns of a and k rows of b to a tile of c, six rows by sixteen
// columns. Strides are in floats; a's element (i, k) is at i*rowA + k*colA, so a may be
// transposed. Each element of c is one sum in the order of k.
func gemm() {
	for _, rows := range []int{6, 1} {
		text(map[int]string{6: "gemm6x16Asm", 1: "gemm1x16Asm"}[rows],
			"func(k int, a *float32, rowA int, colA int, b *float32, rowB int, c *float32, rowC int)")
		k, a, rowA, colA := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("rowA"), GP64()),
			Load(Param("colA"), GP64())
		b, rowB := Load(Param("b"), GP64()), Load(Param("rowB"), GP64())
		c, rowC := Load(Param("c"), GP64()), Load(Param("rowC"), GP64())
		for _, r := range []Register{rowA, colA, rowB, rowC} {
			SHLQ(Imm(2), r)
		}
		var acc [6][2]VecVirtual
		for i := range rows {
			acc[i] = [2]VecVirtual{YMM(), YMM()}
		}
		tile := func(move func(y VecVirtual, m Mem)) {
			at := GP64()
			MOVQ(c, at)
			for i := range rows {
				for h := range 2 {
					move(acc[i][h], Mem{Base: at, Disp: 32 * h})
				}
				if i+1 < rows {
					ADDQ(rowC, at)
				}
			}
		}
		tile(func(y VecVirtual, m Mem) { VMOVUPS(m, y) })
		row3 := GP64()
		LEAQ(Mem{Base: rowA, Index: rowA, Scale: 2}, row3)
		loop("k", k, 1, func() {
			b0, b1, x, t := YMM(), YMM(), YMM(), YMM()
			VMOVUPS(Mem{Base: b}, b0)
			VMOVUPS(Mem{Base: b, Disp: 32}, b1)
			far := GP64()
			if rows > 1 {
				LEAQ(Mem{Base: a, Index: row3, Scale: 1}, far)
			}
			for i := range rows {
				m := []Mem{
					{Base: a},
					{Base: a, Index: rowA, Scale: 1},
					{Base: a, Index: rowA, Scale: 2},
					{Base: far},
					{Base: far, Index: rowA, Scale: 1},
					{Base: far, Index: rowA, Scale: 2},
				}[i]
				VBROADCASTSS(m, x)
				VMULPS(b0, x, t)
				VADDPS(t, acc[i][0], acc[i][0])
				VMULPS(b1, x, t)
				VADDPS(t, acc[i][1], acc[i][1])
			}
			ADDQ(colA, a)
			ADDQ(rowB, b)
		})
		tile(func(y VecVirtual, m Mem) { VMOVUPS(y, m) })
		VZEROUPPER()
		RET()
	}
}
