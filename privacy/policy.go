// Package privacy is the checked pipeline between a device's local delta and what
// anyone else sees of it: clip the delta, turn it into integers, hide which rows it
// touches, add noise, and account for the cost. Build refuses a stack that would leak
// or that would count noise twice, and says what to add. It never draws randomness by
// itself and never stores anything. Convention: a Policy is what the user asks for, a
// Stack is a Policy checked against a run.
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

// Trust says who adds the noise, and therefore against whom an epsilon holds.
type Trust string

const (
	Central     Trust = "central"     // the coordinator adds it: protects against readers of models
	Distributed Trust = "distributed" // each device adds a share, under masks: protects against the coordinator too
	Local       Trust = "local"       // each device adds all of it: protects against anyone who sees an update
)

// Against describes in words against whom the guarantee holds.
func (t Trust) Against() string {
	switch t {
	case Distributed:
		return "the coordinator and all readers of models, if sums are masked and the minimum number of devices is " +
			"honest"
	case Local:
		return "everyone, including the coordinator"
	}
	return "all readers of models; the coordinator is trusted"
}

// Mechanism names the noise.
type Mechanism string

const (
	Gauss   Mechanism = "gauss"   // discrete Gaussian noise on each round's sum
	Tree    Mechanism = "tree"    // on prefix sums of rounds (DP-FTRL): assumes no sampling
	Laplace Mechanism = "laplace" // local only
)

// Policy is the privacy guarantee that the user asks for, and how to reach it. Its text
// form is a list such as "epsilon=8,delta=1e-6,clip=0.5"; "none" asks for no guarantee.
type Policy struct {
	Epsilon, Delta float64 // the budget; if Epsilon is 0 there is no budget and Noise must be set
	Noise          float64 // noise multiplier; 0 calibrates it to the budget
	Clip, RowClip  float64
	Trust          Trust
	Mechanism      Mechanism
	Adjacency      string // zero-out, replace-one, or empty for the one that the sampler requires
	Adaptive       string // off, geometric (Andrew et al. 2021) or linear (PrivRec)
	Quantile, Rate float64
	BitNoise       float64 // deviation of the noise on the count of unclipped devices; 0 means cohort/20
	Balance        float64 // PrivRec's h, used instead of BitNoise; 0 for none
	MinDevices     int     // fewest devices in a release; with distributed noise, fewest honest ones
	NoiseCohort    int     // add the noise of a mean over this many devices; 0 for the real number
	Metrics        float64 // noise multiplier of released metrics; 0 releases none
	Cover          string  // dense, buckets:N or decoys:N
	Accountant     string  // rdp or pld
	Printed        bool    // PrivRec's algorithm 2 as printed; its errors void the guarantee
}

// On reports whether the policy asks for a guarantee.
func (p Policy) On() bool { return p.Trust != "" }

// defaultPolicy has the default of every key.
func defaultPolicy() Policy {
	return Policy{
		Delta: 1e-6, Clip: 1, Trust: Central, Mechanism: Gauss, Adaptive: "off", Quantile: 0.5, Rate: 0.2,
		MinDevices: 1, Cover: "dense", Accountant: "rdp",
	}
}

// AsPrinted returns the policy with PrivRec's algorithm 2 as printed in its paper: gamma .9
// and h .7. The paper gives no rate for the clipping bound (its alpha4); ours makes the
// first step of the linear rule as long as that of the geometric one.
func (p Policy) AsPrinted() Policy {
	p.Adaptive, p.Quantile, p.Balance, p.BitNoise, p.Printed = "linear", 0.9, 0.7, 0, true
	p.Rate *= p.Clip
	return p
}

// field is one key of the text form. Old is an earlier spelling that is still read.
type field struct {
	key, old, about string
	number          func(p *Policy) *float64
	whole           func(p *Policy) *int
	word            func(p *Policy) *string
	choices         string
}

