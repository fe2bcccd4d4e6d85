// Package rng holds the random streams of Tacit. A stream is named by its purpose (seed,
// round, device, use), never by the time of its use, so results do not depend on the order of
// work. Its numbers are the same bits on every platform. It must not be used for privacy
// noise on a real coordinator.
package rng

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
)

// The purposes of streams. Each use has its own, so that no two uses read the same numbers.
const (
	Init uint64 = iota + 1
	Negatives
	Shuffle
	Candidates
	Cohort
	Dropout
	Straggle
	WorldItem
	WorldUser
	Partner
	Visit
	EvalUsers
	Bootstrap
	Test
	Noise
	Pooled
	Tune
	Order
	Figure
	HeldUsers
	HeldRows
	Fleet
	Rounding
	Arrival
)

const golden = 0x9e3779b97f4a7c15

// Rand is a SplitMix64 stream (Steele, Lea and Flood 2014). The zero value is a valid stream;
// New returns one by name.
type Rand struct{ state uint64 }

// New returns the stream named by the keys.
func New(keys ...uint64) Rand {
	h := uint64(0x243f6a8885a308d3)
	for _, k := range keys {
		h = mix(h ^ mix(k+golden))
	}
	return Rand{h}
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Bytes returns the bytes of the stream named by the keys. Anybody who knows the keys can
// repeat them, so as privacy noise they are for tests and simulations only.
func Bytes(keys ...uint64) io.Reader {
	g := New(keys...)
	var key [32]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], g.Uint64())
	}
	return rand.NewChaCha8(key)
}

// Uint64 returns 64 uniform bits.
func (r *Rand) Uint64() uint64 {
	r.state += golden
	return mix(r.state)
}

// Uint32n returns a uniform number below n, which must be positive, without
// modulo bias (Lemire 2019).
func (r *Rand) Uint32n(n uint32) uint32 {
	p := (r.Uint64() >> 32) * uint64(n)
	if uint32(p) < n {
		for floor := -n % n; uint32(p) < floor; {
			p = (r.Uint64() >> 32) * uint64(n)
		}
	}
	return uint32(p >> 32)
}

// Float64 returns a uniform number in [0, 1).
func (r *Rand) Float64() float64 { return float64(float64(r.Uint64()>>11) * 0x1p-53) }

// Norm returns a standard normal number (Marsaglia's polar method). It drops the second
// number of each pair, so that a stream has no hidden state.
func (r *Rand) Norm() float64 {
	for {
		u, v := float64(2*r.Float64())-1, float64(2*r.Float64())-1
		if s := float64(u*u) + float64(v*v); s > 0 && s < 1 {
			return u * math.Sqrt(-2*Log(s)/s)
		}
	}
}

// Log is the natural logarithm of a positive, finite, normal x, with a relative error of at
// most 5e-16 and the same bits on every platform. On some platforms math.Log uses fused
// multiply-add.
func Log(x float64) float64 {
	b := math.Float64bits(x)
	exp := int(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m /= 2
		exp++
	}
	// ln m = 2 atanh(t) = 2 (t + t^3/3 + t^5/5 + ...), |t| <= 0.1716.
	t := (m - 1) / (m + 1)
	// Written out, so that the constants cost no division.
	t2 := float64(t * t)
	s := float64(t2*(1.0/23)) + 1.0/21
	s = float64(s*t2) + 1.0/19
	s = float64(s*t2) + 1.0/17
	s = float64(s*t2) + 1.0/15
	s = float64(s*t2) + 1.0/13
	s = float64(s*t2) + 1.0/11
	s = float64(s*t2) + 1.0/9
	s = float64(s*t2) + 1.0/7
	s = float64(s*t2) + 1.0/5
	s = float64(s*t2) + 1.0/3
	s = float64(s*t2) + 1
	return float64(float64(exp)*math.Ln2) + float64(2*t*s)
}

// Insert puts the items, with the given bits set, at random places among the numbers at the
// start of dst, which must be in random order: dst has room for all, and they end in random order.
func (r *Rand) Insert(items []uint32, bits uint32, dst []uint32) {
	first, s := uint32(len(dst)-len(items)), *r
	for i, item := range items {
		at := first + uint32(i)
		n := at + 1
		p := (s.Uint64() >> 32) * uint64(n)
		if uint32(p) < n { // rare: Uint32n decides
			s.state -= golden
			p = uint64(s.Uint32n(n)) << 32
		}
		j := uint32(p >> 32)
		dst[at] = dst[j]
		dst[j] = item | bits
	}
	*r = s
}

// Shuffle permutes xs uniformly (Fisher and Yates).
func (r *Rand) Shuffle(xs []uint32) {
	for i := len(xs) - 1; i > 0; i-- {
		j := r.Uint32n(uint32(i + 1))
		xs[i], xs[j] = xs[j], xs[i]
	}
}
