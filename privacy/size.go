package privacy

import (
	"math"
	"math/bits"
)

// OnMean is the deviation of the noise on each number of the first round's mean; of a tree
// that of a node, which takes part in several rounds.
func (k *Stack) OnMean() float64 {
	d := float64(k.at(0).deviation)
	switch k.Against {
	case Distributed:
		d = float64(k.Share(0)) * math.Sqrt(k.Expected)
	case Local:
		if d *= math.Sqrt(k.Expected); k.Mechanism == Laplace {
			d *= math.Sqrt2 // the deviation of a scale of 1
		}
	}
	return d * k.Unit(0) / k.Expected
}

// InModel is the deviation of the noise on each number of the model after all rounds, for
// a coordinator's rate of 1 and a bound that stays: of a tree the nodes that cover
// the last prefix of each epoch.
func (k *Stack) InModel() float64 {
	n := k.Rounds
	if k.Mechanism == Tree {
		n = 0
		for left := k.Rounds; left > 0; left -= k.Epoch {
			n += bits.OnesCount(uint(min(left, k.Epoch)))
		}
	}
	return k.OnMean() * math.Sqrt(float64(n))
}
