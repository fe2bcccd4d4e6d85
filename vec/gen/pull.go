package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pull is Pull of package vec, row by row; its Go twin has the formulas. The lean form is for an
// L2 weight of 0: it omits that term and its sum.
func pull(name string, lean bool) {
	text(name, "func(c *float32, d *float32, stride int, pos *uint32, s *float32, n *float32, count int, u "+
		"*float32, k *float32, sums *float32)")
	p := &puller{lean: lean, k: Load(Param("k"), GP64()), zero: YMM(), top: YMM(), keep: map[int]VecVirtual{}}
	p.c, p.d, p.u = Load(Param("c"), GP64()), Load(Param("d"), GP64()), Load(Param("u"), GP64())
	stride, count, sums := Load(Param("stride"), GP64()), Load(Param("count"), GP64()), Load(Param("sums"), GP64())
	pos, s, n := Load(Param("pos"), GP64()), Load(Param("s"), GP64()), Load(Param("n"), GP64())
	VXORPS(p.zero, p.zero, p.zero)
	VPCMPEQD(p.top, p.top, p.top)
	VPSLLD(Imm(31), p.top, p.top) // the sign bit
	SHLQ(Imm(2), stride)
	if lean { // there are enough registers for all constants
		for i := range 4 {
			p.keep[i] = YMM()
			VBROADCASTSS(Mem{Base: p.k, Disp: 4 * i}, p.keep[i])
		}
	}
	loop("row", count, 1, func() {
		p.at, p.v = GP64(), GP64()
		left := GP64()
		MOVL(Mem{Base: pos}, p.at.As32())
		IMULQ(stride, p.at)
		MOVQ(stride, left)
		MOVQ(p.u, p.v)
		p.row(s, n)
		loop("block", left, 32, p.block)
		many := YMM()
		VBROADCASTSS(Mem{Base: n}, many)
		for i, lanes := range p.sums {
			VMULPS(many, lanes, lanes)
			VADDPS(Mem{Base: sums, Disp: 32 * i}, lanes, lanes)
			VMOVUPS(lanes, Mem{Base: sums, Disp: 32 * i})
		}
		for _, r := range []Register{pos, s, n} {
			ADDQ(Imm(4), r)
		}
	})
	VZEROUPPER()
	RET()
}

type puller struct {
	lean                  bool
	c, d, u, k            Register
	at, v                 GPVirtual
	zero, top             VecVirtual
	keep                  map[int]VecVirtual
	pulled, apart, l1, l2 VecVirtual
	sums                  []VecVirtual // of (d-c)^2, |c| and c^2
}

// row loads the values that are constant within a row.
func (p *puller) row(s, n Register) {
	p.pulled, p.sums = YMM(), nil
	VBROADCASTSS(Mem{Base: s}, p.pulled)
	many := YMM()
	VBROADCASTSS(Mem{Base: n}, many)
	weight := func(i int) VecVirtual {
		v := YMM()
		VBROADCASTSS(Mem{Base: p.k, Disp: 4 * i}, v)
		VMULPS(many, v, v)
		return v
	}
	p.apart, p.l1 = weight(4), weight(5)
	terms := 2
	if !p.lean {
		p.l2, terms = weight(6), 3
	}
	for range terms {
		sum := YMM()
		VXORPS(sum, sum, sum)
		p.sums = append(p.sums, sum)
	}
}

// constant returns element i of the rates.
func (p *puller) constant(i int) VecVirtual {
	if v, ok := p.keep[i]; ok {
		return v
	}
	v := YMM()
	VBROADCASTSS(Mem{Base: p.k, Disp: 4 * i}, v)
	return v
}

// block processes eight elements of one row.
func (p *puller) block() {
	c, d := Mem{Base: p.c, Index: p.at, Scale: 1}, Mem{Base: p.d, Index: p.at, Scale: 1}
	cv, dv, e, t, x := YMM(), YMM(), YMM(), YMM(), YMM()
	VMOVUPS(c, cv)
	VMOVUPS(d, dv)
	VSUBPS(cv, dv, e) // d - c
	VMULPS(e, e, t)
	VADDPS(t, p.sums[0], p.sums[0])
	VANDNPS(cv, p.top, t) // |c|
	VADDPS(t, p.sums[1], p.sums[1])
	if !p.lean {
		VMULPS(cv, cv, t)
		VADDPS(t, p.sums[2], p.sums[2])
	}
	VMULPS(p.apart, e, e)
	VMULPS(Mem{Base: p.v}, p.pulled, t)
	VSUBPS(e, t, x) // gradient of d
	VADDPS(e, t, t) // gradient of c
	move := func(at Mem, v, g VecVirtual, keep, rate int) {
		VMULPS(p.constant(keep), v, v)
		VMULPS(p.constant(rate), g, g)
		VSUBPS(g, v, v)
		VMOVUPS(v, at)
	}
	move(d, dv, x, 2, 3)
	VANDPS(cv, p.top, x)
	VORPS(x, p.l1, x)                // l1 with the sign of c
	VCMPPS(Imm(0x04), p.zero, cv, e) // not equal
	VANDPS(e, x, x)
	VADDPS(x, t, t)
	if !p.lean {
		VMULPS(p.l2, cv, x)
		VADDPS(x, t, t)
	}
	move(c, cv, t, 0, 1)
	ADDQ(Imm(32), p.at)
	ADDQ(Imm(32), p.v)
}
