//go:build amd64 && !purego

package vec

// The kernels of networks that read sequences. Each function returns the number of elements that
// it processed, a multiple of eight; the Go twin does the rest.

func maxSIMD(x []float32, lanes *[Lanes]float32) int {
	n := len(x) &^ 7
	if !simd || n == 0 {
		return 0
	}
	maxAsm(&x[0], n, &lanes[0])
	return n
}

func expsSIMD(shift, scale float32, dst []float32, lanes *[Lanes]float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	expsAsm(shift, scale, n, &dst[0], &lanes[0])
	return n
}

func softmaxBackSIMD(scale, mean float32, p, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	softmaxBackAsm(scale, mean, &p[0], n, &dst[0])
	return n
}

func geluSIMD(x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	geluAsm(&x[0], n, &dst[0])
	return n
}

func geluBackSIMD(x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	geluBackAsm(&x[0], n, &dst[0])
	return n
}

func mulSIMD(x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	mulAsm(&x[0], n, &dst[0])
	return n
}

func mulAddSIMD(x, y, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	mulAddAsm(&x[0], &y[0], n, &dst[0])
	return n
}

func decaySIMD(s float32, state, x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	decayAsm(s, &state[0], &x[0], n, &dst[0])
	return n
}

func shiftSIMD(by, scale float32, x, dst []float32) int {
	n := len(dst) &^ 7
	if !simd || n == 0 {
		return 0
	}
	shiftAsm(by, scale, &x[0], n, &dst[0])
	return n
}
