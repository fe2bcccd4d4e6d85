package vec

import "math"

// Adam updates dst and its first and second moments m and v with the gradient g (Kingma and Ba
// 2015). rate and eps include the bias corrections: rate = lr*sqrt(1-b2^t)/(1-b1^t), eps =
// eps*sqrt(1-b2^t).
func Adam(g []float32, rate, b1, b2, eps float32, m, v, dst []float32) {
	if len(g) != len(dst) || len(m) != len(dst) || len(v) != len(dst) {
		panic(badLength)
	}
	n := adamSIMD(g, rate, b1, b2, eps, m, v, dst)
	for i := n; i < len(g); i++ {
		gi := g[i]
		m[i] = float32(b1*m[i]) + float32((1-b1)*gi)
		v[i] = float32(b2*v[i]) + float32((1-b2)*float32(gi*gi))
		dst[i] -= float32(rate*m[i]) / (float32(math.Sqrt(float64(v[i]))) + eps)
	}
}
