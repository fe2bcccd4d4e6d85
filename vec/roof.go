package vec

// Features names the instruction set of the kernels in use.
func Features() string { return features(simd) }

// Roof performs n rounds of independent multiplications and additions at the processor's peak
// rate and returns their number. Benchmarks compare kernels with it. As in all kernels of this
// package, products are rounded before they are added.
func Roof(n int) (flops int) {
	var x [2 * Lanes]float32
	for i := range x {
		x[i] = 1e-30
	}
	if each := roofSIMD(n, &x); each > 0 {
		return n * each
	}
	a, b, c, d := x[0], x[1], x[2], x[3]
	s := x[4]
	for range n {
		a += float32(s * s)
		b += float32(s * s)
		c += float32(s * s)
		d += float32(s * s)
	}
	if a+b+c+d == 0 { // keeps the compiler from removing the sums
		return 0
	}
	return n * 4 * 2
}
