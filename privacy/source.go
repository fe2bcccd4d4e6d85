package privacy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// Source draws exact discrete noise from a reader of random bytes: crypto/rand.Reader on a
// coordinator or a device, a seeded stream in simulation. It is not safe for concurrent use.
type Source struct {
	r   io.Reader
	at  int
	buf [2048]byte
}

// NewSource returns a Source that reads from r.
func NewSource(r io.Reader) *Source {
	s := &Source{r: r}
	s.at = len(s.buf)
	return s
}

func (s *Source) word() uint64 {
	if s.at == len(s.buf) {
		if _, err := io.ReadFull(s.r, s.buf[:]); err != nil {
			panic(fmt.Errorf("privacy: reading random bytes: %w", err)) // continuing would release without noise
		}
		s.at = 0
	}
	w := binary.LittleEndian.Uint64(s.buf[s.at:])
	s.at += 8
	return w
}

// below draws a uniform integer in [0, n) (Lemire 2019).
func (s *Source) below(n uint64) uint64 {
	hi, lo := bits.Mul64(s.word(), n)
	if lo < n {
		for least := -n % n; lo < least; {
			hi, lo = bits.Mul64(s.word(), n)
		}
	}
	return hi
}

// exp returns true with probability exp(-num/den), exactly (Canonne, Kamath and Steinke
// 2020, algorithm 1).
func (s *Source) exp(num, den uint64) bool {
	for ; num >= den; num -= den {
		if !s.inverseE() {
			return false
		}
	}
	for k := uint64(1); ; k++ {
		if s.below(den*k) >= num {
			return k&1 == 1
		}
	}
}

// inverseE returns true with probability 1/e, to 128 bits.
func (s *Source) inverseE() bool {
	const hi, lo = 0x5e2d58d8b3bcdf1a, 0xbadec7829054f90d
	if w := s.word(); w != hi {
		return w < hi
	}
	return s.word() < lo
}

// maxSigma is the largest deviation at which the sampler's arithmetic is exact.
const maxSigma = 1 << 24

// laplace draws from the discrete Laplace distribution with integer scale t, in which x has
// weight exp(-|x|/t).
func (s *Source) laplace(t uint64) int64 {
	for {
		u := s.below(t)
		if !s.exp(u, t) {
			continue
		}
		v := uint64(0)
		for s.inverseE() {
			v++
		}
		x := int64(u + t*v)
		if s.word()&1 == 0 {
			return x
		}
		if x != 0 {
			return -x
		}
	}
}

// gauss draws from the discrete Gaussian distribution with an integer deviation, in which x
// has weight exp(-x²/2σ²): exactly, in integers, by rejection from the discrete Laplace
// distribution (Canonne, Kamath and Steinke 2020, algorithm 3).
func (s *Source) gauss(sigma uint64) int64 {
	for {
		y := s.laplace(sigma)
		a := uint64(max(y, -y))
		if a > 64*sigma {
			continue // it is accepted with probability below exp(-1984)
		}
		d := max(a, sigma) - min(a, sigma)
		if s.exp(d*d, 2*sigma*sigma) {
			return y
		}
	}
}

// AddGauss adds discrete Gaussian noise with an integer deviation to each number. It is exact
// up to a deviation of 2^24 and panics above it.
func (s *Source) AddGauss(sigma int64, sum []int64) {
	if sigma < 0 || sigma > maxSigma {
		panic(fmt.Sprintf("privacy: noise of deviation %d: must be 0 to %d", sigma, maxSigma))
	}
	if sigma == 0 {
		return
	}
	for i := range sum {
		sum[i] += s.gauss(uint64(sigma))
	}
}
