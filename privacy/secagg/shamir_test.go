package secagg

import (
	"math/rand/v2"
	"testing"
)

// slow is multiplication in GF(256) from its definition: polynomials over GF(2)
// modulo x^8 + x^4 + x^3 + x + 1.
func slow(a, b byte) byte {
	p := uint16(0)
	for i := range 8 {
		if b>>i&1 != 0 {
			p ^= uint16(a) << i
		}
	}
	for i := 15; i >= 8; i-- {
		if p>>i&1 != 0 {
			p ^= 0x11b << (i - 8)
		}
	}
	return byte(p)
}

func TestTheFieldIsThatOfAES(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic: run without -short")
	}
	for a := range 256 {
		var in [pairSize]byte
		for i := range in {
			in[i] = byte(a + i)
		}
		w := toWords(&in)
		for b := range 256 {
			if got, want := mul(byte(a), byte(b)), slow(byte(a), byte(b)); got != want {
				t.Fatalf("%d * %d is %d, want %d", a, b, got, want)
			}
			scaled := w.scale(byte(b))
			for i, got := range scaled.bytes() {
				if want := slow(in[i], byte(b)); got != want {
					t.Fatalf("%d * %d in a word is %d, want %d", in[i], b, got, want)
				}
			}
		}
		if a != 0 && mul(byte(a), inverse(byte(a))) != 1 {
			t.Errorf("%d times its inverse is %d", a, mul(byte(a), inverse(byte(a))))
		}
	}
}

// some picks t of the shares at random and takes one half of each.
func some(r *rand.Rand, shares [][pairSize]byte, t, half int) []point {
	out := make([]point, t)
	for i, j := range r.Perm(len(shares))[:t] {
		out[i] = point{byte(j + 1), [keySize]byte(shares[j][half*keySize : (half+1)*keySize])}
	}
	return out
}

func TestAnyThresholdOfSharesOpensAndFewerDoNot(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic: run without -short")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ t, n int }{{1, 1}, {1, 5}, {2, 2}, {2, 3}, {7, 20}, {46, 107}, {128, 255}, {255, 255}} {
		secret := [pairSize]byte{3, 1, 4, keySize: 1, pairSize - 1: 9}
		shares := make([][pairSize]byte, c.n)
		if err := split(&secret, c.t, shares, newStream([keySize]byte{byte(c.t)})); err != nil {
			t.Fatal(err)
		}
		for half := range 2 {
			want := [keySize]byte(secret[half*keySize:])
			for range 5 {
				if got := combine(some(r, shares, c.t, half)); got != want {
					t.Errorf("%d of %d shares open as %x, want %x", c.t, c.n, got, want)
				}
			}
			if c.t > 1 && combine(some(r, shares, c.t-1, half)) == want {
				t.Errorf("%d of %d shares open the secret, which needs %d", c.t-1, c.n, c.t)
			}
		}
	}
}

// With one share too few, each secret is as likely as another: for whatever secret
// one wishes, there is exactly one value of the missing share that gives it.
func TestOneShareTooFewTellsNothing(t *testing.T) {
	shares := make([][pairSize]byte, 9)
	if err := split(&[pairSize]byte{42}, 5, shares, newStream([keySize]byte{})); err != nil {
		t.Fatal(err)
	}
	points := some(rand.New(rand.NewPCG(3, 4)), shares[:8], 4, 0)
	points = append(points, point{x: 9})
	seen := [256]bool{}
	for y := range 256 {
		points[4].y[0] = byte(y)
		seen[combine(points)[0]] = true
	}
	for secret, possible := range seen {
		if !possible {
			t.Errorf("4 shares of 5 rule out %d as the first byte", secret)
		}
	}
}

func BenchmarkShamir(b *testing.B) {
	const t, n = 50, 100
	secret, shares, s := [pairSize]byte{}, make([][pairSize]byte, n), newStream([keySize]byte{})
	b.Run("split two secrets 50 of 100", func(b *testing.B) {
		for b.Loop() {
			if err := split(&secret, t, shares, s); err != nil {
				b.Fatal(err)
			}
		}
	})
	points := some(rand.New(rand.NewPCG(1, 1)), shares, t, 0)
	b.Run("open one, 50 of 100", func(b *testing.B) {
		for b.Loop() {
			combine(points)
		}
	})
}
