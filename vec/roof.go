package vec

// Features names the kernels that serve on this machine.
func Features() string { return features(simd) }

// Roof does as many multiplications and additions as the processor can, n rounds
// of them, none waiting for another, and returns how many: the roof that kernels
// are measured against. Products are rounded before they are added, as in all
// kernels here.
func Roof(n int) (flops int) {
	x := [Lanes]float32{1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30}
	if roofSIMD(n, &x) {
		return n * 10 * 2 * Lanes
	}
	a, b, c, d := x[0], x[1], x[2], x[3]
	s := x[4]
	for range n {
		a += float32(s * s)
		b += float32(s * s)
		c += float32(s * s)
		d += float32(s * s)
	}
	if a+b+c+d == 0 { // keeps the sums alive
		return 0
	}
	return n * 4 * 2
}
