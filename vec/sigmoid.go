package vec

import "math"

// Sigmoid is 1/(1+exp(-x)) with an absolute error of at most 1.2e-7 over all
// finite x; NaN gives NaN. exp is 2^n * p(f), p a polynomial of degree 5, so
// that a vector form can follow it operation by operation.
func Sigmoid(x float32) float32 {
	// Written so that NaN passes through both comparisons.
	if x > 80 {
		x = 80
	}
	if x < -80 {
		x = -80
	}
	const (
		log2e = 1.44269504088896341
		magic = 12582912 // 1.5 * 2^23: adding it rounds to the nearest integer
		c1    = 0.693147180559945
		c2    = 0.240226507
		c3    = 0.0555041087
		c4    = 0.00961812911
		c5    = 0.00133335581
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

// Sigmoids replaces dst by its sigmoids.
func Sigmoids(dst []float32) {
	for i, x := range dst {
		dst[i] = Sigmoid(x)
	}
}

// BCEGrad replaces the logits in dst by (sigmoid-y)*scale: the gradient of
// binary cross entropy in its stable form.
func BCEGrad(y []float32, scale float32, dst []float32) {
	if len(y) != len(dst) {
		panic(badLength)
	}
	for i, z := range dst {
		dst[i] = float32((Sigmoid(z) - y[i]) * scale)
	}
}
