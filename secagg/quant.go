package secagg

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Quant says how real vectors become integers whose sums cannot wrap.
type Quant struct {
	Devices int     // most devices in a sum. Required.
	Norm    float64 // a vector is scaled down to this L2 norm; 0 means it is not
	Peak    float64 // numbers are cut to this magnitude. Required; 0 means Norm.
	Bits    int     // of one number, 2 to 24: integers up to 2^(Bits-1)-1 in magnitude. Required.
	Noise   int64   // most that a device adds to an integer as noise, in magnitude; see Tail
	Modulus int     // bits of the modulus; 0 means the smallest that holds the sum
	Nearest bool    // round to the nearest integer instead of at random
	Beta    float64 // chance that a rounded vector is too long and rounded anew; 0 means 1e-6
}

// Quantiser makes integers of real vectors, and real sums of integer sums. It is
// safe for several goroutines.
type Quantiser struct {
	q      Quant
	levels int64   // integer that Peak becomes
	scale  float64 // integers per unit
}

// NewQuantiser proves that no sum can wrap,
//
//	Devices * (2^(Bits-1)-1 + Noise) <= 2^(Modulus-1)-1,
//
// or refuses, and says what would do. The proof is certain and not up to chance:
// a device whose noise is over its bound draws anew, and Client.Upload refuses
// what is over the maximum.
func NewQuantiser(q Quant) (*Quantiser, error) {
	if q.Peak == 0 {
		q.Peak = q.Norm
	}
	if q.Beta == 0 {
		q.Beta = 1e-6
	}
	finite := func(x float64) bool { return x >= 0 && x <= math.MaxFloat32 }
	switch {
	case q.Devices < 1 || q.Devices > MaxDevices:
		return nil, fmt.Errorf("secagg: quantiser for %d devices: want 1 to %d", q.Devices, MaxDevices)
	case !finite(q.Norm) || !finite(q.Peak) || q.Peak == 0:
		return nil, fmt.Errorf("secagg: norm %g and peak %g: want finite bounds, one of them positive", q.Norm, q.Peak)
	case q.Bits < 2 || q.Bits > 24:
		return nil, fmt.Errorf("secagg: numbers of %d bits: want 2 to 24", q.Bits)
	case q.Noise < 0 || q.Noise > 1<<40:
		return nil, fmt.Errorf("secagg: noise up to %d: want 0 to 2^40", q.Noise)
	case q.Modulus < 0 || q.Modulus > MaxBits:
		return nil, fmt.Errorf("secagg: modulus of %d bits: want 1 to %d, or 0 for the smallest", q.Modulus, MaxBits)
	case !(q.Beta > 0 && q.Beta <= math.Exp(-0.5)):
		return nil, fmt.Errorf("secagg: beta is %g: want a chance above 0 and up to %.3f", q.Beta, math.Exp(-0.5))
	}
	out := &Quantiser{q: q, levels: 1<<(q.Bits-1) - 1}
	out.scale = float64(out.levels) / q.Peak
	need, limit := modulusBits(q.Devices, out.Max()), q.Modulus
	if limit == 0 {
		limit = MaxBits
	}
	if need > limit {
		return nil, fmt.Errorf("secagg: the sum of %d numbers of %d bits with noise up to %d would wrap modulo 2^%d: %s", q.Devices, q.Bits, q.Noise, limit, q.fits(need, limit))
	}
	if q.Modulus == 0 {
		out.q.Modulus = need
	}
	return out, nil
}

// fits says what would hold the sum: a modulus, or fewer bits.
func (q *Quant) fits(need, limit int) string {
	bits := q.Bits
	for bits > 1 && modulusBits(q.Devices, 1<<(bits-1)-1+q.Noise) > limit {
		bits--
	}
	text := fmt.Sprintf("a modulus of %d bits is the smallest that would do", need)
	if need > MaxBits {
		text = fmt.Sprintf("%d bits would be needed and %d is the most there is", need, MaxBits)
	}
	if bits < 2 {
		return text + "; fewer bits do not help: less noise, or fewer devices"
	}
	return fmt.Sprintf("%s, or take numbers of %d bits", text, bits)
}

// Max is the largest magnitude of an integer with its noise: Params.Max.
func (z *Quantiser) Max() int64 { return z.levels + z.q.Noise }

// Modulus is the bits of the modulus that the proof is for.
func (z *Quantiser) Modulus() int { return z.q.Modulus }

