package vec

// Kernels for network layers, in addition to Gemm.

// Relu sets negative numbers to 0. NaN stays NaN.
func Relu(dst []float32) {
	dst = dst[reluSIMD(dst):]
	for i, x := range dst {
		if x < 0 {
			dst[i] = 0
		}
	}
}

// ReluBack sets dst to 0 if the corresponding output h of Relu is not above 0.
func ReluBack(h, dst []float32) {
	if len(h) != len(dst) {
		panic(badLength)
	}
	n := reluBackSIMD(h, dst)
	h, dst = h[n:], dst[n:]
	for i, x := range h {
		if !(x > 0) {
			dst[i] = 0
		}
	}
}

// Outer sets row x of dst to g[x]*v. Rows are as long as v.
func Outer(g, v, dst []float32) {
	if len(dst) != len(g)*len(v) {
		panic(badLength)
	}
	for x, s := range g {
		row := dst[x*len(v) : (x+1)*len(v)]
		copy(row, v)
		Scale(s, row)
	}
}

// Columns adds the rows of a to dst in order. Rows are as long as dst.
func Columns(a, dst []float32) {
	if len(dst) == 0 || len(a)%len(dst) != 0 {
		panic(badLength)
	}
	for ; len(a) > 0; a = a[len(dst):] {
		Add(a[:len(dst)], dst)
	}
}

// Soft moves every number towards 0 by t, and to 0 if its magnitude is at most t.
func Soft(t float32, dst []float32) {
	for i, x := range dst {
		switch {
		case x > t:
			dst[i] = x - t
		case x < -t:
			dst[i] = x + t
		case x == x: // NaN stays NaN
			dst[i] = 0
		}
	}
}
