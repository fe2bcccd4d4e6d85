package vec

import "math"

// Exp returns e to the power of x, for x limited to [-80, 80]; NaN gives NaN. The relative error
// is at most 2e-7 near 0 and grows to 6e-6 at the limits.
func Exp(x float32) float32 {
	if x != x { // the integer addition would turn some NaNs into numbers
		return x
	}
	if x > 80 {
		x = 80
	}
	if x < -80 {
		x = -80
	}
	return exp(x)
}

// exp is Exp of a number within the limits. It computes 2^n * p(f) with a polynomial p of degree
// 5, so that a vector form can repeat it operation by operation.
func exp(x float32) float32 {
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
	z := float32(x * log2e)
	t := z + magic
	n := t - magic
	f := z - n
	p := float32(c5*f) + c4
	p = float32(p*f) + c3
	p = float32(p*f) + c2
	p = float32(p*f) + c1
	p = float32(p*f) + 1
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
}

// Max returns the largest element, ignoring NaN, or -Inf if a is empty or all NaN.
func Max(a []float32) float32 {
	var p [Lanes]float32
	for l := range p {
		p[l] = float32(math.Inf(-1))
	}
	a = a[maxSIMD(a, &p):]
	for len(a) >= Lanes {
		x := (*[Lanes]float32)(a)
		for l := range p {
			p[l] = larger(x[l], p[l])
		}
		a = a[Lanes:]
	}
	for l, x := range a {
		p[l] = larger(x, p[l])
	}
	return larger(larger(larger(p[0], p[4]), larger(p[2], p[6])), larger(larger(p[1], p[5]), larger(p[3], p[7])))
}

// larger returns x if it is above y, and y otherwise.
func larger(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

// Exps replaces every x of dst by Exp((x-shift)*scale) and returns their sum, in the order of
// Sum.
func Exps(shift, scale float32, dst []float32) float32 {
	var p [Lanes]float32
	dst = dst[expsSIMD(shift, scale, dst, &p):]
	for len(dst) >= Lanes {
		x := (*[Lanes]float32)(dst)
		for l := range p {
			x[l] = Exp(float32((x[l] - shift) * scale))
			p[l] += x[l]
		}
		dst = dst[Lanes:]
	}
	for l, x := range dst {
		dst[l] = Exp(float32((x - shift) * scale))
		p[l] += dst[l]
	}
	return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

// Softmax replaces dst by the softmax of scale*dst, for a scale above 0. It returns the largest
// logit, top, and the sum of exp(scale*(x-top)), so that the logarithm of the normalising
// constant is scale*top + log(sum). A logit more than 80 below the largest counts as 80 below it.
func Softmax(scale float32, dst []float32) (top, sum float32) {
	top = Max(dst)
	sum = Exps(top, scale, dst)
	if len(dst) > 0 {
		Scale(1/sum, dst)
	}
	return top, sum
}

// SoftmaxBack replaces dp, the gradient with respect to the softmax p of scale*z, by the gradient
// with respect to z: scale*p*(dp - p.dp).
func SoftmaxBack(scale float32, p, dp []float32) {
	if len(p) != len(dp) {
		panic(badLength)
	}
	mean := Dot(p, dp)
	n := softmaxBackSIMD(scale, mean, p, dp)
	p, dp = p[n:], dp[n:]
	for i, x := range dp {
		dp[i] = float32(float32((x-mean)*scale) * p[i])
	}
}
