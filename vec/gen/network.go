package main

import (
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// network writes the kernels of networks that read sequences. Numbers of elements are multiples
// of eight.
func network() {
	expTable := GLOBL("expConstants", RODATA|NOPTR)
	for i, x := range []float32{
		80, -80, float32(math.Copysign(0, -1)), 1.44269504088896341, 12582912,
		0.0013264665381104309, 0.00967151261060975, 0.05550733892804937, 0.24022242093454363, 0.6931469775442827, 1,
		1.702,
	} {
		DATA(4*i, U32(math.Float32bits(x)))
	}
	c := func(i int) VecVirtual {
		y := YMM()
		VBROADCASTSS(expTable.Offset(4*i), y)
		return y
	}
	exps(c)
	gelu(c)
	largestValue()
	triple("mul", "func(x *float32, n int, dst *float32)",
		func(at func(string) Mem, _ func(string) VecVirtual, d VecVirtual) {
			VMOVUPS(at("dst"), d)
			VMULPS(at("x"), d, d)
		})
	triple("mulAdd", "func(x *float32, y *float32, n int, dst *float32)",
		func(at func(string) Mem, _ func(string) VecVirtual, d VecVirtual) {
			VMOVUPS(at("x"), d)
			VMULPS(at("y"), d, d)
			VADDPS(at("dst"), d, d)
		})
	triple("decay", "func(s float32, state *float32, x *float32, n int, dst *float32)",
		func(at func(string) Mem, scalar func(string) VecVirtual, d VecVirtual) {
			VMULPS(at("state"), scalar("s"), d)
			VADDPS(at("x"), d, d)
		})
	triple("shift", "func(by float32, scale float32, x *float32, n int, dst *float32)",
		func(at func(string) Mem, scalar func(string) VecVirtual, d VecVirtual) {
			VMOVUPS(at("x"), d)
			VSUBPS(scalar("by"), d, d)
			VMULPS(scalar("scale"), d, d)
		})
	triple("softmaxBack", "func(scale float32, mean float32, p *float32, n int, dst *float32)",
		func(at func(string) Mem, scalar func(string) VecVirtual, d VecVirtual) {
			VMOVUPS(at("dst"), d)
			VSUBPS(scalar("mean"), d, d)
			VMULPS(scalar("scale"), d, d)
			VMULPS(at("p"), d, d)
		})
}

// triple writes a kernel that computes eight elements of dst at a time. f finds the memory of the
// pointer parameters with at, and the lanes of the others with scalar.
func triple(kernel, signature string, f func(at func(string) Mem, scalar func(string) VecVirtual, d VecVirtual)) {
	text(kernel+"Asm", signature)
	pointers, scalars := map[string]Register{}, map[string]VecVirtual{}
	i, n := GP64(), Load(Param("n"), GP64())
	at := func(name string) Mem {
		if pointers[name] == nil {
			pointers[name] = Load(Param(name), GP64())
		}
		return Mem{Base: pointers[name], Index: i, Scale: 4}
	}
	scalar := func(name string) VecVirtual {
		if scalars[name] == nil {
			scalars[name] = splat(name)
		}
		return scalars[name]
	}
	for _, name := range []string{"x", "y", "p", "state", "dst"} {
		if strings.Contains(signature, name+" *float32") {
			at(name)
		}
	}
	for _, name := range []string{"s", "by", "scale", "mean"} {
		if strings.Contains(signature, name+" float32") {
			scalar(name)
		}
	}
	XORQ(i, i)
	loop("eight", n, 8, func() {
		d := YMM()
		f(at, scalar, d)
		VMOVUPS(d, at("dst"))
		ADDQ(Imm(8), i)
	})
	VZEROUPPER()
	RET()
}

// splat broadcasts a parameter.
func splat(name string) VecVirtual {
	p, err := Param(name).Resolve()
	must(err)
	y := YMM()
	VBROADCASTSS(p.Addr, y)
	return y
}

// limited sets z to x within [-80, 80]; NaN passes through.
func limited(c func(int) VecVirtual, x, z VecVirtual) {
	VMINPS(x, c(0), z)
	VMAXPS(z, c(1), z)
}

// power replaces z by e to the power of z: see exp in softmax.go.
func power(c func(int) VecVirtual, z VecVirtual) VecVirtual {
	t, p := YMM(), YMM()
	VMULPS(c(3), z, z)
	VADDPS(c(4), z, t)
	VSUBPS(c(4), t, p)
	VSUBPS(p, z, z)
	VMOVUPS(c(5), p)
	for i := 6; i <= 10; i++ {
		VMULPS(z, p, p)
		VADDPS(c(i), p, p)
	}
	VPSLLD(Imm(23), t, t)
	VPADDD(t, p, p)
	return p
}

// exps repeats Exps in softmax.go and leaves eight partial sums in lanes.
func exps(c func(int) VecVirtual) {
	text("expsAsm", "func(shift float32, scale float32, n int, dst *float32, lanes *float32)")
	n, dst, lanes := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("lanes"), GP64())
	shift, scale, sum := splat("shift"), splat("scale"), YMM()
	VXORPS(sum, sum, sum)
	loop("eight", n, 8, func() {
		x, z, nan := YMM(), YMM(), YMM()
		VMOVUPS(Mem{Base: dst}, x)
		VSUBPS(shift, x, x)
		VMULPS(scale, x, x)
		limited(c, x, z)
		p := power(c, z)
		VCMPPS(Imm(3), x, x, nan) // unordered
		VBLENDVPS(nan, x, p, p)
		VADDPS(p, sum, sum)
		VMOVUPS(p, Mem{Base: dst})
		ADDQ(Imm(32), dst)
	})
	VMOVUPS(sum, Mem{Base: lanes})
	VZEROUPPER()
	RET()
}

