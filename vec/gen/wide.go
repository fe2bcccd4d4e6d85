package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// wide writes the AVX-512 forms of kernels on rows of 32 floats, which are two registers. They
// perform the operations of the AVX2 forms in the same order on each lane.
func wide() {
	dotsWide("dots32WideAsm", false)
	dotsWide("dotsAll32WideAsm", true)
	wsumWide()
	scatWide()
	gatherWide()
	foldWide()
	maxRowWide()
	drawWide("draw2048Asm", 4)
	drawWide("draw4096Asm", 8)
}

// laneMask returns a mask of sixteen lanes.
func laneMask(lanes uint32) OpmaskVirtual {
	r, k := GP32(), K()
	MOVL(U32(lanes), r)
	KMOVW(r, k)
	return k
}

// splatParam returns a float parameter in every lane.
func splatParam(name string) VecVirtual {
	p, err := Param(name).Resolve()
	must(err)
	z := ZMM()
	VBROADCASTSS(p.Addr, z)
	return z
}

// wideTree folds the products of sixteen rows, as foldEight does for eight.
type wideTree struct{ halves, pairs OpmaskVirtual }

// fold returns the logits in the order of the rows. product returns blocks (0+2 | 1+3) of row k.
func (t wideTree) fold(product func(k int) VecVirtual) VecVirtual {
	eight := func(k int) VecVirtual { // [row k | row k+4], eight lanes each
		a, b, x, y := product(k), product(k+4), ZMM(), ZMM()
		VBLENDMPS(b, a, t.halves, x)
		VSHUFF64X2(Imm(0x4e), b, a, y)
		VADDPS(y, x, x)
		return x
	}
	four := func(k int) VecVirtual { // [k | k+4 | k+8 | k+12], four lanes each
		a, b, x, y := eight(k), eight(k+8), ZMM(), ZMM()
		VSHUFF32X4(Imm(0x88), b, a, x)
		VSHUFF32X4(Imm(0xdd), b, a, y)
		VADDPS(y, x, x)
		return x
	}
	two := func(k int) VecVirtual { // lanes 0 and 1 of k and its followers, lanes 2 and 3 of k+1
		a, b, x, y := four(k), four(k+1), ZMM(), ZMM()
		VBLENDMPS(b, a, t.pairs, x)
		VSHUFPS(Imm(0x4e), b, a, y)
		VADDPS(y, x, x)
		return x
	}
	a, b, x, y := two(0), two(2), ZMM(), ZMM()
	VSHUFPS(Imm(0x88), b, a, x)
	VSHUFPS(Imm(0xdd), b, a, y)
	VADDPS(y, x, x)
	return x
}

// dotsWide is dots32Asm, or dotsAll32Asm if all is set, sixteen rows at a time.
func dotsWide(name string, all bool) {
	var rd Register
	if all {
		text(name, "func(arena *float32, n int, v *float32, bias float32, dst *float32)")
	} else {
		text(name, "func(arena *float32, rd *uint32, n int, v *float32, bias float32, dst *float32)")
		rd = Load(Param("rd"), GP64())
	}
	arena, n := Load(Param("arena"), GP64()), Load(Param("n"), GP64())
	v, dst := Load(Param("v"), GP64()), Load(Param("dst"), GP64())
	bias, zero := splatParam("bias"), ZMM()
	VPXORD(zero, zero, zero)
	w := [2]VecVirtual{ZMM(), ZMM()}
	for h := range w {
		VMOVUPS(Mem{Base: v, Disp: 64 * h}, w[h])
	}
	t := wideTree{laneMask(0xff00), laneMask(0xcccc)}
	product := func(k int) VecVirtual {
		row := Mem{Base: arena, Disp: 128 * k}
		if !all {
			row = Mem{Base: rowAt(arena, rd, k, 4)}
		}
		a, b := ZMM(), ZMM()
		VMULPS(row, w[0], a)
		VMULPS(row.Offset(64), w[1], b)
		VADDPS(b, a, a)
		return a
	}
	advance := func(rows int) {
		if all {
			ADDQ(U32(uint32(128*rows)), arena)
		} else {
			ADDQ(Imm(uint64(4*rows)), rd)
		}
		ADDQ(Imm(uint64(4*rows)), dst)
	}
	loop("sixteen", n, 16, func() {
		x := t.fold(product)
		VADDPS(zero, x, x) // turns -0 into +0
		VADDPS(bias, x, x)
		VMOVUPS(x, Mem{Base: dst})
		advance(16)
	})
	loop("one", n, 1, func() {
		p, high := product(0), YMM()
		VEXTRACTF64X4(Imm(1), p, high)
		VADDPS(high, p.AsY(), high)
		x := foldOne(high)
		VADDSS(zero.AsX(), x, x)
		VADDSS(bias.AsX(), x, x)
		VMOVSS(x, Mem{Base: dst})
		advance(1)
	})
	VZEROUPPER()
	RET()
}

