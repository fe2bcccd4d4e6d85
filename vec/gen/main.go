// Command gen writes the AVX2 and AVX-512 kernels of package vec. Run it with `make generate`
// after a change; its output is committed.
//
// Every kernel repeats its Go twin operation by operation: products are rounded before they are
// added (no fused multiply-add), and lanes and blocks are added in the order that package vec
// documents.
package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	for _, blocks := range []int{1, 2, 3, 4, 5, 6, 8, 9, 12, 16} {
		dots(blocks)
		dotsAll(blocks)
	}
	for _, blocks := range []int{1, 4} {
		wsum(blocks, false)
		scat(blocks, false)
	}
	wsum(4, true)
	scat(4, true)
	bceGrad()
	maxRow()
	elementwise("axpy", func(x, d, s VecVirtual) { // d + s*x
		t := YMM()
		VMULPS(x, s, t)
		VADDPS(t, d, d)
	}, true)
	elementwise("add", func(x, d, _ VecVirtual) { VADDPS(x, d, d) }, false)
	elementwise("relu", func(x, d, _ VecVirtual) { // max(x, 0); NaN stays NaN
		zero := YMM()
		VXORPS(zero, zero, zero)
		VMAXPS(x, zero, d)
	}, false)
	elementwise("reluBack", func(x, d, _ VecVirtual) { // d if x is above 0, otherwise 0
		zero := YMM()
		VXORPS(zero, zero, zero)
		VCMPPS(Imm(0x1e), zero, x, zero)
		VANDPS(zero, d, d)
	}, false)
	pull("pullAsm", false)
	pull("pullLeanAsm", true)
	fold()
	sum()
	above()
	adam()
	count()
	scale()
	scaleRows()
	scaleEach()
	largest()
	pack("pack8Asm", true)
	pack("pack16Asm", false)
	unpack("unpack8Asm", true)
	unpack("unpack16Asm", false)
	roof("roofAsm", YMM)
	roof("roofWideAsm", ZMM)
	merge()
	gemm()
	wide()
	draw()
	resolve()
	rows32()
	repeats()
	equalInFours()
	network()
	Generate()
}

// rowAt returns the address of arena row (*rd)[at].
func rowAt(arena, rd Register, at, blocks int) Register {
	r := GP64()
	MOVL(Mem{Base: rd, Disp: 4 * at}, r.As32())
	if size := uint(32 * blocks); bits.OnesCount(size) == 1 {
		SHLQ(Imm(uint64(bits.TrailingZeros(size))), r)
	} else {
		IMUL3Q(U32(size), r, r)
	}
	ADDQ(arena, r)
	return r
}

// product returns the eight lanes of row . v before they are folded: block b goes
// to accumulator b mod 4, the accumulators are added as (0+2)+(1+3).
func product(row Register, v []Op, blocks int) VecVirtual {
	var acc [4]VecVirtual
	for b := range blocks {
		t := YMM()
		if m, ok := v[b].(Mem); ok {
			VMOVUPS(Mem{Base: row, Disp: 32 * b}, t)
			VMULPS(m, t, t)
		} else {
			VMULPS(Mem{Base: row, Disp: 32 * b}, v[b], t)
		}
		if b < 4 {
			acc[b] = t
		} else {
			VADDPS(t, acc[b%4], acc[b%4])
		}
	}
	// An accumulator without blocks is +0, so adding it would change nothing.
	for _, pair := range [][2]int{{0, 2}, {1, 3}, {0, 1}} {
		if pair[1] < blocks {
			VADDPS(acc[pair[1]], acc[pair[0]], acc[pair[0]])
		}
	}
	return acc[0]
}

// foldEight folds eight rows' lanes at once: lanes 4 apart, 2 apart, 1 apart.
func foldEight(p [8]VecVirtual) VecVirtual {
	var q [4]VecVirtual
	for k := range q {
		lo, hi := YMM(), YMM()
		VPERM2F128(Imm(0x20), p[k+4], p[k], lo)
		VPERM2F128(Imm(0x31), p[k+4], p[k], hi)
		VADDPS(hi, lo, lo)
		q[k] = lo
	}
	pair := func(a, b VecVirtual, lo, hi uint64) VecVirtual {
		x, y := YMM(), YMM()
		VSHUFPS(Imm(lo), b, a, x)
		VSHUFPS(Imm(hi), b, a, y)
		VADDPS(y, x, x)
		return x
	}
	u := pair(q[0], q[1], 0x44, 0xee)
	v := pair(q[2], q[3], 0x44, 0xee)
	return pair(u, v, 0x88, 0xdd)
}

