// Package vec provides the float32 kernels of every hot loop. Functions never allocate; the
// destination slice is named dst and comes last. Wrong lengths are programming errors and panic.
//
// The order of every sum is fixed, so that SIMD code can return the same bits: a dot product has
// four accumulators of eight lanes, block k of eight floats goes to accumulator k mod 4, the
// accumulators are added as (0+2)+(1+3), and the lanes are folded by halves (4, 2, 1). Products
// are rounded before they are added: float32(x*y)+z keeps the compiler from fusing the two
// operations.
package vec

// Lanes is the number of floats that row lengths are padded to a multiple of.
const Lanes = 8

// Pad rounds n up to a multiple of Lanes.
func Pad(n int) int { return (n + Lanes - 1) &^ (Lanes - 1) }

const (
	badLength = "vec: slices of different length"
	badRow    = "vec: row number outside the arena"
)

// Dot returns the sum of a[i]*b[i].
func Dot(a, b []float32) float32 {
	if len(a) != len(b) {
		panic(badLength)
	}
	if len(a) == 32 {
		return dot32((*[32]float32)(a), (*[32]float32)(b))
	}
	if len(a) > 32 && len(a)%Lanes == 0 {
		var one [1]float32
		if dotsAllSIMD(a, len(a), b, 0, one[:]) {
			return one[0]
		}
	}
	return dotAny(a, b)
}

// SumSquares returns the sum of the squares of x: float32 sums of 128 squares, added up in float64.
func SumSquares(x []float32) (sum float64) {
	const piece = 128 // a length with a kernel
	for ; len(x) >= piece; x = x[piece:] {
		sum += float64(Dot(x[:piece], x[:piece]))
	}
	return sum + float64(Dot(x, x))
}

func dot32(a, b *[32]float32) float32 {
	p0 := float32(float32(a[0]*b[0])+float32(a[16]*b[16])) + float32(float32(a[8]*b[8])+float32(a[24]*b[24]))
	p4 := float32(float32(a[4]*b[4])+float32(a[20]*b[20])) + float32(float32(a[12]*b[12])+float32(a[28]*b[28]))
	p2 := float32(float32(a[2]*b[2])+float32(a[18]*b[18])) + float32(float32(a[10]*b[10])+float32(a[26]*b[26]))
	p6 := float32(float32(a[6]*b[6])+float32(a[22]*b[22])) + float32(float32(a[14]*b[14])+float32(a[30]*b[30]))
	even := (p0 + p4) + (p2 + p6)
	p1 := float32(float32(a[1]*b[1])+float32(a[17]*b[17])) + float32(float32(a[9]*b[9])+float32(a[25]*b[25]))
	p5 := float32(float32(a[5]*b[5])+float32(a[21]*b[21])) + float32(float32(a[13]*b[13])+float32(a[29]*b[29]))
	p3 := float32(float32(a[3]*b[3])+float32(a[19]*b[19])) + float32(float32(a[11]*b[11])+float32(a[27]*b[27]))
	p7 := float32(float32(a[7]*b[7])+float32(a[23]*b[23])) + float32(float32(a[15]*b[15])+float32(a[31]*b[31]))
	// A sum of only -0 is +0, like a sum that starts from +0.
	return even + ((p1 + p5) + (p3 + p7)) + 0
}

// dotAny is dot32 for any length. It treats a short last block as padded with zeros.
func dotAny(a, b []float32) float32 {
	var acc [4][Lanes]float32
	k := 0
	for len(a) >= Lanes {
		x, y, s := (*[Lanes]float32)(a), (*[Lanes]float32)(b), &acc[k&3]
		for l := range s {
			s[l] += float32(x[l] * y[l])
		}
		a, b, k = a[Lanes:], b[Lanes:], k+1
	}
	for l := range a {
		acc[k&3][l] += float32(a[l] * b[l])
	}
	var p [Lanes]float32
	for l := range p {
		p[l] = (acc[0][l] + acc[2][l]) + (acc[1][l] + acc[3][l])
	}
	return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

// Sum returns the sum of the elements: eight lanes, folded by halves.
func Sum(a []float32) float32 {
	var p [Lanes]float32
	a = a[sumSIMD(a, &p):]
	for len(a) >= Lanes {
		x := (*[Lanes]float32)(a)
		for l := range p {
			p[l] += x[l]
		}
		a = a[Lanes:]
	}
	for l, x := range a {
		p[l] += x
	}
	return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

// Axpy adds s*x to dst.
func Axpy(s float32, x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := axpySIMD(s, x, dst)
	x, dst = x[n:], dst[n:]
	for len(x) >= Lanes {
		a, d := (*[Lanes]float32)(x), (*[Lanes]float32)(dst)
		for l := range d {
			d[l] += float32(s * a[l])
		}
		x, dst = x[Lanes:], dst[Lanes:]
	}
	for l := range x {
		dst[l] += float32(s * x[l])
	}
}

// Add adds x to dst.
func Add(x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := addSIMD(x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		dst[i] += v
	}
}

// AddDiff adds a-b to dst.
func AddDiff(a, b, dst []float32) {
	if len(a) != len(dst) || len(b) != len(dst) {
		panic(badLength)
	}
	for i, v := range a {
		dst[i] += v - b[i]
	}
}

// Scale multiplies dst by s.
func Scale(s float32, dst []float32) { ScaleTo(s, dst, dst) }

// ScaleTo sets dst to s*x.
func ScaleTo(s float32, x, dst []float32) {
	if len(x) != len(dst) {
		panic(badLength)
	}
	n := scaleSIMD(s, x, dst)
	x, dst = x[n:], dst[n:]
	for i, v := range x {
		dst[i] = v * s
	}
}
