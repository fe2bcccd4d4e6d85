// Package round is the round engine: it selects a cohort, has its devices train, and
// applies the sum of their updates to the shared slots. It knows neither data nor
// transport: a simulation and a coordinator implement Devices. Rounds count from 0.
package round

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Cohort selects the devices of a round. Its text forms are
//
//	all            every device
//	100            100 devices, drawn without replacement
//	10%            that share, rounded down, drawn without replacement
//	poisson:0.1    each device independently with that probability
//	cycle:100      100 devices in turn, in an order drawn once
//	cycle:2%       that share in turn, rounded down, but at least 14 devices
//	checkin:100/20 the first 100 that check in, each at most once in 20 rounds
//
// The last one was called come:100/20, which still parses.
type Cohort struct {
	Kind  string // "all", "count", "share", "poisson", "cycle" or "checkin"
	Count int
	Share float64
	Every int // of "checkin": rounds 0 to Every-1 are an epoch, and so on; a device takes part once per epoch
}

func (c Cohort) MarshalText() ([]byte, error) {
	f := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch c.Kind {
	case "count":
		return []byte(strconv.Itoa(c.Count)), nil
	case "share":
		return []byte(percentage(c.Share)), nil
	case "poisson":
		return []byte("poisson:" + f(c.Share)), nil
	case "cycle":
		if c.Share > 0 {
			return []byte("cycle:" + percentage(c.Share)), nil
		}
		return []byte("cycle:" + strconv.Itoa(c.Count)), nil
	case "checkin":
		return fmt.Appendf(nil, "checkin:%d/%d", c.Count, c.Every), nil
	}
	return []byte("all"), nil
}

// percentage writes a share. 7/100*100 is 7.000000000000001: one digit less than a float64 has.
func percentage(share float64) string { return strconv.FormatFloat(share*100, 'g', 15, 64) + "%" }

// parsePercentage reads what percentage writes: above 0%, and at most 100%.
func parsePercentage(s string) (share float64, ok bool) {
	digits, ok := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(digits, 64)
	return x / 100, ok && err == nil && x > 0 && x <= 100
}

func (c *Cohort) UnmarshalText(b []byte) error {
	s := string(b)
	bad := errors.New("must be all, a count, a share such as 10%, poisson:0.1, cycle:100, cycle:2% or checkin:100/20")
	switch {
	case s == "all":
		*c = Cohort{Kind: "all"}
	case strings.HasPrefix(s, "poisson:"):
		x, err := strconv.ParseFloat(s[len("poisson:"):], 64)
		if err != nil || !(x > 0 && x <= 1) {
			return bad
		}
		*c = Cohort{Kind: "poisson", Share: x}
	case strings.HasPrefix(s, "cycle:"):
		if x, ok := parsePercentage(s[len("cycle:"):]); ok {
			*c = Cohort{Kind: "cycle", Share: x}
			return nil
		}
		n, err := strconv.Atoi(s[len("cycle:"):])
		if err != nil || n < 1 {
			return bad
		}
		*c = Cohort{Kind: "cycle", Count: n}
	case strings.HasPrefix(s, "checkin:"), strings.HasPrefix(s, "come:"):
		_, rest, _ := strings.Cut(s, ":")
		x, ok := parseCheckIn(rest)
		if !ok {
			return bad
		}
		*c = x
	case strings.HasSuffix(s, "%"):
		x, ok := parsePercentage(s)
		if !ok {
			return bad
		}
		*c = Cohort{Kind: "share", Share: x}
	default:
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return bad
		}
		*c = Cohort{Kind: "count", Count: n}
	}
	return nil
}

// All reports whether every device takes part in every round.
func (c Cohort) All() bool { return c.Kind == "" || c.Kind == "all" }

// Exceeds reports whether the cohort asks for more devices than the federation has. A
// round then selects all of them.
func (c Cohort) Exceeds(devices int) bool {
	return (c.Kind == "count" || c.Kind == "cycle") && c.Count > devices
}

// Expected is the expected size of a cohort; of a cohort that takes devices in turn, the largest one.
func (c Cohort) Expected(devices int) float64 {
	switch c.Kind {
	case "count", "checkin":
		return float64(min(c.Count, devices))
	case "cycle":
		return float64(c.largestTurn(devices))
	case "share":
		return math.Max(1, c.share(devices))
	case "poisson":
		return c.Share * float64(devices)
	}
	return float64(devices)
}

// share is the number of devices that Share stands for: 29% of 100 is 29, not 28.999999999999996.
func (c Cohort) share(devices int) float64 {
	return math.Floor(float64(c.Share*float64(devices)) + 1e-9)
}

// Sampling returns the sampler that an accountant may assume, and its rate. A cohort
// that is not drawn at random in each round has none.
func (c Cohort) Sampling(devices int) (account.Sampler, float64) {
	n := c.Expected(devices)
	switch {
	case c.Kind == "poisson":
		return account.Poisson, c.Share
	case (c.Kind == "count" || c.Kind == "share") && n < float64(devices):
		return account.WithoutReplacement, n / float64(devices)
	}
	return account.None, 1
}

// Epoch is the number of rounds in which each device takes part at most once; 0 if the
// cohort has no such limit.
func (c Cohort) Epoch(devices int) int {
	if c.ByCheckIn() {
		return c.Every
	}
	if c.Kind != "cycle" {
		return 0
	}
	return c.turns(devices)
}

// Draw appends the cohort of a round to dst, ascending, in a federation whose randomness comes from a
// seed.
func (c Cohort) Draw(seed uint64, round, devices int, dst []uint32) []uint32 {
	if c.ByCheckIn() {
		return c.simulateCheckIns(seed, round, devices, dst)
	}
	return c.DrawFrom(SeedStreams(seed), round, devices, dst)
}

// DrawFrom appends the cohort of a round to dst, ascending. It cannot draw devices that check in.
func (c Cohort) DrawFrom(streams Streams, round, devices int, dst []uint32) []uint32 {
	r := streams(uint64(round))
	switch c.Kind {
	case "count", "share":
		// Selection sampling (Knuth's algorithm S): ascending, each subset equally likely.
		need := int(c.Expected(devices))
		for u := 0; need > 0; u++ {
			if r.Uint32n(uint32(devices-u)) < uint32(need) {
				dst = append(dst, uint32(u))
				need--
			}
		}
	case "poisson":
		for u := range devices {
			if r.Float64() < c.Share {
				dst = append(dst, uint32(u))
			}
		}
	case "cycle":
		from, to := c.turnBounds(round%max(1, c.turns(devices)), devices)
		dst = append(dst, cycleOrder(streams, devices)[from:to]...)
		slices.Sort(dst)
	default:
		for u := range devices {
			dst = append(dst, uint32(u))
		}
	}
	return dst
}