var fields = []field{
	{
		key: "epsilon", about: "privacy budget: training stops before it would be exceeded; if not set, noise must be",
		number: func(p *Policy) *float64 { return &p.Epsilon },
	},
	{
		key: "delta", about: "probability that the guarantee fails; must be below 1 / users",
		number: func(p *Policy) *float64 { return &p.Delta },
	},
	{
		key: "noise", about: "noise multiplier; by default the smallest that keeps epsilon for all rounds",
		number: func(p *Policy) *float64 { return &p.Noise },
	},
	{
		key: "clip", about: "clipping bound: the largest norm of an update; with adaptive, the first one",
		number: func(p *Policy) *float64 { return &p.Clip },
	},
	{
		key:    "row-clip",
		about:  "largest norm of a single row, applied before clip; by default rows are not clipped",
		number: func(p *Policy) *float64 { return &p.RowClip },
	},
	{
		key: "trust", old: "against", about: "who adds the noise, and so against whom the epsilon holds",
		word: func(p *Policy) *string { return (*string)(&p.Trust) }, choices: "central distributed local",
	},
	{
		key: "mechanism",
		about: "noise: tree is DP-FTRL and requires cohort=cycle:N or checkin:N/E; laplace requires " +
			"trust=local", word: func(p *Policy) *string { return (*string)(&p.Mechanism) },
		choices: "gauss tree laplace",
	},
	{
		key: "adjacency", about: "which change of one user's data is hidden; by default zero-out, or replace-one if " +
			"the " +
			"cohort is a count or a percentage", word: func(p *Policy) *string { return &p.Adjacency },
		choices: "zero-out replace-one",
	},
	{
		key: "adaptive", about: "rule that moves clip towards a quantile of the update norms",
		word: func(p *Policy) *string { return &p.Adaptive }, choices: "off geometric linear",
	},
	{
		key: "quantile", about: "target quantile of adaptive clipping",
		number: func(p *Policy) *float64 { return &p.Quantile },
	},
	{
		key: "clip-rate", about: "learning rate of adaptive clipping",
		number: func(p *Policy) *float64 { return &p.Rate },
	},
	{
		key: "bit-noise", about: "deviation of the noise on the count of unclipped devices; by default cohort / 20",
		number: func(p *Policy) *float64 { return &p.BitNoise },
	},
	{
		key: "balance", about: "PrivRec's h: fraction of the budget for that count; replaces bit-noise",
		number: func(p *Policy) *float64 { return &p.Balance },
	},
	{
		key: "min-devices", old: "least", about: "fewest devices in a release; with trust=distributed, fewest " +
			"honest ones",
		whole: func(p *Policy) *int { return &p.MinDevices },
	},
	{
		key: "noise-cohort", about: "simulate the noise of a mean over this many devices; by default the real number",
		whole: func(p *Policy) *int { return &p.NoiseCohort },
	},
	{
		key: "metrics", about: "noise multiplier of metrics released in evaluated rounds; by default none are released",
		number: func(p *Policy) *float64 { return &p.Metrics },
	},
	{
		key: "cover", about: "how touched rows are hidden: dense (all rows are sent), buckets:N or decoys:N",
		word: func(p *Policy) *string { return &p.Cover },
	},
	{
		key: "accountant", about: "how the privacy cost is composed",
		word:    func(p *Policy) *string { return &p.Accountant },
		choices: "rdp pld",
	},
	{key: "as-printed", about: "PrivRec's algorithm 2 as printed, whose errors void the guarantee; requires " +
		"adaptive=linear,balance=0.7", word: nil, choices: "yes no"},
}

// Key describes one key of a policy's text form.
type Key struct {
	Name    string   `json:"name"`
	About   string   `json:"about"`
	Default string   `json:"default"` // empty if About says how it is chosen
	Choices []string `json:"choices,omitempty"`
}

