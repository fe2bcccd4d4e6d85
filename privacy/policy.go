// Package privacy is the checked stack between what a device has learnt and what
// anybody sees of it: a bound on an update, integers, cover for which rows were
// touched, noise, and what all that costs. A stack that would leak, or count noise
// twice, does not build, and says what to add. What an epsilon holds against is a
// named setting, and is printed with it.
package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/param"
)

// Trust says who adds the noise, and so against whom an epsilon holds.
type Trust string

const (
	Central     Trust = "central"     // the coordinator adds it: holds against whoever reads models
	Distributed Trust = "distributed" // each device adds a share, under masks: holds against the coordinator too
	Local       Trust = "local"       // each device adds all of it: holds against anybody who sees an update
)

// Holds says in words against whom.
func (t Trust) Holds() string {
	switch t {
	case Distributed:
		return "the coordinator and all who read models, where sums are masked and the least number of devices is " +
			"honest"
	case Local:
		return "everybody, the coordinator included"
	}
	return "all who read models; the coordinator is trusted"
}

// Mechanism names the noise.
type Mechanism string

const (
	Gauss   Mechanism = "gauss"   // discrete Gaussian noise on each round's sum
	Tree    Mechanism = "tree"    // on sums of rounds (DP-FTRL): no sampling is assumed
	Laplace Mechanism = "laplace" // local only
)

// Policy is what a run promises, and how. Its text form is a list such as
// "epsilon=8,delta=1e-6,clip=0.5"; "none" is no promise.
type Policy struct {
	Epsilon, Delta float64 // the budget; an Epsilon of 0 is none, and then Noise must be given
	Noise          float64 // multiplier of the sensitivity; 0 means calibrated to the budget
	Clip, Row      float64
	Against        Trust
	Mechanism      Mechanism
	Adjacency      string // zero-out, replace-one, or empty for what the cohort's sampler asks for
	Adaptive       string // off, geometric (Andrew et al. 2021) or linear (as PrivRec has it)
	Quantile, Rate float64
	BitNoise       float64 // deviation on the count of unclipped devices; 0 means a twentieth of the cohort
	Balance        float64 // PrivRec's h instead of BitNoise; 0 for none
	Least          int     // the fewest devices in a release, and of distributed noise the fewest honest ones
	NoiseCohort    int     // add the noise of a mean over so many devices; 0 for those that there are
	Metrics        float64 // noise multiplier of metrics that the federation releases; 0 releases none
	Cover          string  // dense, buckets:N or decoys:N
	Accountant     string  // rdp or pld
	Printed        bool    // PrivRec's algorithm 2 with its slips, which void the promise
}

// On reports whether anything is promised.
func (p Policy) On() bool { return p.Against != "" }

// Default is what a policy starts from.
func Default() Policy {
	return Policy{
		Delta: 1e-6, Clip: 1, Against: Central, Mechanism: Gauss, Adaptive: "off", Quantile: 0.5, Rate: 0.2,
		Least: 1, Cover: "dense", Accountant: "rdp",
	}
}

// AsPrinted is the policy with PrivRec's algorithm 2 as its paper prints it: gamma .9 and h .7.
// The paper gives no rate of the bound (its alpha4); this one makes the first step of
// its linear rule as long as that of the geometric one.
func (p Policy) AsPrinted() Policy {
	p.Adaptive, p.Quantile, p.Balance, p.BitNoise, p.Printed = "linear", 0.9, 0.7, 0, true
	p.Rate *= p.Clip
	return p
}

// field is one key of the text form.
type field struct {
	key, about string
	number     func(p *Policy) *float64
	whole      func(p *Policy) *int
	word       func(p *Policy) *string
	choices    string
}

