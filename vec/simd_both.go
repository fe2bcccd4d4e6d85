//go:build (amd64 || arm64) && !purego

package vec

// The kernels that both AVX2 and NEON have. Each function returns false, or the number of
// elements that it processed (a multiple of eight); the Go twin does the rest. The caller has
// checked the lengths.

func axpySIMD(s float32, x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	axpyAsm(s, &x[0], n, &dst[0])
	return n
}

func addSIMD(x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	addAsm(&x[0], n, &dst[0])
	return n
}

func mergeSIMD(acc []float32, step, shards int, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 || shards == 0 {
		return 0
	}
	_ = acc[(shards-1)*step+n-1]
	mergeAsm(&acc[0], step, shards, n, &dst[0])
	return n
}