// Keys lists the keys of the text form.
func Keys() []Key {
	var out []Key
	d := defaultPolicy()
	for i := range fields {
		f := &fields[i]
		k := Key{Name: f.key, About: f.about, Default: f.get(&d), Choices: strings.Fields(f.choices)}
		if k.Default == "0" { // not set
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

// example is a value that a user might type.
func (f *field) example() string {
	switch {
	case f.choices != "":
		return strings.Fields(f.choices)[0]
	case f.key == "cover":
		return "dense"
	case f.key == "delta":
		return "1e-6"
	case f.whole != nil:
		return "50"
	}
	return "8"
}

func (f *field) set(p *Policy, value string) (err error) {
	if f.choices != "" && !slices.Contains(strings.Fields(f.choices), value) {
		return fmt.Errorf("%s=%s: must be one of %s", f.key, value, strings.ReplaceAll(f.choices, " ", ", "))
	}
	switch {
	case f.number != nil:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0 && x <= 1e12) {
			return fmt.Errorf("%s=%s: must be a number from 0 to 1e12", f.key, value)
		}
		*f.number(p) = x
	case f.whole != nil:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 1e9 {
			return fmt.Errorf("%s=%s: must be a whole number from 0 to 1e9", f.key, value)
		}
		*f.whole(p) = n
	case f.word != nil:
		*f.word(p) = value
	default:
		p.Printed = value == "yes"
	}
	return nil
}

// MarshalText writes the keys that differ from their defaults.
func (p Policy) MarshalText() ([]byte, error) {
	if !p.On() {
		return []byte("none"), nil
	}
	var words []string
	d := defaultPolicy()
	for i := range fields {
		f := &fields[i]
		if v := f.get(&p); v != f.get(&d) {
			words = append(words, f.key+"="+v)
		}
	}
	return []byte(strings.Join(words, ",")), nil
}

// UnmarshalText parses the text form.
func (p *Policy) UnmarshalText(b []byte) error {
	if len(b) == 0 || string(b) == "none" {
		*p = Policy{}
		return nil
	}
	q := defaultPolicy()
	seen := map[string]bool{}
	for word := range strings.SplitSeq(string(b), ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key || f.old != "" && f.old == key })
		if at >= 0 && !ok {
			return fmt.Errorf("dp setting %s needs a value, such as %s=%s", key, fields[at].key, fields[at].example())
		}
		if at < 0 {
			var keys []string
			for _, k := range fields {
				keys = append(keys, k.key)
			}
			near := param.Nearest(key, keys)
			if near == "" && len(key) > 1 {
				if i := slices.IndexFunc(keys, func(k string) bool { return strings.HasPrefix(k, key) }); i >= 0 {
					near = keys[i]
				}
			}
			if near != "" {
				return fmt.Errorf("unknown dp setting %q; did you mean %s? (tacit privacy keys lists them)", word, near)
			}
			return fmt.Errorf("unknown dp setting %q: expected none, or a list such as epsilon=8,delta=1e-6 "+
				"(tacit privacy keys lists them)", word)
		}
		key = fields[at].key
		if seen[key] {
			return fmt.Errorf("%s is set twice", key)
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

// Check reports the first contradiction within a policy. Build checks it against a run.
func (p Policy) Check() error {
	if !p.On() {
		return nil
	}
	switch {
	case p.Epsilon == 0 && p.Noise == 0:
		return errors.New("dp requires a budget or a noise multiplier: add epsilon=8, or noise=1")
	case !(p.Delta >= minDelta && p.Delta < 1):
		return fmt.Errorf("delta=%g: must be at least %g and below 1, such as 1e-6", p.Delta, minDelta)
	case p.Clip == 0:
		return errors.New("clip=0: noise requires a clipping bound; add clip=1")
	case !(p.Clip >= minClip && p.Clip <= maxClip):
		return fmt.Errorf("clip=%g: must be %g to %g", p.Clip, minClip, maxClip)
	case p.RowClip != 0 && !(p.RowClip >= minClip && p.RowClip <= maxClip):
		return fmt.Errorf("row-clip=%g: must be %g to %g", p.RowClip, minClip, maxClip)
	case p.Mechanism == Laplace && p.Trust != Local:
		return errors.New("mechanism=laplace is added by each device: add trust=local")
	case p.Mechanism == Tree && p.Trust != Central:
		return fmt.Errorf("mechanism=tree reuses noise across rounds, which only the coordinator can do: remove "+
			"trust=%s", p.Trust)
	case !(p.Quantile > 0 && p.Quantile < 1):
		return fmt.Errorf("quantile=%g: must be above 0 and below 1", p.Quantile)
	case p.Balance >= 1:
		return fmt.Errorf("balance=%g: must be above 0 and below 1", p.Balance)
	case p.Balance > 0 && p.BitNoise > 0:
		return errors.New("balance and bit-noise set the same noise: remove one")
	case p.Printed && (p.Adaptive != "linear" || p.Balance == 0):
		return errors.New("as-printed=yes requires adaptive=linear,balance=0.7")
	case p.Adaptive != "off" && p.Mechanism != Gauss:
		return fmt.Errorf("adaptive=%s requires mechanism=gauss: remove mechanism=%s", p.Adaptive,
			p.Mechanism)
	case p.Adaptive != "off" && p.Trust == Local:
		return errors.New("adaptive clipping requires a count of devices, which local noise drowns: remove adaptive " +
			"or trust=local")
	case p.Metrics > 0 && p.Trust != Central:
		return fmt.Errorf("metrics=%g: the coordinator adds this noise and would see the exact metrics; "+
			"remove metrics or trust=%s", p.Metrics, p.Trust)
	case p.Metrics > maxMetrics:
		return fmt.Errorf("metrics=%g: must be at most %d, a noise multiplier beyond which metrics say nothing",
			p.Metrics, maxMetrics)
	case p.MinDevices < 1:
		return fmt.Errorf("min-devices=%d: must be 1 or more", p.MinDevices)
	}
	_, err := p.Covers()
	return err
}

// A clipping bound, adapted or not, lies between these.
const minClip, maxClip = 1e-9, 1e9

// minDelta is the smallest delta. The tails of the noise are cut off where a share of it allows.
const minDelta = 1e-30

// maxMetrics is the largest noise multiplier of released metrics. Its noise is within the range of the
// exact sampler, and an evaluation with more of it says nothing.
const maxMetrics = 1000

// ceil rounds up to an integer, at most 2^62: a deviation that an integer cannot hold must not become a
// small one.
func ceil(x float64) int64 {
	const most = 1 << 62
	if !(x < most) {
		return most
	}
	return int64(math.Ceil(x))
}
