package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// constants are broadcast from one table in read-only data.
func constants(name string, xs ...float32) func(i int) VecVirtual {
	data := table(name, xs...)
	return func(i int) VecVirtual {
		y := YMM()
		VBROADCASTSS(data.Offset(4*i), y)
		return y
	}
}

func table(name string, xs ...float32) Mem {
	data := GLOBL(name, RODATA|NOPTR)
	for i, x := range xs {
		DATA(4*i, U32(math.Float32bits(x)))
	}
	return data
}

// bceGrad replaces logits by (sigmoid-y)*scale, eight at a time, and sixteen at a time in its
// AVX-512 form. It repeats Sigmoid in sigmoid.go; n is a multiple of eight.
func bceGrad() {
	data := table("sigmoidConstants", 80, -80, float32(math.Copysign(0, -1)), 1.44269504088896341, 12582912,
		0.0013264665381104309, 0.00967151261060975, 0.05550733892804937, 0.24022242093454363, 0.6931469775442827, 1)
	bceGradOf(data, "bceGradAsm", []lanes{{8, YMM, func(x, p VecVirtual) {
		nan := YMM()
		VCMPPS(Imm(3), x, x, nan) // unordered
		VBLENDVPS(nan, x, p, p)
	}}})
	masked := func(x, p VecVirtual) {
		nan := K()
		VCMPPS(Imm(3), x, x, nan)
		VBLENDMPS(x, p, nan, p)
	}
	bceGradOf(data, "bceGradWideAsm", []lanes{{16, ZMM, masked}, {8, YMM, masked}})
}

// lanes is a width of registers, and how x replaces p in the lanes in which x is NaN.
type lanes struct {
	n       int
	reg     func() VecVirtual
	keepNaN func(x, p VecVirtual)
}

func bceGradOf(data Mem, name string, widths []lanes) {
	text(name, "func(y *float32, scale float32, n int, dst *float32)")
	y, n, dst := Load(Param("y"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	s, err := Param("scale").Resolve()
	must(err)
	for _, w := range widths {
		splat := func(m Mem) VecVirtual {
			r := w.reg()
			VBROADCASTSS(m, r)
			return r
		}
		c := func(i int) VecVirtual { return splat(data.Offset(4 * i)) }
		scale, hi, lo, sign, log2e, magic, one := splat(s.Addr), c(0), c(1), c(2), c(3), c(4), c(10)
		loop(map[int]string{8: "eight", 16: "sixteen"}[w.n], n, w.n, func() {
			x, z, t, p := w.reg(), w.reg(), w.reg(), w.reg()
			VMOVUPS(Mem{Base: dst}, x)
			// MINPS and MAXPS return their second source if one is NaN, so x passes through.
			VMINPS(x, hi, z)
			VMAXPS(z, lo, z)
			VXORPS(sign, z, z)
			VMULPS(log2e, z, z)
			VADDPS(magic, z, t)
			VSUBPS(magic, t, p)
			VSUBPS(p, z, z) // f
			VMOVUPS(c(5), p)
			for i := 6; i <= 10; i++ {
				VMULPS(z, p, p)
				VADDPS(c(i), p, p)
			}
			VPSLLD(Imm(23), t, t)
			VPADDD(t, p, p) // e
			VADDPS(one, p, p)
			VDIVPS(p, one, p)
			w.keepNaN(x, p)
			VSUBPS(Mem{Base: y}, p, p)
			VMULPS(scale, p, p)
			VMOVUPS(p, Mem{Base: dst})
			ADDQ(Imm(uint64(4*w.n)), y)
			ADDQ(Imm(uint64(4*w.n)), dst)
		})
	}
	VZEROUPPER()
	RET()
}

// maxRow returns the largest of n row numbers, or of the items of raw samples (without the top
// bit). Kernels check it once instead of checking every row.
func maxRow() {
	text("maxRowAsm", "func(rd *uint32, n int) uint32")
	rd, n := Load(Param("rd"), GP64()), Load(Param("n"), GP64())
	m, x, low, v := YMM(), XMM(), words("maxRowConstants", 0x7fffffff)(0), YMM()
	VPXOR(m, m, m)
	loop("eight", n, 8, func() {
		VPAND(Mem{Base: rd}, low, v)
		VPMAXUD(v, m, m)
		ADDQ(Imm(32), rd)
	})
	VEXTRACTI128(Imm(1), m, x)
	VPMAXUD(m.AsX(), x, x)
	y := XMM()
	for _, shuffle := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(shuffle), x, y)
		VPMAXUD(y, x, x)
	}
	loop("one", n, 1, func() {
		VMOVD(Mem{Base: rd}, y)
		VPAND(low.AsX(), y, y)
		VPMAXUD(y, x, x)
		ADDQ(Imm(4), rd)
	})
	out := GP32()
	VMOVD(x, out)
	VZEROUPPER()
	Store(out, ReturnIndex(0))
	RET()
}

