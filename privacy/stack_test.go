package privacy

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

func setting() Run {
	return Run{
		Method: "fedmf", Sends: true, Users: 1000, Expected: 100, Sampler: account.Poisson, Q: 0.1,
		Rounds: 50, Numbers: 3200, Mean: "fixed", Step: 1,
	}
}

func policy(t *testing.T, text string) Policy {
	t.Helper()
	var p Policy
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func TestPolicyTextRoundTrips(t *testing.T) {
	for _, text := range []string{
		"none", "epsilon=8", "epsilon=3,delta=1e-05,clip=0.5,trust=distributed,min-devices=50",
		"noise=1,clip=35,adaptive=linear,quantile=0.9,clip-rate=1,balance=0.7,as-printed=yes",
	} {
		p := policy(t, text)
		b, _ := p.MarshalText()
		if string(b) != text {
			t.Errorf("%q became %q", text, b)
		}
	}
	old := policy(t, "epsilon=3,against=distributed,least=50")
	if b, _ := old.MarshalText(); string(b) != "epsilon=3,trust=distributed,min-devices=50" {
		t.Errorf("the old spelling of two keys became %q", b)
	}
	for text, want := range map[string]string{
		"epsilon=8,trust=local,against=local": "twice",
		"epsilon":                             "epsilon needs a value, such as epsilon=8",
		"eps=8":                               "did you mean epsilon",
		"clip=1,mech=tree":                    "did you mean mechanism",
		"epsilom=8":                           "unknown dp setting",
		"epsilon=8,epsilon=9":                 "twice",
		"epsilon=-1":                          "must be a number",
		"epsilon=NaN":                         "must be a number",
		"delta=1e-6":                          "budget or a noise multiplier",
		"epsilon=8,clip=0":                    "clip=1",
		"epsilon=8,delta=1":                   "delta",
		"epsilon=8,mechanism=laplace":         "trust=local",
		"epsilon=8,trust=me":                  "one of",
		"epsilon=8,as-printed=yes":            "as-printed=yes requires",
		"epsilon=8,cover=hat":                 "cover",
		"epsilon=8,balance=0.5,bit-noise=1":   "remove one",
	} {
		var p Policy
		if err := p.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %q", text, err, want)
		}
	}
}

func TestAStackThatWouldLeakDoesNotBuild(t *testing.T) {
	for _, c := range []struct {
		policy string
		change func(s *Run)
		want   string
	}{
		{"epsilon=8", func(s *Run) { s.Central = true }, "trains on pooled data"},
		{"epsilon=8", func(s *Run) { s.Sends = false }, "sends nothing"},
		{"epsilon=8", func(s *Run) { s.Mean = "row" }, "mean=fixed"},
		{"epsilon=8,delta=0.01", nil, "1/users"},
		{"epsilon=8,mechanism=tree", nil, "cohort=cycle"},
		{"epsilon=8", func(s *Run) { s.Epoch, s.Sampler = 10, account.None }, "mechanism=tree"},
		{
			"epsilon=8", func(s *Run) { s.Epoch, s.Sampler, s.SelfSelected = 10, account.None, true },
			"cannot assume sampling",
		},
		{"epsilon=8,mechanism=tree,adjacency=replace-one", func(s *Run) {
			s.Epoch, s.Sampler, s.SelfSelected = 10,
				account.None, true
		}, "zero-out"},
		{"epsilon=8,trust=distributed,min-devices=50", nil, "--secagg on"},
		{"epsilon=8,trust=distributed,min-devices=50,cover=decoys:3", func(s *Run) { s.Masked = true }, "every row"},
		{"epsilon=8,trust=local,cover=buckets:9", nil, "every row"},
		{"epsilon=8,trust=distributed,min-devices=500", func(s *Run) { s.Masked = true }, "min-devices=500"},
		{"epsilon=8,noise-cohort=50", nil, "smaller than the cohort"},
		{"epsilon=0.01,adaptive=geometric", nil, "bit-noise="},
	} {
		s := setting()
		if c.change != nil {
			c.change(&s)
		}
		if _, err := Build(policy(t, c.policy), s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q", c.policy, err, c.want)
		}
	}
	for _, c := range []struct {
		trust  Trust
		stages []stage
		ok     bool
	}{
		{Central, []stage{stageClip, stageQuantise, stageSum, stageNoise, stageDivide}, true},
		{Central, []stage{stageQuantise, stageSum, stageNoise, stageDivide}, false},
		// noise on floats is not exact
		{Central, []stage{stageClip, stageSum, stageNoise, stageDivide}, false},
		// divided by a count
		{Central, []stage{stageClip, stageQuantise, stageSum, stageNoise}, false},
		// twice
		{Central, []stage{stageClip, stageQuantise, stageSum, stageNoise, stageNoise, stageDivide}, false},
		// twice
		{
			Central,
			[]stage{stageClip, stageQuantise, stageDense, stageOwnNoise, stageSum, stageNoise, stageDivide},
			false,
		},
		// clipped after noise
		{
			Central,
			[]stage{stageClip, stageQuantise, stageDense, stageOwnNoise, stageClip, stageSum, stageDivide},
			false,
		},
		// a share alone hides nobody
		{Distributed, []stage{stageClip, stageQuantise, stageDense, stageNoiseShare, stageSum, stageDivide}, false},
		{
			Distributed,
			[]stage{stageClip, stageQuantise, stageDense, stageNoiseShare, stageMask, stageSum, stageDivide},
			true,
		}, //
		// which rows shows
		{Distributed, []stage{stageClip, stageQuantise, stageNoiseShare, stageMask, stageSum, stageDivide}, false},
		// the coordinator's noise is not distributed
		{
			Distributed,
			[]stage{stageClip, stageQuantise, stageDense, stageMask, stageSum, stageNoise, stageDivide},
			false,
		},
		{Local, []stage{stageClip, stageQuantise, stageDense, stageOwnNoise, stageSum, stageDivide}, true}, //
		// the coordinator's noise is not local
		{Local, []stage{stageClip, stageQuantise, stageDense, stageSum, stageNoise, stageDivide}, false},
	} {
		err := checkStages(c.trust, c.stages...)
		if (err == nil) != c.ok {
			t.Errorf("%s %v: %v", c.trust, names(c.stages), err)
		}
	}
}