// foldOne is foldEight for one row.
func foldOne(p VecVirtual) VecVirtual {
	x, y := XMM(), XMM()
	VEXTRACTF128(Imm(1), p, x)
	VADDPS(x, p.AsX(), x)
	VMOVHLPS(x, x, y)
	VADDPS(y, x, x)
	VSHUFPS(Imm(1), x, x, y)
	VADDSS(y, x, x)
	return x
}

// vector returns the operands of v's blocks, in registers if they fit.
func vector(v Register, blocks int) []Op {
	var out []Op
	for b := range blocks {
		if blocks > 4 {
			out = append(out, Mem{Base: v, Disp: 32 * b})
			continue
		}
		r := YMM()
		VMOVUPS(Mem{Base: v, Disp: 32 * b}, r)
		out = append(out, r)
	}
	return out
}

func dots(blocks int) {
	text(name("dots", blocks), "func(arena *float32, rd *uint32, n int, v *float32, bias float32, dst *float32)")
	arena, rd, n := Load(Param("arena"), GP64()), Load(Param("rd"), GP64()), Load(Param("n"), GP64())
	v, dst := Load(Param("v"), GP64()), Load(Param("dst"), GP64())
	bias, zero := YMM(), YMM()
	b, err := Param("bias").Resolve()
	must(err)
	VBROADCASTSS(b.Addr, bias)
	VXORPS(zero, zero, zero)
	w := vector(v, blocks)
	finish := func(x VecVirtual) { // turns -0 into +0, because the twin starts from +0
		VADDPS(zero, x, x)
		VADDPS(bias, x, x)
	}
	loop("eight", n, 8, func() {
		var p [8]VecVirtual
		for k := range p {
			p[k] = product(rowAt(arena, rd, k, blocks), w, blocks)
		}
		x := foldEight(p)
		finish(x)
		VMOVUPS(x, Mem{Base: dst})
		ADDQ(Imm(32), rd)
		ADDQ(Imm(32), dst)
	})
	loop("one", n, 1, func() {
		x := foldOne(product(rowAt(arena, rd, 0, blocks), w, blocks))
		VADDSS(zero.AsX(), x, x)
		VADDSS(bias.AsX(), x, x)
		VMOVSS(x, Mem{Base: dst})
		ADDQ(Imm(4), rd)
		ADDQ(Imm(4), dst)
	})
	VZEROUPPER()
	RET()
}

// dotsAll is dots over consecutive rows.
func dotsAll(blocks int) {
	text(name("dotsAll", blocks), "func(arena *float32, n int, v *float32, bias float32, dst *float32)")
	arena, n := Load(Param("arena"), GP64()), Load(Param("n"), GP64())
	v, dst := Load(Param("v"), GP64()), Load(Param("dst"), GP64())
	bias, zero := YMM(), YMM()
	b, err := Param("bias").Resolve()
	must(err)
	VBROADCASTSS(b.Addr, bias)
	VXORPS(zero, zero, zero)
	w := vector(v, blocks)
	row := func(k int) Register {
		r := GP64()
		LEAQ(Mem{Base: arena, Disp: 32 * blocks * k}, r)
		return r
	}
	loop("eight", n, 8, func() {
		var p [8]VecVirtual
		for k := range p {
			p[k] = product(row(k), w, blocks)
		}
		x := foldEight(p)
		VADDPS(zero, x, x)
		VADDPS(bias, x, x)
		VMOVUPS(x, Mem{Base: dst})
		ADDQ(U32(8*32*blocks), arena)
		ADDQ(Imm(32), dst)
	})
	loop("one", n, 1, func() {
		x := foldOne(product(row(0), w, blocks))
		VADDSS(zero.AsX(), x, x)
		VADDSS(bias.AsX(), x, x)
		VMOVSS(x, Mem{Base: dst})
		ADDQ(U32(32*blocks), arena)
		ADDQ(Imm(4), dst)
	})
	VZEROUPPER()
	RET()
}

