package vec

// Sigmoid returns 1/(1+exp(-x)) with an absolute error of at most 1.2e-7 over all finite x; NaN
// gives NaN.
func Sigmoid(x float32) float32 {
	if x != x { // the integer addition in exp would turn some NaNs into numbers
		return x
	}
	if x > 80 {
		x = 80
	}
	if x < -80 {
		x = -80
	}
	return 1 / (1 + exp(-x))
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
