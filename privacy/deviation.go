package privacy

import (
	"math"
	"math/bits"
)

// MeanDeviation is the deviation of the noise on each number of the first round's mean; for a
// tree, that of one node, which takes part in several rounds.
func (k *Stack) MeanDeviation() float64 {
	d := float64(k.at(0).deviation)
	switch k.Trust {
	case Distributed:
		d = float64(k.NoiseShare(0)) * math.Sqrt(k.Expected)
	case Local:
		if d *= math.Sqrt(k.Expected); k.Mechanism == Laplace {
			d *= math.Sqrt2 // the deviation of scale 1
		}
	}
	return d * k.Unit(0) / k.Expected
}

// ModelDeviation is the deviation of the noise on each number of the model after all rounds,
// for a server rate of 1 and a constant clipping bound. For a tree it counts the nodes that
// cover the last prefix of each epoch.
func (k *Stack) ModelDeviation() float64 {
	n := k.Rounds
	if k.Mechanism == Tree {
		n = 0
		for left := k.Rounds; left > 0; left -= k.Epoch {
			n += bits.OnesCount(uint(min(left, k.Epoch)))
		}
	}
	return k.MeanDeviation() * math.Sqrt(float64(n))
}
