package privacy

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// What the plan prints is what the release draws.
func TestMeanNoiseIsTheSumOfItsParts(t *testing.T) {
	for _, text := range []string{
		"noise=2,clip=0.5", "noise=2,clip=3,mechanism=tree",
		"noise=2,clip=0.5,trust=local", "noise=2,clip=0.5,trust=distributed,min-devices=60",
	} {
		var p Policy
		if err := p.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		s := Run{
			Method: "m", Sends: true, Users: 700, Expected: 100, Sampler: account.None, Q: 1, Rounds: 13,
			Numbers: 1000, Mean: "fixed", Step: 1, Masked: p.Trust == Distributed,
		}
		if p.Mechanism == Tree {
			s.Epoch = 7
		}
		k, err := Build(p, s)
		if err != nil {
			t.Fatal(err)
		}
		node := k.NoiseParts(0, 100)[0]
		if got, want := k.MeanDeviation(), float64(node.Deviation)*k.Unit(0)/100; math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s: %g on the mean, and the parts have %g", text, got, want)
		}
		net := map[Node]int64{} // noise that is taken back is gone
		for round := range s.Rounds {
			for _, part := range k.NoiseParts(round, 100) {
				net[part.Node] += part.Sign
			}
		}
		square := 0.0
		for _, n := range net {
			square += float64(n * n)
		}
		if got, want := k.ModelDeviation(), k.MeanDeviation()*math.Sqrt(square); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %g in the model, and the parts of all rounds have %g", text, got, want)
		}
	}
}