func wsumWide() {
	text("wsumRowsWideAsm", "func(arena *float32, rd *uint32, gs *float32, n int, dst *float32)")
	arena, rd, g := Load(Param("arena"), GP64()), Load(Param("rd"), GP64()), Load(Param("gs"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	var acc [2][2]VecVirtual
	for s := range acc {
		for h := range acc[s] {
			acc[s][h] = ZMM()
			VPXORD(acc[s][h], acc[s][h], acc[s][h])
		}
	}
	add := func(at int, to [2]VecVirtual) {
		row, s := rowAt(arena, rd, at, 4), ZMM()
		VBROADCASTSS(Mem{Base: g, Disp: 4 * at}, s)
		for h := range to {
			t := ZMM()
			VMULPS(Mem{Base: row, Disp: 64 * h}, s, t)
			VADDPS(t, to[h], to[h])
		}
	}
	for _, step := range []int{4, 2} {
		loop(map[int]string{4: "four", 2: "two"}[step], n, step, func() {
			for at := range step {
				add(at, acc[at%2])
			}
			ADDQ(Imm(uint64(4*step)), rd)
			ADDQ(Imm(uint64(4*step)), g)
		})
	}
	loop("one", n, 1, func() { add(0, acc[0]) })
	for h := range 2 {
		VADDPS(acc[1][h], acc[0][h], acc[0][h])
		VADDPS(Mem{Base: dst, Disp: 64 * h}, acc[0][h], acc[0][h])
		VMOVUPS(acc[0][h], Mem{Base: dst, Disp: 64 * h})
	}
	VZEROUPPER()
	RET()
}

func scatWide() {
	text("scatRowsWideAsm", "func(arena *float32, wr *uint32, gs *float32, n int, v *float32)")
	arena, wr, g := Load(Param("arena"), GP64()), Load(Param("wr"), GP64()), Load(Param("gs"), GP64())
	n, v := Load(Param("n"), GP64()), Load(Param("v"), GP64())
	w := [2]VecVirtual{ZMM(), ZMM()}
	for h := range w {
		VMOVUPS(Mem{Base: v, Disp: 64 * h}, w[h])
	}
	for _, step := range []int{8, 1} {
		loop(map[int]string{8: "eight", 1: "one"}[step], n, step, func() {
			for at := range step {
				row, s := rowAt(arena, wr, at, 4), ZMM()
				VBROADCASTSS(Mem{Base: g, Disp: 4 * at}, s)
				for h := range w {
					t, d := ZMM(), ZMM()
					VMULPS(w[h], s, t)
					VMOVUPS(Mem{Base: row, Disp: 64 * h}, d)
					VSUBPS(t, d, d)
					VMOVUPS(d, Mem{Base: row, Disp: 64 * h})
				}
			}
			ADDQ(Imm(uint64(4*step)), wr)
			ADDQ(Imm(uint64(4*step)), g)
		})
	}
	VZEROUPPER()
	RET()
}

func gatherWide() {
	text("gather32WideAsm", "func(arena *float32, src *uint32, n int, dst *float32)")
	arena, src := Load(Param("arena"), GP64()), Load(Param("src"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	for _, step := range []int{4, 1} {
		loop(map[int]string{4: "four", 1: "one"}[step], n, step, func() {
			for at := range step {
				row := rowAt(arena, src, at, 4)
				for h := range 2 {
					z := ZMM()
					VMOVUPS(Mem{Base: row, Disp: 64 * h}, z)
					VMOVUPS(z, Mem{Base: dst, Disp: 128*at + 64*h})
				}
			}
			ADDQ(Imm(uint64(4*step)), src)
			ADDQ(U32(uint32(128*step)), dst)
		})
	}
	VZEROUPPER()
	RET()
}

func foldWide() {
	text("fold32WideAsm", "func(s float32, base *float32, item *uint32, n int, now *float32, dst *float32)")
	base, item, n := Load(Param("base"), GP64()), Load(Param("item"), GP64()), Load(Param("n"), GP64())
	now, dst := Load(Param("now"), GP64()), Load(Param("dst"), GP64())
	s := splatParam("s")
	for _, step := range []int{4, 1} {
		loop(map[int]string{4: "four", 1: "one"}[step], n, step, func() {
			for k := range step {
				at := GP64()
				MOVL(Mem{Base: item, Disp: 4 * k}, at.As32())
				SHLQ(Imm(7), at)
				for h := range 2 {
					a, b := ZMM(), ZMM()
					sum := Mem{Base: dst, Index: at, Scale: 1, Disp: 64 * h}
					VMULPS(Mem{Base: base, Index: at, Scale: 1, Disp: 64 * h}, s, b)
					VMOVUPS(Mem{Base: now, Disp: 128*k + 64*h}, a)
					VSUBPS(b, a, a)
					VADDPS(sum, a, a)
					VMOVUPS(a, sum)
				}
			}
			ADDQ(Imm(uint64(4*step)), item)
			ADDQ(U32(uint32(128*step)), now)
		})
	}
	VZEROUPPER()
	RET()
}

// maxRowWide is maxRowAsm for n a multiple of sixteen.
func maxRowWide() {
	text("maxRowWideAsm", "func(rd *uint32, n int) uint32")
	rd, n := Load(Param("rd"), GP64()), Load(Param("n"), GP64())
	m, low := [2]VecVirtual{ZMM(), ZMM()}, ZMM()
	for i := range m {
		VPXORD(m[i], m[i], m[i])
	}
	VPTERNLOGD(Imm(0xff), low, low, low)
	VPSRLD(Imm(1), low, low)
	for _, step := range []int{2, 1} {
		loop(map[int]string{2: "more", 1: "sixteen"}[step], n, 16*step, func() {
			for i := range step {
				v := ZMM()
				VPANDD(Mem{Base: rd, Disp: 64 * i}, low, v)
				VPMAXUD(v, m[i], m[i])
			}
			ADDQ(U32(uint32(64*step)), rd)
		})
	}
	VPMAXUD(m[1], m[0], m[0])
	high, x, y := YMM(), XMM(), XMM()
	VEXTRACTI64X4(Imm(1), m[0], high)
	VPMAXUD(m[0].AsY(), high, high)
	VEXTRACTI128(Imm(1), high, x)
	VPMAXUD(high.AsX(), x, x)
	for _, shuffle := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(shuffle), x, y)
		VPMAXUD(y, x, x)
	}
	out := GP32()
	VMOVD(x, out)
	VZEROUPPER()
	Store(out, ReturnIndex(0))
	RET()
}

// drawWide is drawAsm, sixteen numbers at a time, while at least sixteen are missing: it returns
// how many it has drawn. The bits of the items are in registers, 512 in each.
func drawWide(name string, registers int) {
	text(name, "func(state *uint32, items int, floor int, taken *uint64, n int, dst *uint32) int")
	state, taken := Load(Param("state"), GP64()), Load(Param("taken"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	splat := func(r Register) VecVirtual {
		z := ZMM()
		VPBROADCASTD(r, z)
		return z
	}
	number := func(x uint32) VecVirtual {
		r := GP32()
		MOVL(U32(x), r)
		return splat(r)
	}
	items, floor := splat(Load(Param("items"), GP64()).(GPVirtual).As32()), splat(Load(Param("floor"), GP64()).(GPVirtual).As32())
	odd, bit := laneMask(0xaaaa), number(1)
	selects := []VecVirtual{number(32), number(64)}
	var s [4]VecVirtual
	for i := range s {
		s[i] = YMM()
		VMOVDQU(Mem{Base: state, Disp: 32 * i}, s[i])
	}
	table := make([]VecVirtual, registers)
	for i := range table {
		table[i] = ZMM()
		VMOVDQU32(Mem{Base: taken, Disp: 64 * i}, table[i])
	}
	i := GP64()
	XORQ(i, i)
	SUBQ(Imm(16), n)
	Label("more")
	CMPQ(i, n)
	JG(LabelRef("done"))

	first, second, x := nextWide(s), nextWide(s), ZMM()
	VINSERTI64X4(Imm(1), second, first.AsZ(), x)
	item, rest, odds := ZMM(), ZMM(), ZMM()
	VPSRLQ(Imm(32), x, odds)
	VPMULUDQ(items, x, rest)
	VPMULUDQ(items, odds, odds)
	VPSRLQ(Imm(32), rest, item)
	VMOVDQA32(odds, odd, item)
	VPSLLQ(Imm(32), odds, odds)
	VMOVDQA32(odds, odd, rest)

	ok, at := K(), ZMM()
	VPCMPUD(Imm(5), floor, rest, ok) // not less
	VPSRLD(Imm(5), item, at)
	word := lookUp(table, at, selects)
	VPRORVD(item, word, word)
	VPTESTNMD(bit, word, ok, ok)
	VPCOMPRESSD(item, ok, item)
	VMOVDQU32(item, Mem{Base: dst, Index: i, Scale: 4})
	m := GP32()
	KMOVW(ok, m)
	POPCNTL(m, m)
	ADDQ(m.As64(), i)
	JMP(LabelRef("more"))
	Label("done")
	for i := range s {
		VMOVDQU(s[i], Mem{Base: state, Disp: 32 * i})
	}
	VZEROUPPER()
	Store(i, ReturnIndex(0))
	RET()
}

// lookUp returns the words at the given indices of a table in registers. selects[k] has bit 5+k.
func lookUp(table []VecVirtual, at VecVirtual, selects []VecVirtual) VecVirtual {
	if len(table) == 2 {
		x := ZMM()
		VMOVDQA64(at, x)
		VPERMI2D(table[1], table[0], x)
		return x
	}
	half := len(table) / 2
	low, high := lookUp(table[:half], at, selects), lookUp(table[half:], at, selects)
	k := K()
	bit := selects[0]
	if half == 4 {
		bit = selects[1]
	}
	VPTESTMD(bit, at, k)
	VMOVDQA32(high, k, low)
	return low
}

// nextWide is next with the rotation of AVX-512.
func nextWide(s [4]VecVirtual) VecVirtual {
	x, t := YMM(), YMM()
	VPADDD(s[3], s[0], x)
	VPSLLD(Imm(9), s[1], t)
	VPXORD(s[0], s[2], s[2])
	VPXORD(s[1], s[3], s[3])
	VPXORD(s[2], s[1], s[1])
	VPXORD(s[3], s[0], s[0])
	VPXORD(t, s[2], s[2])
	VPROLD(Imm(11), s[3], s[3])
	return x
}