// elementwise is dst = f(x, dst, s) over n floats, a multiple of eight.
func elementwise(kernel string, f func(x, d, s VecVirtual), scaled bool) {
	signature := "func(x *float32, n int, dst *float32)"
	if scaled {
		signature = "func(s float32, x *float32, n int, dst *float32)"
	}
	text(kernel+"Asm", signature)
	x, n, dst := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	s := YMM()
	if scaled {
		p, err := Param("s").Resolve()
		must(err)
		VBROADCASTSS(p.Addr, s)
	}
	step := func(k int) {
		a, d := YMM(), YMM()
		VMOVUPS(Mem{Base: x, Disp: 32 * k}, a)
		VMOVUPS(Mem{Base: dst, Disp: 32 * k}, d)
		f(a, d, s)
		VMOVUPS(d, Mem{Base: dst, Disp: 32 * k})
	}
	loop("four", n, 32, func() {
		for k := range 4 {
			step(k)
		}
		ADDQ(U32(128), x)
		ADDQ(U32(128), dst)
	})
	loop("one", n, 8, func() {
		step(0)
		ADDQ(Imm(32), x)
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}

// fold adds, for each of n items, row k of now minus s times base row item[k] to
// row item[k] of dst; rows are stride floats, a multiple of eight.
func fold() {
	text("foldAsm", "func(s float32, base *float32, stride int, item *uint32, n int, now *float32, dst *float32)")
	base, stride, item := Load(Param("base"), GP64()), Load(Param("stride"), GP64()), Load(Param("item"), GP64())
	n, now, dst := Load(Param("n"), GP64()), Load(Param("now"), GP64()), Load(Param("dst"), GP64())
	s := YMM()
	p, err := Param("s").Resolve()
	must(err)
	VBROADCASTSS(p.Addr, s)
	SHLQ(Imm(2), stride)
	loop("row", n, 1, func() {
		at, left := GP64(), GP64()
		MOVL(Mem{Base: item}, at.As32())
		IMULQ(stride, at)
		MOVQ(stride, left)
		loop("block", left, 32, func() {
			a, b := YMM(), YMM()
			VMULPS(Mem{Base: base, Index: at, Scale: 1}, s, b)
			VMOVUPS(Mem{Base: now}, a)
			VSUBPS(b, a, a)
			VADDPS(Mem{Base: dst, Index: at, Scale: 1}, a, a)
			VMOVUPS(a, Mem{Base: dst, Index: at, Scale: 1})
			ADDQ(Imm(32), at)
			ADDQ(Imm(32), now)
		})
		ADDQ(Imm(4), item)
	})
	VZEROUPPER()
	RET()
}

// sum adds n floats, a multiple of eight: eight lanes, folded by halves.
func sum() {
	text("sumAsm", "func(x *float32, n int, lanes *float32)")
	x, n, lanes := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("lanes"), GP64())
	acc := YMM()
	VXORPS(acc, acc, acc)
	loop("eight", n, 8, func() {
		VADDPS(Mem{Base: x}, acc, acc)
		ADDQ(Imm(32), x)
	})
	VMOVUPS(acc, Mem{Base: lanes})
	VZEROUPPER()
	RET()
}

// above returns the first i, a multiple of eight below n, such that one of x[i:i+8] is greater
// than least, or n if none is.
func above() {
	text("aboveAsm", "func(x *float32, n int, least float32) int")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	p, err := Param("least").Resolve()
	must(err)
	least, gt, i, m := YMM(), YMM(), GP64(), GP32()
	VBROADCASTSS(p.Addr, least)
	XORQ(i, i)
	Label("more")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	VMOVUPS(Mem{Base: x, Index: i, Scale: 4}, gt)
	VCMPPS(Imm(0x1e), least, gt, gt) // greater, quiet; false for NaN
	VMOVMSKPS(gt, m)
	TESTL(m, m)
	JNZ(LabelRef("done"))
	ADDQ(Imm(8), i)
	JMP(LabelRef("more"))
	Label("done")
	VZEROUPPER()
	Store(i, ReturnIndex(0))
	RET()
}

// count counts, in each of eight lanes, how many of n floats, a multiple of eight,
// are below s and how many equal it.
func count() {
	text("countAsm", "func(x *float32, n int, s float32, below *int32, equal *int32)")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	below, equal := Load(Param("below"), GP64()), Load(Param("equal"), GP64())
	p, err := Param("s").Resolve()
	must(err)
	s, lt, eq := YMM(), YMM(), YMM()
	VBROADCASTSS(p.Addr, s)
	VPXOR(lt, lt, lt)
	VPXOR(eq, eq, eq)
	loop("eight", n, 8, func() {
		v, a, b := YMM(), YMM(), YMM()
		VMOVUPS(Mem{Base: x}, v)
		VCMPPS(Imm(0x11), s, v, a) // less, quiet
		VCMPPS(Imm(0x00), s, v, b) // equal, quiet
		VPSUBD(a, lt, lt)
		VPSUBD(b, eq, eq)
		ADDQ(Imm(32), x)
	})
	VMOVDQU(lt, Mem{Base: below})
	VMOVDQU(eq, Mem{Base: equal})
	VZEROUPPER()
	RET()
}

// roof performs n times ten independent multiplications and ten additions of a vector: the
// processor's peak rate.
func roof(name string, vector func() VecVirtual) {
	text(name, "func(n int, x *float32)")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	a := vector()
	VMOVUPS(Mem{Base: x}, a)
	var acc [10]VecVirtual
	for i := range acc {
		acc[i] = vector()
		VMOVUPS(Mem{Base: x}, acc[i])
	}
	loop("once", n, 1, func() {
		for i := range acc {
			t := vector()
			VMULPS(a, a, t)
			VADDPS(t, acc[i], acc[i])
		}
	})
	for i := range acc {
		VADDPS(acc[i], a, a)
	}
	VMOVUPS(a, Mem{Base: x})
	VZEROUPPER()
	RET()
}

// adam repeats Adam in adam.go over n floats, a multiple of eight.
func adam() {
	text("adamAsm", "func(gr *float32, rate float32, b1 float32, c1 float32, b2 float32, c2 float32, eps "+
		"float32, n int, m *float32, v *float32, dst *float32)")
	gr, n := Load(Param("gr"), GP64()), Load(Param("n"), GP64())
	m, v, dst := Load(Param("m"), GP64()), Load(Param("v"), GP64()), Load(Param("dst"), GP64())
	splat := func(name string) VecVirtual {
		p, err := Param(name).Resolve()
		must(err)
		y := YMM()
		VBROADCASTSS(p.Addr, y)
		return y
	}
	rate, b1, c1, b2, c2, eps := splat("rate"), splat("b1"), splat("c1"), splat("b2"), splat("c2"), splat("eps")
	i := GP64()
	XORQ(i, i)
	at := func(base Register) Mem { return Mem{Base: base, Index: i, Scale: 4} }
	loop("eight", n, 8, func() {
		x, a, b, t := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(gr), x)
		VMULPS(at(m), b1, a)
		VMULPS(x, c1, t)
		VADDPS(t, a, a)
		VMOVUPS(a, at(m))
		VMULPS(at(v), b2, b)
		VMULPS(x, x, t)
		VMULPS(t, c2, t)
		VADDPS(t, b, b)
		VMOVUPS(b, at(v))
		VMULPS(rate, a, a)
		VSQRTPS(b, b)
		VADDPS(eps, b, b)
		VDIVPS(b, a, a)
		VMOVUPS(at(dst), t)
		VSUBPS(a, t, t)
		VMOVUPS(t, at(dst))
		ADDQ(Imm(8), i)
	})
	VZEROUPPER()
	RET()
}

// merge adds n floats of each shard, step floats apart, to dst in order and clears them; n is a
// multiple of eight.
func merge() {
	text("mergeAsm", "func(acc *float32, step int, shards int, n int, dst *float32)")
	acc, step, shards := Load(Param("acc"), GP64()), Load(Param("step"), GP64()), Load(Param("shards"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	SHLQ(Imm(2), step)
	zero := YMM()
	VXORPS(zero, zero, zero)
	loop("one", n, 8, func() {
		sum, at, left := YMM(), GP64(), GP64()
		VMOVUPS(Mem{Base: dst}, sum)
		MOVQ(acc, at)
		MOVQ(shards, left)
		loop("shard", left, 1, func() {
			VADDPS(Mem{Base: at}, sum, sum)
			VMOVUPS(zero, Mem{Base: at})
			ADDQ(step, at)
		})
		VMOVUPS(sum, Mem{Base: dst})
		ADDQ(Imm(32), acc)
		ADDQ(Imm(32), dst)
	})
	VZEROUPPER()
	RET()
}