var fields = []field{
	{
		key: "epsilon", about: "the budget: training stops before it would be passed; without one, noise must be given",
		number: func(p *Policy) *float64 { return &p.Epsilon },
	},
	{
		key: "delta", about: "the chance that the promise does not cover; below 1 / users",
		number: func(p *Policy) *float64 { return &p.Delta },
	},
	{
		key: "noise", about: "deviation over the sensitivity; without it, the least that keeps epsilon for all rounds",
		number: func(p *Policy) *float64 { return &p.Noise },
	},
	{
		key: "clip", about: "the longest that a device's update may be; with adaptive, at the start",
		number: func(p *Policy) *float64 { return &p.Clip },
	},
	{
		key:    "row-clip",
		about:  "the longest that one row of it may be, before the whole is bounded; without it, no bound",
		number: func(p *Policy) *float64 { return &p.Row },
	},
	{
		key: "against", about: "whom the epsilon holds against",
		word: func(p *Policy) *string { return (*string)(&p.Against) }, choices: "central distributed local",
	},
	{
		key: "mechanism", about: "the noise; tree is DP-FTRL and wants cohort=cycle:N or cohort=come:N/E, laplace " +
			"wants against=local", word: func(p *Policy) *string { return (*string)(&p.Mechanism) },
		choices: "gauss tree laplace",
	},
	{
		key: "adjacency", about: "which change of a user must not show; without it zero-out, and replace-one where a " +
			"cohort is a count or a share", word: func(p *Policy) *string { return &p.Adjacency },
		choices: "zero-out replace-one",
	},
	{
		key: "adaptive", about: "the rule by which clip moves to a quantile of the updates' lengths",
		word: func(p *Policy) *string { return &p.Adaptive }, choices: "off geometric linear",
	},
	{key: "quantile", about: "that quantile", number: func(p *Policy) *float64 { return &p.Quantile }},
	{key: "clip-rate", about: "how fast clip moves", number: func(p *Policy) *float64 { return &p.Rate }},
	{key: "bit-noise", about: "deviation of the noise on the count of unclipped devices; without it, a twentieth of " +
		"the cohort", number: func(p *Policy) *float64 { return &p.BitNoise }},
	{
		key: "balance", about: "PrivRec's h, the share of the budget that the count takes, instead of bit-noise",
		number: func(p *Policy) *float64 { return &p.Balance },
	},
	{
		key: "least", about: "the fewest devices in a release; of distributed noise, the fewest honest ones",
		whole: func(p *Policy) *int { return &p.Least },
	},
	{key: "noise-cohort", about: "simulate the noise of a mean over so many devices; without it, over those that " +
		"there are", whole: func(p *Policy) *int { return &p.NoiseCohort }},
	{
		key: "metrics", about: "noise multiplier of metrics that are released in evaluated rounds; without it, none are",
		number: func(p *Policy) *float64 { return &p.Metrics },
	},
	{
		key: "cover", about: "what hides the touched rows: dense (all rows are sent), buckets:N or decoys:N",
		word: func(p *Policy) *string { return &p.Cover },
	},
	{
		key: "accountant", about: "how the cost is added up", word: func(p *Policy) *string { return &p.Accountant },
		choices: "rdp pld",
	},
	{key: "as-printed", about: "PrivRec's algorithm 2 with its slips, which void the promise; wants " +
		"adaptive=linear,balance=0.7", word: nil, choices: "yes no"},
}

// Key is one of the text form.
type Key struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Default string   `json:"default"` // empty where something else decides it, which About says
	Choices []string `json:"choices,omitempty"`
}

// Keys lists those of the text form.
func Keys() []Key {
	var out []Key
	d := Default()
	for i := range fields {
		f := &fields[i]
		k := Key{Name: f.key, About: f.about, Default: f.get(&d), Choices: strings.Fields(f.choices)}
		if k.Default == "0" { // it means that none was given
			k.Default = ""
		}
		out = append(out, k)
	}
	return out
}

func (f *field) get(p *Policy) string {
	switch {
	case f.number != nil:
		return strconv.FormatFloat(*f.number(p), 'g', -1, 64)
	case f.whole != nil:
		return strconv.Itoa(*f.whole(p))
	case f.word != nil:
		return *f.word(p)
	case p.Printed:
		return "yes"
	}
	return "no"
}

func (f *field) set(p *Policy, value string) (err error) {
	if f.choices != "" && !slices.Contains(strings.Fields(f.choices), value) {
		return fmt.Errorf("%s is %q: want one of %s", f.key, value, strings.ReplaceAll(f.choices, " ", ", "))
	}
	switch {
	case f.number != nil:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0 && x <= 1e12) {
			return fmt.Errorf("%s is %q: want a number from 0 to 1e12", f.key, value)
		}
		*f.number(p) = x
	case f.whole != nil:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 1e9 {
			return fmt.Errorf("%s is %q: want a whole number from 0 to 1e9", f.key, value)
		}
		*f.whole(p) = n
	case f.word != nil:
		*f.word(p) = value
	default:
		p.Printed = value == "yes"
	}
	return nil
}

