package vec

import "math"

// PullRates holds the constants of Pull. A table with a keep factor of 1 and a rate of 0 does
// not change.
type PullRates struct {
	KeepC, RateC float32 // first table: factor after weight decay, and learning rate
	KeepD, RateD float32 // second table
	Apart        float32 // weight of (d-c)
	L1, L2       float32 // weights of sign(c) and of c
}

// Pull takes one step of gradient descent on rows pos of two tables, c and d, whose sum is
// scored with u. Row x of the list occurs n[x] times in the batch, and s[x] is the sum of the
// gradients of its logits:
//
//	c = keepC*c - rateC*(s*u + n*apart*(d-c) + n*l1*sign(c) + n*l2*c)
//	d = keepD*d - rateD*(s*u - n*apart*(d-c))
//
// It adds n*(d-c)^2, n*|c| and, unless l2 is 0, n*c^2 of the old rows to sums, lane by lane. The
// positions must be distinct.
func Pull(c, d []float32, stride int, pos []uint32, s, n, u []float32, k *PullRates, sums *[3 * Lanes]float32) {
	if len(u) != stride || len(s) != len(pos) || len(n) != len(pos) {
		panic(badLength)
	}
	if pullSIMD(c, d, stride, pos, s, n, u, k, sums) {
		return
	}
	for x, p := range pos {
		pullTwin(row(c, stride, p), row(d, stride, p), s[x], n[x], u, k, sums)
	}
}

func pullTwin(c, d []float32, s, n float32, u []float32, k *PullRates, sums *[3 * Lanes]float32) {
	apart, l1, l2 := float32(n*k.Apart), float32(n*k.L1), float32(n*k.L2)
	var square, size, power [Lanes]float32
	for i := range u {
		e := d[i] - c[i]
		square[i%Lanes] += float32(e * e)
		size[i%Lanes] += math.Float32frombits(math.Float32bits(c[i]) &^ (1 << 31))
		e = float32(apart * e)
		t := float32(u[i] * s)
		gc, gd := t+e, t-e
		sign := float32(0)
		if c[i] != 0 {
			sign = math.Float32frombits(math.Float32bits(l1) | math.Float32bits(c[i])&(1<<31))
		}
		gc += sign
		if k.L2 != 0 {
			power[i%Lanes] += float32(c[i] * c[i])
			gc += float32(l2 * c[i])
		}
		c[i] = float32(k.KeepC*c[i]) - float32(k.RateC*gc)
		d[i] = float32(k.KeepD*d[i]) - float32(k.RateD*gd)
	}
	for l := range Lanes {
		sums[l] += float32(n * square[l])
		sums[Lanes+l] += float32(n * size[l])
		sums[2*Lanes+l] += float32(n * power[l])
	}
}
