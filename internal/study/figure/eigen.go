package figure

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
)

// Spectrum says over how many dimensions a table is spread.
type Spectrum struct {
	Rows     int
	Singular []float64 // of the centred table, largest first
	// EffectiveRank is exp of the entropy of the singular values as shares of their
	// sum (Roy and Vetterli 2007): from 1 to Dim.
	EffectiveRank float64
	// Abundance is the sum of the singular values over the largest (information
	// abundance, Guo et al., ICML 2024): from 1 to Dim.
	Abundance float64
	// Participation is (sum v)^2 / sum v^2 of the variances v: from 1 to Dim.
	Participation float64
}

// SpectrumOf measures a table, centred: without that the largest value is often
// just the mean row. A table of equal rows has no spread, and zeros for measures.
func SpectrumOf(r Rows) Spectrum {
	values, _ := learn.Eigen(r.scatter(r.mean()), r.Dim)
	s := Spectrum{Rows: r.N}
	sum, squares, fourth := 0.0, 0.0, 0.0
	for _, v := range values {
		v = math.Max(v, 0) // rounding
		s.Singular = append(s.Singular, math.Sqrt(v))
		sum += math.Sqrt(v)
		squares += v
		fourth += v * v
	}
	if !(sum > 0) {
		return s
	}
	entropy := 0.0
	for _, x := range s.Singular {
		if p := x / sum; p > 0 {
			entropy -= p * math.Log(p)
		}
	}
	s.EffectiveRank, s.Abundance, s.Participation = math.Exp(entropy), sum/s.Singular[0], squares*squares/fourth
	return s
}

// PCA projects a table to its two widest directions. shares are the parts of the
// variance that they hold. The sign of a direction is that of its largest entry.
func PCA(r Rows) (xy [][2]float64, shares [2]float64) {
	mean := r.mean()
	values, vectors := learn.Eigen(r.scatter(mean), r.Dim)
	total := 0.0
	for _, v := range values {
		total += math.Max(v, 0)
	}
	xy = make([][2]float64, r.N)
	for k := range min(2, r.Dim) {
		w := vectors[k]
		big := 0
		for i := range w {
			if math.Abs(w[i]) > math.Abs(w[big])+1e-12 {
				big = i
			}
		}
		sign := math.Copysign(1, w[big])
		for i := range xy {
			for j, x := range r.Row(i) {
				xy[i][k] += sign * w[j] * (float64(x) - mean[j])
			}
		}
		if total > 0 {
			shares[k] = math.Max(values[k], 0) / total
		}
	}
	return xy, shares
}