// strided returns the address of arena row (*rd)[at] for a stride in bytes, or of
// rows of 32 floats if stride is nil.
func strided(arena, rd, stride Register, at int) Register {
	if stride == nil {
		return rowAt(arena, rd, at, 4)
	}
	r := GP64()
	MOVL(Mem{Base: rd, Disp: 4 * at}, r.As32())
	IMULQ(stride, r)
	ADDQ(arena, r)
	return r
}

// strideOf loads the stride in bytes, or returns nil for a kernel of rows of 32 floats.
func strideOf(whole bool) Register {
	if whole {
		return nil
	}
	r := Load(Param("stride"), GP64())
	SHLQ(Imm(2), r)
	return r
}

// wsum adds the sum of g[x]*row to blocks of dst, with separate accumulators for even x and odd
// x.
func wsum(blocks int, whole bool) {
	text(named("wsum", blocks, whole), "func(arena *float32, stride int, rd *uint32, gs *float32, n int, dst *float32)")
	arena, rd, stride := Load(Param("arena"), GP64()), Load(Param("rd"), GP64()), strideOf(whole)
	g, n, dst := Load(Param("gs"), GP64()), Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	var acc [2][]VecVirtual
	for s := range acc {
		for range blocks {
			y := YMM()
			VXORPS(y, y, y)
			acc[s] = append(acc[s], y)
		}
	}
	add := func(at int, to []VecVirtual) {
		row, s := strided(arena, rd, stride, at), YMM()
		VBROADCASTSS(Mem{Base: g, Disp: 4 * at}, s)
		for b := range blocks {
			t := YMM()
			VMULPS(Mem{Base: row, Disp: 32 * b}, s, t)
			VADDPS(t, to[b], to[b])
		}
	}
	loop("two", n, 2, func() {
		add(0, acc[0])
		add(1, acc[1])
		ADDQ(Imm(8), rd)
		ADDQ(Imm(8), g)
	})
	loop("one", n, 1, func() { add(0, acc[0]) })
	for b := range blocks {
		VADDPS(acc[1][b], acc[0][b], acc[0][b])
		VADDPS(Mem{Base: dst, Disp: 32 * b}, acc[0][b], acc[0][b])
		VMOVUPS(acc[0][b], Mem{Base: dst, Disp: 32 * b})
	}
	VZEROUPPER()
	RET()
}

// scat subtracts g[x]*v from blocks of row wr[x], in the order of x.
func scat(blocks int, whole bool) {
	text(named("scat", blocks, whole), "func(arena *float32, stride int, wr *uint32, gs *float32, n int, v *float32)")
	arena, wr, stride := Load(Param("arena"), GP64()), Load(Param("wr"), GP64()), strideOf(whole)
	g, n, v := Load(Param("gs"), GP64()), Load(Param("n"), GP64()), Load(Param("v"), GP64())
	w := vector(v, blocks)
	sub := func(at int) {
		row, s := strided(arena, wr, stride, at), YMM()
		VBROADCASTSS(Mem{Base: g, Disp: 4 * at}, s)
		for b := range blocks {
			t, d := YMM(), YMM()
			VMULPS(w[b], s, t)
			VMOVUPS(Mem{Base: row, Disp: 32 * b}, d)
			VSUBPS(t, d, d)
			VMOVUPS(d, Mem{Base: row, Disp: 32 * b})
		}
	}
	for _, step := range []int{4, 1} {
		loop(map[int]string{4: "four", 1: "one"}[step], n, step, func() {
			for at := range step {
				sub(at)
			}
			ADDQ(Imm(uint64(4*step)), wr)
			ADDQ(Imm(uint64(4*step)), g)
		})
	}
	VZEROUPPER()
	RET()
}

func name(kernel string, blocks int) string { return fmt.Sprintf("%s%dAsm", kernel, 8*blocks) }

// named returns different names for kernels on columns of rows and kernels on whole rows.
func named(kernel string, blocks int, whole bool) string {
	if whole {
		return kernel + "RowsAsm"
	}
	return name(kernel, blocks)
}

// loop runs body while at least step of n remain, and decrements n by step.
func loop(label string, n Register, step int, body func()) {
	Label(label)
	CMPQ(n, Imm(uint64(step)))
	JL(LabelRef(label + "Done"))
	body()
	SUBQ(Imm(uint64(step)), n)
	JMP(LabelRef(label))
	Label(label + "Done")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// text starts a kernel, which does not keep its pointers.
func text(name, signature string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
}
