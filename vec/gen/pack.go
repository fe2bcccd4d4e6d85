package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// largest stores in each of eight lanes the largest bits of n floats, a multiple of eight,
// without their signs.
func largest() {
	text("largestAsm", "func(x *float32, n int, lanes *uint32)")
	x, n, lanes := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("lanes"), GP64())
	m, low, v := YMM(), YMM(), YMM()
	VPXOR(m, m, m)
	VPCMPEQD(low, low, low)
	VPSRLD(Imm(1), low, low)
	loop("eight", n, 8, func() {
		VPAND(Mem{Base: x}, low, v)
		VPMAXUD(v, m, m)
		ADDQ(Imm(32), x)
	})
	VMOVDQU(m, Mem{Base: lanes})
	VZEROUPPER()
	RET()
}

// pack rounds per times n floats, a multiple of eight, to integers of 8 or 16 bits. The results
// never saturate.
func pack(name string, eight bool) {
	text(name, "func(per float32, x *float32, n int, dst *uint32)")
	x, n, dst := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	p, err := Param("per").Resolve()
	must(err)
	per := YMM()
	VBROADCASTSS(p.Addr, per)
	loop("eight", n, 8, func() {
		v, hi := YMM(), XMM()
		VMULPS(Mem{Base: x}, per, v)
		VCVTPS2DQ(v, v)
		VEXTRACTI128(Imm(1), v, hi)
		VPACKSSDW(hi, v.AsX(), hi)
		if eight {
			VPACKSSWB(hi, hi, hi)
			VMOVQ(hi, Mem{Base: dst})
			ADDQ(Imm(8), dst)
		} else {
			VMOVDQU(hi, Mem{Base: dst})
			ADDQ(Imm(16), dst)
		}
		ADDQ(Imm(32), x)
	})
	VZEROUPPER()
	RET()
}

// unpack sets dst to unit times n integers of 8 or 16 bits; n is a multiple of eight.
func unpack(name string, eight bool) {
	text(name, "func(unit float32, x *uint32, n int, dst *float32)")
	x, n, dst := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	p, err := Param("unit").Resolve()
	must(err)
	unit := YMM()
	VBROADCASTSS(p.Addr, unit)
	loop("eight", n, 8, func() {
		v := YMM()
		if eight {
			VPMOVSXBD(Mem{Base: x}, v)
			ADDQ(Imm(8), x)
		} else {
			VPMOVSXWD(Mem{Base: x}, v)
			ADDQ(Imm(16), x)
		}
		VCVTDQ2PS(v, v)
		VMULPS(unit, v, v)
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}
