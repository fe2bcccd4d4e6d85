package vec

import "math"

// Kernels of the networks that read sequences.

// Gelu sets dst to x*sigmoid(1.702x), the usual approximation of the Gaussian error linear unit.
// dst may be x.
func Gelu(x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := geluSIMD(x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		dst[i] = v * Sigmoid(float32(geluRate*v))
	}
}

const geluRate = 1.702

// GeluBack multiplies dst, the gradient with respect to the output of Gelu, by the derivative of
// Gelu at x.
func GeluBack(x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := geluBackSIMD(x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		u := float32(geluRate * v)
		s := Sigmoid(u)
		// s + u*s*(1-s)
		dst[i] *= s + float32(float32(u*s)*(1-s))
	}
}

// Mul multiplies dst by x, element by element.
func Mul(x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := mulSIMD(x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		dst[i] *= v
	}
}

// MulAdd adds x*y to dst, element by element.
func MulAdd(x, y, dst []float32) {
	if len(x) != len(dst) || len(y) != len(dst) {
		panic(badLength)
	}
	n := mulAddSIMD(x, y, dst)
	x, y, dst = x[n:], y[n:], dst[n:]
	for i, v := range x {
		dst[i] += float32(v * y[i])
	}
}

// Decay sets dst to s*state + x: one step of a linear recurrence. dst may be state or x.
func Decay(s float32, state, x, dst []float32) {
	if len(x) != len(dst) || len(state) != len(dst) {
		panic(badLength)
	}
	n := decaySIMD(s, state, x, dst)
	state, x, dst = state[n:], x[n:], dst[n:]
	for i, v := range state {
		dst[i] = float32(s*v) + x[i]
	}
}

// shift sets dst to (x-by)*scale.
func shift(by, scale float32, x, dst []float32) {
	n := shiftSIMD(by, scale, x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		dst[i] = float32((v - by) * scale)
	}
}

// normFloor is added to the variance in LayerNorm.
const normFloor = 1e-5

// LayerNorm sets norm to x with mean 0 and variance 1, and dst to gain*norm + offset. It returns
// the factor that x was multiplied by, which LayerNormBack requires together with norm. norm may
// be x; dst must not overlap the others.
func LayerNorm(x, gain, offset, norm, dst []float32) (factor float32) {
	if len(x) == 0 || len(gain) != len(x) || len(offset) != len(x) || len(norm) != len(x) || len(dst) != len(x) {
		panic(badLength)
	}
	size := 1 / float32(len(x))
	shift(float32(Sum(x)*size), 1, x, norm)
	variance := float32(Dot(norm, norm) * size)
	factor = 1 / float32(math.Sqrt(float64(variance+normFloor)))
	Scale(factor, norm)
	copy(dst, offset)
	MulAdd(norm, gain, dst)
	return factor
}

// LayerNormBack adds the gradients of LayerNorm for dy, the gradient with respect to its output:
// to dgain and doffset, and to dx, the gradient with respect to its input. It overwrites dy.
func LayerNormBack(norm, gain []float32, factor float32, dy, dgain, doffset, dx []float32) {
	n := len(dy)
	if n == 0 || len(norm) != n || len(gain) != n || len(dgain) != n || len(doffset) != n || len(dx) != n {
		panic(badLength)
	}
	MulAdd(norm, dy, dgain)
	Add(dy, doffset)
	Mul(gain, dy)
	size := 1 / float32(n)
	mean, along := float32(Sum(dy)*size), float32(Dot(dy, norm)*size)
	shift(mean, factor, dy, dy)
	Axpy(-float32(along*factor), norm, dy)
	Add(dy, dx)
}
