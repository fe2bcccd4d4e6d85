package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pull is Pull of package vec, row by row: see its twin for the formulas.
func pull() {
	text("pullAsm", "func(c *float32, d *float32, stride int, pos *uint32, s *float32, n *float32, count int, u *float32, k *float32, sums *float32)")
	c, d, stride := Load(Param("c"), GP64()), Load(Param("d"), GP64()), Load(Param("stride"), GP64())
	pos, s, n := Load(Param("pos"), GP64()), Load(Param("s"), GP64()), Load(Param("n"), GP64())
	count, u := Load(Param("count"), GP64()), Load(Param("u"), GP64())
	k, sums := Load(Param("k"), GP64()), Load(Param("sums"), GP64())
	zero, top := YMM(), YMM()
	VXORPS(zero, zero, zero)
	VPCMPEQD(top, top, top)
	VPSLLD(Imm(31), top, top) // the bit of the sign
	SHLQ(Imm(2), stride)
	constant := func(i int) VecVirtual {
		v := YMM()
		VBROADCASTSS(Mem{Base: k, Disp: 4 * i}, v)
		return v
	}
	loop("row", count, 1, func() {
		at, left, v := GP64(), GP64(), GP64()
		MOVL(Mem{Base: pos}, at.As32())
		IMULQ(stride, at)
		MOVQ(stride, left)
		MOVQ(u, v)
		pulled, many := YMM(), YMM()
		VBROADCASTSS(Mem{Base: s}, pulled)
		VBROADCASTSS(Mem{Base: n}, many)
		apart, l1, l2 := constant(4), constant(5), constant(6)
		VMULPS(many, apart, apart)
		VMULPS(many, l1, l1)
		VMULPS(many, l2, l2)
		square, size, power := YMM(), YMM(), YMM()
		for _, sum := range []VecVirtual{square, size, power} {
			VXORPS(sum, sum, sum)
		}
		loop("block", left, 32, func() {
			block(Mem{Base: c, Index: at, Scale: 1}, Mem{Base: d, Index: at, Scale: 1}, Mem{Base: v}, k,
				[...]VecVirtual{pulled, apart, l1, l2, square, size, power, zero, top})
			ADDQ(Imm(32), at)
			ADDQ(Imm(32), v)
		})
		for i, lanes := range []VecVirtual{square, size, power} {
			VMULPS(many, lanes, lanes)
			VADDPS(Mem{Base: sums, Disp: 32 * i}, lanes, lanes)
			VMOVUPS(lanes, Mem{Base: sums, Disp: 32 * i})
		}
		ADDQ(Imm(4), pos)
		ADDQ(Imm(4), s)
		ADDQ(Imm(4), n)
	})
	VZEROUPPER()
	RET()
}

// block is eight places of one row.
func block(c, d, u Mem, k Register, r [9]VecVirtual) {
	pulled, apart, l1, l2, square, size, power, zero, top := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]
	keep := func(i int) VecVirtual {
		v := YMM()
		VBROADCASTSS(Mem{Base: k, Disp: 4 * i}, v)
		return v
	}
	cv, dv, e, t, x := YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVUPS(c, cv)
	VMOVUPS(d, dv)
	VSUBPS(cv, dv, e) // d - c
	VMULPS(e, e, t)
	VADDPS(t, square, square)
	VANDNPS(cv, top, t) // |c|
	VADDPS(t, size, size)
	VMULPS(cv, cv, t)
	VADDPS(t, power, power)
	VMULPS(apart, e, e)
	VMULPS(u, pulled, t)
	gc, gd := YMM(), YMM()
	VADDPS(e, t, gc)
	VSUBPS(e, t, gd)
	VANDPS(cv, top, x)
	VORPS(x, l1, x) // l1 with the sign of c
	zeros := YMM()
	VCMPPS(Imm(0x04), zero, cv, zeros) // not equal
	VANDPS(zeros, x, x)
	VADDPS(x, gc, gc)
	VMULPS(l2, cv, x)
	VADDPS(x, gc, gc)
	for _, side := range []struct {
		at         Mem
		v, g       VecVirtual
		keep, rate int
	}{{c, cv, gc, 0, 1}, {d, dv, gd, 2, 3}} {
		VMULPS(keep(side.keep), side.v, side.v)
		VMULPS(keep(side.rate), side.g, side.g)
		VSUBPS(side.g, side.v, side.v)
		VMOVUPS(side.v, side.at)
	}
}
