package aggregate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Noise is what each device adds to every number it sends, on its own. Its text
// forms are "none", "laplace:SCALE" and "gauss:DEVIATION". What it is worth as
// privacy is another question: without a bound on an update, nothing.
type Noise struct {
	Kind  string
	Scale float64
}

// On reports whether there is any.
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
		return fmt.Errorf("want none, laplace:SCALE such as laplace:0.3, or gauss:DEVIATION")
	}
	*n = Noise{kind, x}
	return nil
}

// AddSum adds to the first dim numbers of each row what the noises of so many
// devices amount to. Only the sum is ever used, so it is drawn at once, from its
// exact distribution: a Laplace variable is the difference of two exponential
// ones, and a sum of n of these is a gamma variable of shape n.
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

// gamma draws from the gamma distribution of a whole shape (Marsaglia and Tsang
// 2000).
func gamma(r *rng.Rand, shape int) float64 {
	d := float64(shape) - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Norm()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(v*v) * v
		u := 1 - r.Float64() // in (0, 1]
		if rng.Log(u) < float64(0.5*float64(x*x))+float64(d*(1-v))+float64(d*rng.Log(v)) {
			return float64(d * v)
		}
	}
}
