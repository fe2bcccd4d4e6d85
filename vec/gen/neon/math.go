package main

import "math"

// sigmoid repeats Sigmoid four lanes at a time; n is a multiple of eight.
func sigmoid() {
	text("bceGradAsm", 32)
	arg("y", 0, "R0")
	p("\tMOVD $scale+8(FP), R5")
	splat("R5", 16)
	arg("n", 16, "R2")
	arg("dst", 24, "R4")
	constants := []float32{
		80, -80, 1.44269504088896341, 12582912,
		0.0013264665381104309, 0.00967151261060975, 0.05550733892804937, 0.24022242093454363, 0.6931469775442827, 1,
	}
	for i, c := range constants { // V17 on
		p("\tMOVW $0x%08x, R6 // %v\n\tVDUP R6, V%d.S4", math.Float32bits(c), c, 17+i)
	}
	loop("four", "R2", 4, func() {
		p("\tVLD1 (R4), [V0.S4]\n\tVLD1.P 16(R0), [V1.S4]")
		fmin(2, 0, 17)
		fmax(2, 2, 18)
		fneg(2, 2)
		fmul(2, 2, 19) // z
		fadd(3, 2, 20) // t
		fsub(4, 3, 20)
		fsub(2, 2, 4) // f
		fmul(4, 21, 2)
		for c := 22; c <= 25; c++ {
			fadd(4, 4, c)
			fmul(4, 4, 2)
		}
		fadd(4, 4, 26)
		p("\tVSHL $23, V3.S4, V3.S4\n\tVADD V3.S4, V4.S4, V4.S4")
		fadd(4, 4, 26)
		fdiv(4, 26, 4)
		fceq(5, 0, 0) // not NaN
		p("\tVBIF V5.B16, V0.B16, V4.B16")
		fsub(4, 4, 1)
		fmul(4, 4, 16)
		p("\tVST1.P [V4.S4], 16(R4)")
	})
	p("\tRET")
}

// pairs writes the kernels over two or more slices, eight floats at a time.
func pairs() {
	text("axpyAsm", 32)
	p("\tMOVD $s+0(FP), R5")
	splat("R5", 16)
	arg("x", 8, "R0")
	arg("n", 16, "R2")
	arg("dst", 24, "R4")
	loop("eight", "R2", 8, func() {
		p("\tVLD1.P 32(R0), [V0.S4, V1.S4]\n\tVLD1 (R4), [V2.S4, V3.S4]")
		fmul(0, 0, 16)
		fmul(1, 1, 16)
		fadd(2, 2, 0)
		fadd(3, 3, 1)
		p("\tVST1.P [V2.S4, V3.S4], 32(R4)")
	})
	p("\tRET")

	text("addAsm", 24)
	arg("x", 0, "R0")
	arg("n", 8, "R2")
	arg("dst", 16, "R4")
	loop("eight", "R2", 8, func() {
		p("\tVLD1.P 32(R0), [V0.S4, V1.S4]\n\tVLD1 (R4), [V2.S4, V3.S4]")
		fadd(2, 2, 0)
		fadd(3, 3, 1)
		p("\tVST1.P [V2.S4, V3.S4], 32(R4)")
	})
	p("\tRET")

	text("mergeAsm", 40)
	arg("acc", 0, "R0")
	arg("step", 8, "R1")
	arg("shards", 16, "R3")
	arg("n", 24, "R2")
	arg("dst", 32, "R4")
	p("\tLSL $2, R1\n\tVEOR V8.B16, V8.B16, V8.B16\n\tVEOR V9.B16, V9.B16, V9.B16")
	loop("eight", "R2", 8, func() {
		p("\tVLD1 (R4), [V0.S4, V1.S4]\n\tMOVD R0, R5\n\tMOVD R3, R6")
		loop("shard", "R6", 1, func() {
			p("\tVLD1 (R5), [V2.S4, V3.S4]\n\tVST1 [V8.S4, V9.S4], (R5)")
			fadd(0, 0, 2)
			fadd(1, 1, 3)
			p("\tADD R1, R5")
		})
		p("\tVST1.P [V0.S4, V1.S4], 32(R4)\n\tADD $32, R0")
	})
	p("\tRET")
}

// gemm writes the tile kernel of rows by sixteen columns: see Gemm.
func gemm(rows int) {
	text(map[int]string{6: "gemm6x16Asm", 1: "gemm1x16Asm"}[rows], 64)
	for i, name := range []string{"k", "a", "rowA", "colA", "b", "rowB", "c", "rowC"} {
		arg(name, 8*i, []string{"R2", "R0", "R1", "R3", "R4", "R5", "R6", "R7"}[i])
	}
	p("\tLSL $2, R1\n\tLSL $2, R3\n\tLSL $2, R5\n\tLSL $2, R7")
	tile := func(move func(reg string, v int)) {
		p("\tMOVD R6, R8")
		for i := range rows {
			move("R8", 4*i)
			p("\tADD R7, R8")
		}
	}
	tile(load)
	loop("k", "R2", 1, func() {
		load("R4", 24)
		p("\tMOVD R0, R9")
		for i := range rows {
			splat("R9", 28)
			for h := range 4 {
				fmul(29, 24+h, 28)
				fadd(4*i+h, 4*i+h, 29)
			}
			p("\tADD R1, R9")
		}
		p("\tADD R3, R0\n\tADD R5, R4")
	})
	tile(store)
	p("\tRET")
}
