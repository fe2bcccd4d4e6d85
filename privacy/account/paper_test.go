package account

import (
	"fmt"
	"math"
	"testing"
)

// paperRow is a row of tables 3 and 4 of the DP-PrivRec paper, at delta 1e-8, 1e-6
// and 1e-4, and the same for the 1000 rounds that were run: the paper's numbers are those
// of 1000·M rounds. It prints four decimals, cut off.
type paperRow struct {
	cohort, users float64
	printed       [3]string
	orders        [3]float64
	right         [3]float64
	poisson       [3]float64 // the same multiplier under a Poisson sample and zero-out
}

var paperRows = []paperRow{
	{
		5, 4800,
		[3]string{"1.7439", "1.3602", "0.9764"},
		[3]float64{13, 13, 13},
		[3]float64{1.5768, 1.1931, 0.8093},
		[3]float64{1.5487, 1.1650, 0.7812},
	},
	{
		10, 4800,
		[3]string{"3.2117", "2.7511", "2.2535"},
		[3]float64{11, 11, 9},
		[3]float64{1.8863, 1.4676, 1.0490},
		[3]float64{1.7533, 1.3347, 0.9160},
	},
	{
		15, 4800,
		[3]string{"5.9705", "5.2030", "4.3074"},
		[3]float64{7, 7, 6},
		[3]float64{2.2086, 1.7481, 1.2876},
		[3]float64{1.9685, 1.5080, 1.0475},
	},
	{
		20, 4800,
		[3]string{"9.4736", "8.3223", "6.9235"},
		[3]float64{5, 5, 4},
		[3]float64{2.5821, 2.0704, 1.5587},
		[3]float64{2.2216, 1.7099, 1.1982},
	},
	{
		25, 4800,
		[3]string{"13.7047", "12.1696", "10.2052"},
		[3]float64{4, 4, 3},
		[3]float64{3.0296, 2.4674, 1.8917},
		[3]float64{2.3910, 1.8793, 1.3676},
	},
	{
		30, 4800,
		[3]string{"18.9107", "16.6081", "14.3056"},
		[3]float64{3, 3, 3},
		[3]float64{3.4140, 2.8384, 2.2599},
		[3]float64{2.6666, 2.0910, 1.5154},
	},
	{
		2, 760,
		[3]string{"2.2994", "1.8388", "1.3783"},
		[3]float64{11, 11, 11},
		[3]float64{2.0707, 1.6102, 1.1497},
		[3]float64{1.9164, 1.4559, 0.9954},
	},
	{
		5, 760,
		[3]string{"7.4618", "6.5408", "5.3932"},
		[3]float64{6, 6, 5},
		[3]float64{3.5558, 2.9802, 2.3693},
		[3]float64{2.7159, 2.1403, 1.5646},
	},
	{
		8, 760,
		[3]string{"16.2853", "14.3169", "12.0143"},
		[3]float64{4, 3, 3},
		[3]float64{5.5280, 4.7604, 3.8647},
		[3]float64{3.6508, 2.9930, 2.3351},
	},
	{
		10, 760,
		[3]string{"23.7651", "21.4626", "18.6182"},
		[3]float64{3, 3, 2},
		[3]float64{6.9473, 6.0263, 4.9054},
		[3]float64{4.4115, 3.6440, 2.8764},
	},
	{
		12, 760,
		[3]string{"34.5025", "30.0690", "25.4638"},
		[3]float64{3, 2, 2},
		[3]float64{8.4330, 7.2817, 5.9955},
		[3]float64{5.1769, 4.3575, 3.4364},
	},
	{
		15, 760,
		[3]string{"50.1537", "45.5485", "40.9433"},
		[3]float64{2, 2, 2},
		[3]float64{10.7808, 9.2607, 7.7256},
		[3]float64{6.3654, 5.4443, 4.3145},
	},
}

func TestThePapersEpsilonsToThePrintedDigit(t *testing.T) {
	o := Options{Conversion: Classic, Orders: integers(2, 64)}
	for _, row := range paperRows {
		for i, delta := range []float64{1e-8, 1e-6, 1e-4} {
			e := Event{
				Mechanism: Gaussian, Adjacency: ReplaceOne, Sampler: WithoutReplacement, Theorem: 9,
				Q: row.cohort / row.users, Noise: 1, Rounds: int64(1000 * row.cohort),
			}
			r := epsilonOf(t, delta, o, e)
			if got := fmt.Sprintf("%.4f", math.Floor(r.Epsilon*1e4)/1e4); got != row.printed[i] ||
				r.Order != row.orders[i] {
				t.Errorf("M %v of %v, delta %g: %s at order %v (%.6f), the paper prints %s, from order %v",
					row.cohort, row.users, delta, got, r.Order, r.Epsilon, row.printed[i], row.orders[i])
			}
			e.Rounds = 1000
			if got := epsilonOf(t, delta, o, e).Epsilon; math.Abs(got-row.right[i]) > 6e-5 {
				t.Errorf("M %v of %v, delta %g: %.6f for 1000 rounds, want %.4f", row.cohort, row.users, delta, got,
					row.right[i])
			}
			e = Event{Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: Poisson, Q: e.Q, Noise: 1, Rounds: 1000}
			if got := epsilonOf(t, delta, o, e).Epsilon; math.Abs(got-row.poisson[i]) > 6e-5 {
				t.Errorf("M %v of %v, delta %g: %.6f under a Poisson sample, want %.4f", row.cohort, row.users, delta,
					got, row.poisson[i])
			}
		}
	}
}
