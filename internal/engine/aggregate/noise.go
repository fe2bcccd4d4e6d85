package aggregate

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Noise is what each device adds to every number that it sends. Its text forms are "none",
// "laplace:SCALE" and "gauss:DEVIATION". Without a bound on updates it guarantees no privacy.
type Noise struct {
	Kind  string
	Scale float64
}

// On reports whether devices add noise.
func (n Noise) On() bool { return n.Scale > 0 }

func (n Noise) MarshalText() ([]byte, error) {
	if n.Kind == "" || n.Kind == "none" {
		return []byte("none"), nil
	}
	return []byte(n.Kind + ":" + strconv.FormatFloat(n.Scale, 'g', -1, 64)), nil
}

func (n *Noise) UnmarshalText(b []byte) error {
	kind, scale, found := strings.Cut(string(b), ":")
	if kind == "none" && !found {
		*n = Noise{Kind: "none"}
		return nil
	}
	x, err := strconv.ParseFloat(scale, 64)
	if kind != "laplace" && kind != "gauss" || err != nil || !(x >= 0 && x < math.MaxFloat32) {
		return errors.New("must be none, laplace:SCALE such as laplace:0.3, or gauss:DEVIATION")
	}
	*n = Noise{kind, x}
	return nil
}

// AddSum adds the sum of the noise of that many devices to the first dim numbers of each row.
// It draws the sum at once, from its exact distribution: a Laplace variable is the difference
// of two exponential ones, and a sum of n exponential variables has a gamma distribution of
// shape n.
func (n Noise) AddSum(devices int, r rng.Rand, stride, dim int, sum []float32) {
	if !n.On() || devices == 0 {
		return
	}
	root := math.Sqrt(float64(devices))
	for lo := 0; lo < len(sum); lo += stride {
		row := sum[lo : lo+dim]
		for i := range row {
			var x float64
			if n.Kind == "laplace" {
				x = gamma(&r, devices) - gamma(&r, devices)
			} else {
				x = root * r.Norm()
			}
			row[i] += float32(n.Scale * x)
		}
	}
}

// gamma draws from the gamma distribution of an integer shape (Marsaglia and Tsang 2000).
func gamma(r *rng.Rand, shape int) float64 {
	d := float64(shape) - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Norm()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		u := 1 - r.Float64() // in (0, 1]
		if rng.Log(u) < float64(0.5*float64(x*x))+float64(d*(1-v))+float64(d*rng.Log(v)) {
			return float64(d * v)
		}
	}
}