// Bound is the largest L2 norm that a rounded vector of so many numbers can have,
// in integers and without noise: the sensitivity to account with. For c the clip
// norm in integers and b = Beta, it is the root of
//
//	min((c + sqrt d)^2, c^2 + d/4 + sqrt(2 ln 1/b) * (c + sqrt(d)/2))
//
// (Kairouz, Liu and Steinke 2021, the conditional rounding of their algorithm 1),
// and c + sqrt(d)/2 for rounding to the nearest.
func (z *Quantiser) Bound(length int) float64 {
	d := float64(length)
	c := float64(z.levels) * math.Sqrt(d)
	if z.q.Norm > 0 {
		c = min(c, z.scale*z.q.Norm)
	} else {
		return c // cut numbers stay in their range however they are rounded
	}
	if z.q.Nearest {
		return c + math.Sqrt(d)/2
	}
	far := c + math.Sqrt(d)
	return math.Sqrt(min(far*far, c*c+d/4+math.Sqrt(2*math.Log(1/z.q.Beta))*(c+math.Sqrt(d)/2)))
}

// Encode clips x, rounds it and writes it to dst. Rounding at random is up with
// the chance of the fraction, so that its mean is the number itself; a vector that
// comes out longer than Bound is rounded anew, which biases the mean by a factor
// of the order of Beta. It takes 32 bytes of random; nil is crypto/rand.
func (z *Quantiser) Encode(x []float32, random io.Reader, dst []int32) error {
	if len(x) != len(dst) {
		return fmt.Errorf("secagg: %d numbers into %d places", len(x), len(dst))
	}
	square := 0.0
	for i, v := range x {
		if d := v - v; d != 0 {
			return fmt.Errorf("secagg: number %d of a vector is not finite", i)
		}
		square += float64(float64(v) * float64(v)) // no fused sums: the same bits everywhere
	}
	shrink := z.scale
	if norm := math.Sqrt(square); z.q.Norm > 0 && norm > z.q.Norm {
		shrink *= z.q.Norm / norm
	}
	if z.q.Nearest {
		z.round(x, shrink, func() float64 { return 0.5 }, dst)
		return nil
	}
	if random == nil {
		random = rand.Reader
	}
	var key [keySize]byte
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return fmt.Errorf("secagg: random bytes to round with: %w", err)
	}
	u := uniform{stream: newStream(derive(key[:], [keySize]byte{}, forRound, 0, 0))}
	limit := z.Bound(len(x))
	for range 200 {
		if s := z.round(x, shrink, u.next, dst); z.q.Norm == 0 || s <= limit*limit {
			return nil
		}
	}
	return errors.New("secagg: a vector was too long after 200 roundings, which is less likely than e^-100; are the random bytes random?")
}

// round rounds up where the fraction is at least what threshold says, and returns
// the squared norm.
func (z *Quantiser) round(x []float32, scale float64, threshold func() float64, dst []int32) float64 {
	square, top := 0.0, float64(z.levels)
	for i, v := range x {
		y := max(-top, min(top, float64(v)*scale))
		low := math.Floor(y)
		if y-low > threshold() {
			low++
		}
		dst[i] = int32(low)
		square += float64(low * low)
	}
	return square
}

// uniform draws numbers in [0, 1) with 32 bits.
type uniform struct {
	stream stream
	buf    [1024]byte
	rest   []byte
}

func (u *uniform) next() float64 {
	if len(u.rest) == 0 {
		u.rest = u.buf[:]
		u.stream.Read(u.rest)
	}
	v := binary.LittleEndian.Uint32(u.rest)
	u.rest = u.rest[4:]
	return float64(v) / (1 << 32)
}

// Decode writes to dst what integers, or sums of them, stand for.
func (z *Quantiser) Decode(sum []int32, dst []float32) {
	if len(sum) != len(dst) {
		panic("secagg: lengths differ")
	}
	for i, v := range sum {
		dst[i] = float32(float64(v) / z.scale)
	}
}

// Tail is a bound that discrete Gaussian noise of deviation sigma keeps in so many
// draws but for a chance of at most p, by 2 exp(-x^2 / 2 sigma^2) for each: the
// discrete Gaussian is sub-Gaussian (Canonne, Kamath and Steinke 2020). A device
// that draws more draws anew; p is then to be added to the delta of the release.
func Tail(sigma float64, draws int, p float64) int64 {
	if !(sigma >= 0 && sigma < 1<<32 && p > 0 && p < 1) || draws < 1 {
		panic("secagg: a tail needs a finite deviation, draws, and a chance between 0 and 1")
	}
	return int64(math.Ceil(sigma * math.Sqrt(2*math.Log(2*float64(draws)/p))))
}
