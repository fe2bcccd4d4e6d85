package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scale sets dst to s times x, over n floats, a multiple of eight.
func scale() {
	text("scaleAsm", "func(s float32, x *float32, n int, dst *float32)")
	x, n, dst := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	p, err := Param("s").Resolve()
	must(err)
	s := YMM()
	VBROADCASTSS(p.Addr, s)
	for _, k := range []int{4, 1} {
		loop(map[int]string{4: "four", 1: "one"}[k], n, 8*k, func() {
			for b := range k {
				v := YMM()
				VMULPS(Mem{Base: x, Disp: 32 * b}, s, v)
				VMOVUPS(v, Mem{Base: dst, Disp: 32 * b})
			}
			ADDQ(U32(uint32(32*k)), x)
			ADDQ(U32(uint32(32*k)), dst)
		})
	}
	VZEROUPPER()
	RET()
}

// scaleEach multiplies row at[x] of dst by s[x], for n values of x; rows are stride floats, a
// multiple of eight.
func scaleEach() {
	text("scaleEachAsm", "func(s *float32, at *uint32, stride int, n int, dst *float32)")
	s, at, stride := Load(Param("s"), GP64()), Load(Param("at"), GP64()), Load(Param("stride"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	SHLQ(Imm(2), stride)
	loop("row", n, 1, func() {
		row, left, f := GP64(), GP64(), YMM()
		MOVL(Mem{Base: at}, row.As32())
		IMULQ(stride, row)
		ADDQ(dst, row)
		MOVQ(stride, left)
		VBROADCASTSS(Mem{Base: s}, f)
		for _, blocks := range []int{4, 1} {
			loop(map[int]string{4: "four", 1: "one"}[blocks], left, 32*blocks, func() {
				for b := range blocks {
					v := YMM()
					VMULPS(Mem{Base: row, Disp: 32 * b}, f, v)
					VMOVUPS(v, Mem{Base: row, Disp: 32 * b})
				}
				ADDQ(U32(uint32(32*blocks)), row)
			})
		}
		ADDQ(Imm(4), at)
		ADDQ(Imm(4), s)
	})
	VZEROUPPER()
	RET()
}

// scaleRows sets row to[x] of dst to s times row from[x] of src, for n values of x; rows are
// stride floats, a multiple of eight. It prefetches rows, because those of a private table are
// rarely cached.
func scaleRows() {
	text("scaleRowsAsm", "func(s float32, src *float32, from *uint32, stride int, n int, dst *float32, to *uint32)")
	src, from, stride := Load(Param("src"), GP64()), Load(Param("from"), GP64()), Load(Param("stride"), GP64())
	n, dst, to := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("to"), GP64())
	p, err := Param("s").Resolve()
	must(err)
	s := YMM()
	VBROADCASTSS(p.Addr, s)
	SHLQ(Imm(2), stride)
	const ahead = 8
	one := func(label string, fetch bool) {
		loop(label, n, map[bool]int{true: ahead + 1, false: 1}[fetch], func() {
			if fetch {
				for _, r := range [][2]Register{{src, from}, {dst, to}} {
					soon := strided(r[0], r[1], stride, ahead)
					PREFETCHT0(Mem{Base: soon})
					PREFETCHT0(Mem{Base: soon, Disp: 64})
				}
			}
			a, b, left := strided(src, from, stride, 0), strided(dst, to, stride, 0), GP64()
			MOVQ(stride, left)
			loop(label+"Block", left, 32, func() {
				v := YMM()
				VMULPS(Mem{Base: a}, s, v)
				VMOVUPS(v, Mem{Base: b})
				ADDQ(Imm(32), a)
				ADDQ(Imm(32), b)
			})
			ADDQ(Imm(4), from)
			ADDQ(Imm(4), to)
			if fetch { // loop decrements by the whole step
				ADDQ(Imm(ahead), n)
			}
		})
	}
	one("many", true)
	one("last", false)
	VZEROUPPER()
	RET()
}
