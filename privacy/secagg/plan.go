package secagg

import (
	"fmt"
	"math"
)

// small is the largest cohort in which all devices are neighbours: masks are cheap there, and
// a fraction of few devices is too coarse an assumption.
const small = 100

// Risk is what a round must withstand.
type Risk struct {
	Corrupt  float64 // fraction of devices that may collude with the server
	Dropped  float64 // fraction of devices that may drop out, at any step
	Security int     // a vector is exposed with probability at most 2^-Security; 0 means 40
	Failure  int     // a round within these fractions fails with probability at most 2^-Failure; 0 means 20
	Active   bool    // the server may lie about dropouts
}

// Plan chooses the rest of the parameters: the smallest modulus that holds the
// sum, and the smallest degree and its threshold that withstand the risk.
//
// Of n devices let C collude and D drop out, independently of the graph.
// With k neighbours and threshold t, by union bounds over the devices,
//
//	a device's secrets are revealed   n * P[Hyp(n-D-1, C, k) >= t]
//	the honest rest falls apart       n^2/2 * P[k given places are among C+D]
//	a secret cannot be recovered      n * P[Hyp(n-1, D, k) > k-t]
//
// where Hyp(N, K, k) counts the members of a set of size K among k drawn from N. For the
// first line the D dropouts happen before the graph is made, which is its worst case. For
// the second, the ring falls apart only if it is cut at two places, each of k/2
// neighbours that collude or left. The first two lines are each at most
// 2^-(Security+1), the third at most 2^-Failure (Bell et al. 2020, section 3, has
// the same three events; the bounds here are ours, and computed exactly).
//
// Up to 100 devices, with Active, and if no smaller degree suffices, all devices are
// neighbours. Then no probability is involved: more than half of the shares reconstruct a
// secret, or with Active more than two thirds, and more than C devices hold.
func Plan(devices, length int, largest int64, risk Risk) (Params, error) {
	if risk.Security == 0 {
		risk.Security = 40
	}
	if risk.Failure == 0 {
		risk.Failure = 20
	}
	p := Params{Devices: devices, Length: length, Max: largest, Active: risk.Active}
	if devices < 1 || devices > maxDevices || largest < 1 {
		return p,
			fmt.Errorf("secagg: %d devices with numbers up to %d: must be 1 to %d devices and numbers up to 1 or "+
				"more", devices, largest, maxDevices)
	}
	if !(risk.Corrupt >= 0 && risk.Dropped >= 0 && risk.Corrupt+risk.Dropped < 1) || risk.Security < 1 ||
		risk.Failure < 1 {
		return p, fmt.Errorf("secagg: shares of %g corrupt and %g dropped at 2^-%d and 2^-%d: must be shares with a "+
			"sum below 1 and positive exponents", risk.Corrupt, risk.Dropped, risk.Security, risk.Failure)
	}
	p.Bits = modulusBits(devices, largest)
	if p.Bits > MaxBits {
		return p, fmt.Errorf("secagg: the sum of %d numbers up to %d would wrap: %s", devices, largest,
			suggestion(devices, largest, MaxBits))
	}
	corrupt, dropped := int(risk.Corrupt*float64(devices)), int(risk.Dropped*float64(devices))
	if devices > small && !risk.Active && p.sparse(corrupt, dropped, risk) {
		p.MinDevices = devices - dropped
		return p, p.Check()
	}
	if devices > maxHolders && risk.Active {
		return p, fmt.Errorf("secagg: %d devices against an active server: at most %d are possible; make groups",
			devices, maxHolders)
	}
	if devices > maxHolders {
		return p, fmt.Errorf("secagg: %d devices with %d corrupt and %d dropped need more than %d neighbours each; "+
			"take smaller shares, or groups of at most %d devices", devices, corrupt, dropped, maxHolders-1, maxHolders)
	}
	p.Degree, p.Threshold = devices-1, max(devices/2, corrupt)+1
	if risk.Active { // no two sets of t with only the corrupt in common: 2t > n+C
		p.Threshold = max(2*devices/3, (devices+corrupt)/2) + 1
	}
	p.MinDevices = p.Threshold
	if p.Threshold > devices-dropped {
		return p,
			fmt.Errorf("secagg: %d of %d devices must stay, and %d may leave; assume fewer that leave or collude",
				p.Threshold, devices, dropped)
	}
	return p, p.Check()
}

// sparse finds the smallest even degree below a complete graph that is safe, and the largest
// threshold at which rounds rarely fail.
func (p *Params) sparse(corrupt, dropped int, risk Risk) bool {
	n := p.Devices
	secure, fails := -float64(risk.Security+1), -float64(risk.Failure)
	union := math.Log2(float64(n))
	for k := 2; k < maxHolders && k+1 < n-dropped; k += 2 {
		if 2*union-1+allBad(n, corrupt+dropped, k) > secure {
			continue
		}
		t := k + 1 - unlikely(n-1, dropped, k, fails-union)
		if t > 0 && union+tail(n-dropped-1, corrupt, k, t) <= secure {
			p.Degree, p.Threshold = k, t
			return true
		}
	}
	return false
}

// allBad is the base-2 logarithm of the probability that k given positions of n are all
// among b.
func allBad(n, b, k int) float64 {
	sum := 0.0
	for i := range k {
		if b <= i {
			return math.Inf(-1)
		}
		sum += math.Log2(float64(b-i) / float64(n-i))
	}
	return sum
}

// tail is the base-2 logarithm of the probability that k draws without replacement from n,
// of which m are marked, contain at least a marked ones.
func tail(n, m, k, a int) float64 {
	sum := 0.0
	all := choose(n, k)
	for x := max(a, 0, k-(n-m)); x <= min(k, m); x++ {
		sum += math.Exp(choose(m, x) + choose(n-m, k-x) - all)
	}
	return math.Log2(sum)
}

// unlikely is the smallest a for which tail(n, m, k, a) is at most a limit below 0.
func unlikely(n, m, k int, limit float64) int {
	all, most := choose(n, k), math.Exp2(limit)
	a := min(k, m) + 1
	for sum := 0.0; a > 0; a-- {
		if sum += math.Exp(choose(m, a-1) + choose(n-m, k-a+1) - all); sum > most {
			break
		}
	}
	return a
}

func choose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