// MarshalText writes what differs from the default.
func (p Policy) MarshalText() ([]byte, error) {
	if !p.On() {
		return []byte("none"), nil
	}
	var words []string
	d := Default()
	for i := range fields {
		if v := fields[i].get(&p); v != fields[i].get(&d) {
			words = append(words, fields[i].key+"="+v)
		}
	}
	return []byte(strings.Join(words, ",")), nil
}

// UnmarshalText reads the text form.
func (p *Policy) UnmarshalText(b []byte) error {
	if len(b) == 0 || string(b) == "none" {
		*p = Policy{}
		return nil
	}
	q := Default()
	seen := map[string]bool{}
	for word := range strings.SplitSeq(string(b), ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if !ok || at < 0 {
			var keys []string
			for _, k := range fields {
				keys = append(keys, k.key)
			}
			if near := param.Nearest(key, keys); near != "" && near != key {
				return fmt.Errorf("%q is not a setting of dp; did you mean %s? tacit privacy keys lists them", word,
					near)
			}
			return fmt.Errorf("%q is not a setting of dp: want none, or a list such as epsilon=8,delta=1e-6; tacit "+
				"privacy keys lists what it may say", word)
		}
		if seen[key] {
			return fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := fields[at].set(&q, value); err != nil {
			return err
		}
	}
	if err := q.Check(); err != nil {
		return err
	}
	*p = q
	return nil
}

// Check reports what of a policy makes no sense on its own; Build checks it against
// a run.
func (p Policy) Check() error {
	if !p.On() {
		return nil
	}
	switch {
	case p.Epsilon == 0 && p.Noise == 0:
		return errors.New("dp wants a budget or noise: add epsilon=8, or noise=1")
	case !(p.Delta > 0 && p.Delta < 1):
		return fmt.Errorf("delta is %g: want above 0 and below 1, such as 1e-6", p.Delta)
	case p.Clip == 0:
		return errors.New("noise means nothing without a bound on an update: add clip=1")
	case !(p.Clip >= leastClip && p.Clip <= mostClip):
		return fmt.Errorf("clip is %g: want %g to %g", p.Clip, leastClip, mostClip)
	case p.Row != 0 && !(p.Row >= leastClip && p.Row <= mostClip):
		return fmt.Errorf("row-clip is %g: want %g to %g", p.Row, leastClip, mostClip)
	case p.Mechanism == Laplace && p.Against != Local:
		return errors.New("mechanism=laplace is what each device adds: add against=local")
	case p.Mechanism == Tree && p.Against != Central:
		return fmt.Errorf("mechanism=tree keeps noise from round to round, which only the coordinator can: leave "+
			"out against=%s", p.Against)
	case !(p.Quantile > 0 && p.Quantile < 1):
		return fmt.Errorf("quantile is %g: want above 0 and below 1", p.Quantile)
	case p.Balance >= 1:
		return fmt.Errorf("balance is %g: want above 0 and below 1", p.Balance)
	case p.Balance > 0 && p.BitNoise > 0:
		return errors.New("balance and bit-noise are two ways to say the same: leave one out")
	case p.Printed && (p.Adaptive != "linear" || p.Balance == 0):
		return errors.New("as-printed is PrivRec's algorithm 2: add adaptive=linear,balance=0.7")
	case p.Adaptive != "off" && p.Mechanism != Gauss:
		return fmt.Errorf("adaptive=%s shares one noise with the model's: leave out mechanism=%s", p.Adaptive,
			p.Mechanism)
	case p.Adaptive != "off" && p.Against == Local:
		return errors.New("adaptive clipping needs a count of devices, which local noise drowns: leave adaptive " +
			"out, or against=local")
	case p.Metrics > 0 && p.Against != Central:
		return fmt.Errorf("metrics=%g is noise that the coordinator adds, who would see the metrics without it: "+
			"leave out metrics, or against=%s", p.Metrics, p.Against)
	case p.Least < 1:
		return fmt.Errorf("least is %d: want 1 or more", p.Least)
	}
	_, err := p.Covers()
	return err
}

// A bound on an update lies between these, wherever it adapts to.
const leastClip, mostClip = 1e-9, 1e9

// ceil rounds up to a whole number of 64 bits.
func ceil(x float64) int64 { return int64(math.Ceil(x)) }