func names(stages []stage) (out []string) {
	for _, s := range stages {
		out = append(out, s.name)
	}
	return out
}

// What is promised is what the noise is worth: the deviation against the longest
// update, put back into the accountant.
func TestNoiseOfAStackMeetsItsEpsilon(t *testing.T) {
	for _, c := range []struct {
		policy string
		change func(s *Run)
	}{
		{"epsilon=8", nil},
		{"epsilon=1", nil},
		{"epsilon=8,adaptive=geometric", nil},
		{"epsilon=8,adaptive=geometric,balance=0.3", nil},
		{"epsilon=8", func(s *Run) { s.Sampler = account.WithoutReplacement }},
		{"epsilon=8,adaptive=geometric", func(s *Run) { s.Sampler = account.WithoutReplacement }},
		{"epsilon=20,trust=distributed,min-devices=60", func(s *Run) { s.Masked = true }},
		{"epsilon=50,trust=local", nil},
		{"epsilon=8,mechanism=tree", func(s *Run) { s.Sampler, s.Q, s.Epoch = account.None, 1, 10 }},
	} {
		s := setting()
		if c.change != nil {
			c.change(&s)
		}
		k, err := Build(policy(t, c.policy), s)
		if err != nil {
			t.Errorf("%s: %v", c.policy, err)
			continue
		}
		bound := k.Bound(0)
		sens, half := bound.Sensitivity(s.Numbers), 0.5
		if k.Adjacency == account.ReplaceOne {
			sens, half = 2*sens, 1
		}
		dev := float64(k.NoiseParts(0, k.MinDevices)[0].Deviation) // with the fewest devices there may be
		z := dev / sens
		if k.Adaptive != "off" {
			z = account.Joint(z, float64(k.countDeviation(0))/(half*BitLevels))
		}
		var spent account.Spent
		spent.Options = k.Options()
		for round := range s.Rounds {
			e, spends, err := k.Spends(round)
			if err != nil {
				t.Fatal(err)
			}
			if spends {
				e.Noise = min(e.Noise, z) // what was drawn may be more, never less
				if err := spent.Spend(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := spent.Epsilon(k.Delta)
		if err != nil {
			t.Fatal(err)
		}
		if r.Epsilon > k.Epsilon*(1+1e-9) || r.Epsilon < 0.98*k.Epsilon {
			t.Errorf("%s: the noise that is drawn (%.4g times the sensitivity) is worth epsilon %.4f", c.policy, z,
				r.Epsilon)
		}
	}
}

// A prefix sum of releases holds the noise of its nodes once each, and no other.
func TestTreeNoiseIsThatOfPrefixSums(t *testing.T) {
	s := setting()
	s.Sampler, s.Q, s.Epoch, s.Rounds = account.None, 1, 13, 40
	k, err := Build(policy(t, "epsilon=8,mechanism=tree"), s)
	if err != nil {
		t.Fatal(err)
	}
	in := map[Node]int64{}
	for round := range s.Rounds {
		for _, p := range k.NoiseParts(round, 100) {
			in[p.Node] += p.Sign
		}
		count := 0
		for node, n := range in {
			if n != 0 && n != 1 {
				t.Fatalf("round %d has the noise of %+v %d times", round, node, n)
			}
			if n == 1 && node.Tree == round/s.Epoch {
				count++
			}
		}
		if want := popcount(round%s.Epoch + 1); count != want {
			t.Errorf("round %d has the noise of %d nodes of its tree, want %d", round, count, want)
		}
	}
}

func popcount(n int) (c int) {
	for ; n > 0; n &= n - 1 {
		c++
	}
	return c
}

// vectors reads the test vectors, where there are any.
func vectors(t *testing.T, into any) {
	path := os.Getenv("TACIT_VECTORS")
	if path == "" && os.Getenv("TACIT_DATA") != "" {
		path = filepath.Join(os.Getenv("TACIT_DATA"), "..", "vectors")
	}
	b, err := os.ReadFile(filepath.Join(path, "dp_misc.json"))
	if path == "" || err != nil {
		t.Skip("no test vectors: set TACIT_VECTORS to their folder")
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func TestTheClipFollowsThePublishedSequences(t *testing.T) {
	var v struct {
		Clip []struct {
			Rule       string
			S0         float64
			Gamma, Eta float64
			Fraction   []float64 `json:"noisy_unclipped_fraction"`
			S          []float64
		} `json:"clip_update"`
		Split struct {
			Cases []struct {
				Z, M  float64
				ZB    float64 `json:"z_b"`
				Delta float64 `json:"z_delta"`
			}
		} `json:"adaptive_clip_split"`
		Balance struct {
			Cases []struct {
				Z, H  float64
				Delta float64 `json:"z_delta"`
				True  float64 `json:"z_eff_true_sensitivity_1_over_M"`
			}
		} `json:"dp_privrec_balance"`
	}
	vectors(t, &v)
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }
	for _, c := range v.Clip {
		clip := c.S0
		for i, within := range c.Fraction {
			clip = nextClip(c.Rule, clip, within, c.Gamma, c.Eta)
			if !near(clip, c.S[i+1]) {
				t.Errorf("%s: step %d gives %v, want %v", c.Rule, i, clip, c.S[i+1])
			}
		}
	}
	for _, c := range v.Split.Cases {
		k := &Stack{Policy: Policy{Adaptive: "geometric", BitNoise: c.ZB}, Noise: c.Z, Adjacency: account.ZeroOut}
		if vector, _, err := k.split(c.Z); err != nil || !near(vector, c.Delta) {
			t.Errorf("z=%v, z_b=%v: %v (%v), want %v", c.Z, c.ZB, vector, err, c.Delta)
		}
	}
	for _, c := range v.Balance.Cases {
		k := &Stack{
			Policy: Policy{Adaptive: "linear", Balance: c.H, Printed: true}, Noise: c.Z,
			Adjacency: account.ReplaceOne,
		}
		vector, bit, err := k.split(c.Z)
		if err != nil || !near(vector, c.Delta) {
			t.Errorf("z=%v, h=%v: %v (%v), want %v", c.Z, c.H, vector, err, c.Delta)
		}
		if z := account.Joint(vector, bit); !near(z, c.True) { // one device moves the count by 1
			t.Errorf("z=%v, h=%v: what is printed is worth %v, want %v", c.Z, c.H, z, c.True)
		}
	}
	if len(v.Clip) == 0 || len(v.Split.Cases) == 0 || len(v.Balance.Cases) == 0 {
		t.Error("the vectors have other names")
	}
}

func TestCoverHoldsEveryTouchedRow(t *testing.T) {
	touched := []uint32{3, 4, 17, 90}
	for text, want := range map[string]int{"dense": 100, "buckets:10": 30, "decoys:4": 20, "decoys:90": 100} {
		c, err := Policy{Cover: text}.Covers()
		if err != nil {
			t.Fatal(err)
		}
		got := c.Rows(touched, 100, seeded(3))
		if len(got) != want {
			t.Errorf("%s sends %d rows, want %d", text, len(got), want)
		}
		in := map[uint32]bool{}
		for i, r := range got {
			if in[r] = true; i > 0 && r <= got[i-1] {
				t.Errorf("%s: rows do not ascend at %d", text, i)
			}
		}
		for _, r := range touched {
			if !in[r] {
				t.Errorf("%s leaves out row %d", text, r)
			}
		}
		if (c.reveals() == "") != (text == "dense") {
			t.Errorf("%s: says that it leaks %q", text, c.reveals())
		}
	}
}
