package secagg

import (
	"encoding/binary"
	"io"
)

// Shamir's sharing over GF(256), byte by byte, with the polynomial of AES. Eight
// bytes are worked on at once in a word. Places and coefficients at zero are
// public; secrets meet only shifts, ands and xors, so time does not depend on them.

// pairSize is the length of a device's two secrets, which are shared as one: the
// seed of its own mask, and its mask key.
const pairSize = 2 * keySize

type words [pairSize / 8]uint64

func toWords(b *[pairSize]byte) (w words) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return w
}

func (w *words) bytes() (b [pairSize]byte) {
	for i := range w {
		binary.LittleEndian.PutUint64(b[8*i:], w[i])
	}
	return b
}

// double multiplies each of eight field elements by x.
func double(a uint64) uint64 {
	const low, high = 0x7f7f7f7f7f7f7f7f, 0x8080808080808080
	return (a&low)<<1 ^ (a&high)>>7*0x1b
}

// scale returns c*w for a public c.
func (w *words) scale(c byte) (out words) {
	for i, a := range w {
		r := uint64(0)
		for m := c; m != 0; m >>= 1 {
			if m&1 != 0 {
				r ^= a
			}
			a = double(a)
		}
		out[i] = r
	}
	return out
}

// split makes shares of which any t give the secret back and fewer tell nothing:
// share i is the value at place i+1 of a random polynomial of degree t-1.
func split(secret *[pairSize]byte, t int, out [][pairSize]byte, rand io.Reader) error {
	random := make([]byte, (t-1)*pairSize)
	if _, err := io.ReadFull(rand, random); err != nil {
		return err
	}
	poly := make([]words, t)
	poly[0] = toWords(secret)
	for j := 1; j < t; j++ {
		poly[j] = toWords((*[pairSize]byte)(random[(j-1)*pairSize:]))
	}
	for i := range out {
		acc := poly[t-1]
		for j := t - 2; j >= 0; j-- {
			acc = acc.scale(byte(i + 1))
			for k := range acc {
				acc[k] ^= poly[j][k]
			}
		}
		out[i] = acc.bytes()
	}
	clear(random)
	clear(poly)
	return nil
}

// point is one half of a share, and its place.
type point struct {
	x byte
	y [keySize]byte
}

// combine returns the value at 0 of the polynomial through points, whose places
// differ.
func combine(points []point) (out [keySize]byte) {
	var sum words
	for i, p := range points {
		up, down := byte(1), byte(1)
		for j, q := range points {
			if i != j {
				up, down = mul(up, q.x), mul(down, q.x^p.x)
			}
		}
		var y [pairSize]byte
		copy(y[:], p.y[:])
		w := toWords(&y)
		w = w.scale(mul(up, inverse(down)))
		for k := range sum {
			sum[k] ^= w[k]
		}
	}
	whole := sum.bytes()
	copy(out[:], whole[:])
	return out
}

// mul and inverse are for public values: places and coefficients.
func mul(a, b byte) (r byte) {
	for ; b != 0; b >>= 1 {
		if b&1 != 0 {
			r ^= a
		}
		a = a<<1 ^ a>>7*0x1b
	}
	return r
}

// inverse is a^254.
func inverse(a byte) byte {
	r := byte(1)
	for range 7 {
		a = mul(a, a)
		r = mul(r, a)
	}
	return r
}