// sigmoidOf returns the sigmoid of x: see Sigmoid.
func sigmoidOf(c func(int) VecVirtual, x VecVirtual) VecVirtual {
	z, nan, one := YMM(), YMM(), c(10)
	limited(c, x, z)
	VXORPS(c(2), z, z)
	p := power(c, z)
	VADDPS(one, p, p)
	VDIVPS(p, one, p)
	VCMPPS(Imm(3), x, x, nan)
	VBLENDVPS(nan, x, p, p)
	return p
}

// gelu writes Gelu and GeluBack.
func gelu(c func(int) VecVirtual) {
	triple("gelu", "func(x *float32, n int, dst *float32)",
		func(at func(string) Mem, _ func(string) VecVirtual, d VecVirtual) {
			u := YMM()
			VMULPS(at("x"), c(11), u)
			VMULPS(at("x"), sigmoidOf(c, u), d)
		})
	triple("geluBack", "func(x *float32, n int, dst *float32)",
		func(at func(string) Mem, _ func(string) VecVirtual, d VecVirtual) {
			u, rest := YMM(), YMM()
			VMULPS(at("x"), c(11), u)
			s := sigmoidOf(c, u)
			VSUBPS(s, c(10), rest)
			VMULPS(s, u, u)
			VMULPS(rest, u, u)
			VADDPS(u, s, s)
			VMULPS(at("dst"), s, d)
		})
}

// largestValue leaves the largest number of each lane in lanes, which hold the numbers to start
// from. NaN is ignored.
func largestValue() {
	text("maxAsm", "func(x *float32, n int, lanes *float32)")
	x, n, lanes := Load(Param("x"), GP64()), Load(Param("n"), GP64()), Load(Param("lanes"), GP64())
	top := YMM()
	VMOVUPS(Mem{Base: lanes}, top)
	loop("eight", n, 8, func() {
		v := YMM()
		VMOVUPS(Mem{Base: x}, v)
		VMAXPS(top, v, top) // returns top unless v is above it
		ADDQ(Imm(32), x)
	})
	VMOVUPS(top, Mem{Base: lanes})
	VZEROUPPER()
	RET()
}
