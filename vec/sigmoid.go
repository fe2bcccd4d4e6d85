package vec

import "math"

// Sigmoid returns 1/(1+exp(-x)) with an absolute error of at most 1.2e-7 over all finite x; NaN
// gives NaN. It computes exp as 2^n * p(f) with a polynomial p of degree 5, so that a vector
// form can repeat it operation by operation.
func Sigmoid(x float32) float32 {
	if x != x { // the integer addition below would turn some NaNs into numbers
		return x
	}
	if x > 80 {
		x = 80
	}
	if x < -80 {
		x = -80
	}
	const (
		log2e = 1.44269504088896341
		magic = 12582912 // 1.5 * 2^23: adding it rounds to the nearest integer
		// 2^f on [-1/2, 1/2], with the smallest relative error (9.2e-8) of a polynomial with
		// p(0) = 1.
		c1 = 0.6931469775442827
		c2 = 0.24022242093454363
		c3 = 0.05550733892804937
		c4 = 0.00967151261060975
		c5 = 0.0013264665381104309
	)
	z := float32(-x * log2e)
	t := z + magic
	n := t - magic
	f := z - n
	p := float32(c5*f) + c4
	p = float32(p*f) + c3
	p = float32(p*f) + c2
	p = float32(p*f) + c1
	p = float32(p*f) + 1
	e := math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
	return 1 / (1 + e)
}

var nothing [256]float32

// Sigmoids replaces every element of dst by its sigmoid.
func Sigmoids(dst []float32) {
	for len(dst) >= Lanes { // equals the gradient for labels of 0 and scale 1
		n := bceGradSIMD(nothing[:min(len(dst), len(nothing))], 1, dst[:min(len(dst), len(nothing))])
		if dst = dst[n:]; n == 0 {
			break
		}
	}
	for i, x := range dst {
		dst[i] = Sigmoid(x)
	}
}

// BCEGrad replaces the logits in dst by (sigmoid-y)*scale, the gradient of binary cross entropy
// in its numerically stable form.
func BCEGrad(y []float32, scale float32, dst []float32) {
	if len(y) != len(dst) {
		panic(badLength)
	}
	n := bceGradSIMD(y, scale, dst)
	y, dst = y[n:], dst[n:]
	for i, z := range dst {
		dst[i] = float32((Sigmoid(z) - y[i]) * scale)
	}
}
