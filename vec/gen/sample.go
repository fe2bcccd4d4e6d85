package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// packTable holds, for each mask of eight lanes, the indices of the set lanes in order, one byte
// each.
func packTable() Mem {
	t := GLOBL("packLanes", RODATA|NOPTR)
	for mask := range 256 {
		var word uint64
		n := 0
		for lane := range 8 {
			if mask>>lane&1 == 1 {
				word |= uint64(lane) << (8 * n)
				n++
			}
		}
		DATA(8*mask, U64(word))
	}
	return t
}

func words(name string, xs ...uint32) func(i int) VecVirtual {
	data := GLOBL(name, RODATA|NOPTR)
	for i, x := range xs {
		DATA(4*i, U32(x))
	}
	return func(i int) VecVirtual {
		y := YMM()
		VPBROADCASTD(data.Offset(4*i), y)
		return y
	}
}

// draw repeats Draw in sample.go of package vec: eight xoshiro128+ lanes, Lemire's
// multiplication, a gather that looks up the item's bit, and packing of the accepted lanes. It
// may write seven elements beyond n.
func draw() {
	table := packTable()
	c := words("drawConstants", 31)
	text("drawAsm", "func(state *uint32, items int, floor int, taken *uint64, n int, dst *uint32)")
	state, taken := Load(Param("state"), GP64()), Load(Param("taken"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	low31 := c(0)
	splat := func(param string) VecVirtual {
		r, y := Load(Param(param), GP64()), YMM()
		VMOVQ(r, y.AsX())
		VPBROADCASTD(y.AsX(), y)
		return y
	}
	items, floor := splat("items"), splat("floor")
	var s [4]VecVirtual
	for i := range s {
		s[i] = YMM()
		VMOVDQU(Mem{Base: state, Disp: 32 * i}, s[i])
	}
	base := GP64()
	LEAQ(table, base)
	i := GP64()
	XORQ(i, i)
	Label("more")
	CMPQ(i, n)
	JGE(LabelRef("done"))

	item, rest := scaled(next(s), items)
	ok := free(item, rest, floor, low31, taken)
	m := GP32()
	VMOVMSKPS(ok, m)
	lanes := YMM()
	VPMOVZXBD(Mem{Base: base, Index: m.As64(), Scale: 8}, lanes)
	VPERMD(item, lanes, item)
	VMOVDQU(item, Mem{Base: dst, Index: i, Scale: 4})
	POPCNTL(m, m)
	ADDQ(m.As64(), i)
	JMP(LabelRef("more"))
	Label("done")
	for i := range s {
		VMOVDQU(s[i], Mem{Base: state, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}

// next returns a word of each lane of xoshiro128+ and advances the lanes.
func next(s [4]VecVirtual) VecVirtual {
	x, t := YMM(), YMM()
	VPADDD(s[3], s[0], x)
	VPSLLD(Imm(9), s[1], t)
	VPXOR(s[0], s[2], s[2])
	VPXOR(s[1], s[3], s[3])
	VPXOR(s[2], s[1], s[1])
	VPXOR(s[3], s[0], s[0])
	VPXOR(t, s[2], s[2])
	VPSLLD(Imm(11), s[3], t)
	VPSRLD(Imm(21), s[3], s[3])
	VPOR(t, s[3], s[3])
	return x
}

// scaled returns the high and the low words of x*items.
func scaled(x, items VecVirtual) (high, low VecVirtual) {
	even, odd := YMM(), YMM()
	high, low = YMM(), YMM()
	VPSRLQ(Imm(32), x, odd)
	VPMULUDQ(items, x, even)
	VPMULUDQ(items, odd, odd)
	VPSRLQ(Imm(32), even, high)
	VPBLENDD(Imm(0xaa), odd, high, high)
	VPSLLQ(Imm(32), odd, odd)
	VPBLENDD(Imm(0xaa), odd, even, low)
	return high, low
}

// free sets the sign of each lane whose remainder is not below floor and whose item's bit is not
// set.
func free(item, rest, floor, low31 VecVirtual, taken Register) VecVirtual {
	ok, word, mask, at := YMM(), YMM(), YMM(), YMM()
	VPMAXUD(floor, rest, ok)
	VPCMPEQD(rest, ok, ok)
	VPSRLD(Imm(5), item, at)
	VPCMPEQD(mask, mask, mask)
	VPGATHERDD(mask, Mem{Base: taken, Index: at, Scale: 4}, word)
	VPANDN(low31, item, at) // 31 - (item & 31)
	VPSLLVD(at, word, word)
	VPANDN(ok, word, ok)
	return ok
}

// resolve sets the row numbers of n samples, a multiple of eight: see Resolve. It looks items up
// one by one: gather instructions are slower, and much slower on processors whose microcode
// protects them against data sampling.
func resolve() {
	c := words("resolveConstants", 0x7fffffff, 0x3f800000)
	text("resolveAsm",
		"func(raw *uint32, tab *int32, acc int, n int, item *uint32, y *float32, rd *uint32, wr *uint32)")
	raw, tab, n := Load(Param("raw"), GP64()), Load(Param("tab"), GP64()), Load(Param("n"), GP64())
	a, acc := Load(Param("acc"), GP64()), YMM()
	VMOVQ(a, acc.AsX())
	VPBROADCASTD(acc.AsX(), acc)
	low, one := c(0), c(1)
	item, y, rd, wr := Load(Param("item"), GP64()), Load(Param("y"), GP64()), Load(Param("rd"), GP64()),
		Load(Param("wr"), GP64())
	i := GP64()
	XORQ(i, i)
	at := func(base Register) Mem { return Mem{Base: base, Index: i, Scale: 4} }
	four := func(first int) VecVirtual {
		x := XMM()
		for k := range 4 {
			r := GP64()
			MOVL(at(raw).Offset(4*(first+k)), r.As32())
			ANDL(U32(0x7fffffff), r.As32())
			if of := (Mem{Base: tab, Index: r, Scale: 4}); k == 0 {
				VMOVD(of, x)
			} else {
				VPINSRD(Imm(uint64(k)), of, x, x)
			}
		}
		return x
	}
	loop("eight", n, 8, func() {
		r, it, label, to := YMM(), YMM(), YMM(), YMM()
		t, high := four(0), four(4)
		VINSERTI128(Imm(1), high, t.AsY(), t.AsY())
		VMOVDQU(at(raw), r)
		VPAND(low, r, it)
		VPSRAD(Imm(31), r, label)
		VPAND(one, label, label)
		VMOVDQU(it, at(item))
		VMOVDQU(label, at(y))
		VPADDD(acc, it, to)
		VPMAXSD(t.AsY(), it, it)
		VPMAXSD(t.AsY(), to, to)
		VMOVDQU(it, at(rd))
		VMOVDQU(to, at(wr))
		ADDQ(Imm(8), i)
	})
	VZEROUPPER()
	RET()
}

// repeats lists the items of n samples, a multiple of four, that have occurred before, and returns
// the end of the list: see Repeats. The comparison of tab borrows at the first occurrence only.
func repeats() {
	text("repeatsAsm", "func(raw *uint32, n int, tab *int32, dst *uint32, end int) int")
	raw, n, tab := Load(Param("raw"), GP64()), Load(Param("n"), GP64()), Load(Param("tab"), GP64())
	dst, end := Load(Param("dst"), GP64()), Load(Param("end"), GP64())
	seen := GP32()
	MOVL(I32(-1), seen)
	loop("four", n, 4, func() {
		for k := range 4 {
			item := GP64()
			MOVL(Mem{Base: raw, Disp: 4 * k}, item.As32())
			ANDL(U32(0x7fffffff), item.As32())
			MOVL(item.As32(), Mem{Base: dst, Index: end, Scale: 4})
			CMPL(Mem{Base: tab, Index: item, Scale: 4}, Imm(1))
			SBBQ(I8(-1), end)
			MOVL(seen, Mem{Base: tab, Index: item, Scale: 4})
		}
		ADDQ(Imm(16), raw)
	})
	Store(end, ReturnIndex(0))
	RET()
}

// equalInFours returns the first i, a multiple of sixteen below n, such that a group of four of
// x[i:i+16] has equal members, or n if none has.
func equalInFours() {
	text("equalInFoursAsm", "func(x *uint32, n int) int")
	x, n, i := Load(Param("x"), GP64()), Load(Param("n"), GP64()), GP64()
	XORQ(i, i)
	Label("more")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	var any VecVirtual
	for h := range 2 {
		v, a, b := YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: x, Index: i, Scale: 4, Disp: 32 * h}, v)
		VPSHUFD(Imm(0x39), v, a) // each beside the next, the last beside the first
		VPSHUFD(Imm(0x4e), v, b) // each beside the one after the next
		VPCMPEQD(v, a, a)
		VPCMPEQD(v, b, b)
		VPOR(b, a, a)
		if h == 1 {
			VPOR(any, a, a)
		}
		any = a
	}
	VPTEST(any, any)
	JNZ(LabelRef("done"))
	ADDQ(Imm(16), i)
	JMP(LabelRef("more"))
	Label("done")
	VZEROUPPER()
	Store(i, ReturnIndex(0))
	RET()
}

// rows32 copies rows of 32 floats: gather copies numbered rows to consecutive ones.
func rows32() {
	text("gather32Asm", "func(arena *float32, src *uint32, n int, dst *float32)")
	arena, src := Load(Param("arena"), GP64()), Load(Param("src"), GP64())
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	loop("one", n, 1, func() {
		row := rowAt(arena, src, 0, 4)
		for b := range 4 {
			y := YMM()
			VMOVUPS(Mem{Base: row, Disp: 32 * b}, y)
			VMOVUPS(y, Mem{Base: dst, Disp: 32 * b})
		}
		ADDQ(Imm(4), src)
		ADDQ(U32(128), dst)
	})
	VZEROUPPER()
	RET()
}
