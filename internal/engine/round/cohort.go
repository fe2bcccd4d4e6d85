// Package round is the round engine: it picks a cohort, has a fleet visit it,
// and makes of the sums the next value of every shared slot. It knows neither
// data nor transport: in-process simulation and devices on a network are fleets.
package round

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Cohort says who takes part in a round. Its text forms are "all", "100" (so
// many, without replacement), "10%" (that share, rounded down, without
// replacement), "poisson:0.1" (each with that probability, on its own) and
// "cycle:100" (so many in turn, in an order drawn once: each device comes once in
// each pass over all) and "come:100/20" (the first so many that come by themselves, each
// once at most in so many rounds).
type Cohort struct {
	Kind  string // "all", "count", "share", "poisson", "cycle" or "come"
	Count int
	Share float64
	Every int // of "come": rounds 0 to Every-1 are an epoch, and so on; a device is in one of each at most
}

func (c Cohort) MarshalText() ([]byte, error) {
	f := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch c.Kind {
	case "count":
		return []byte(strconv.Itoa(c.Count)), nil
	case "share":
		// 7/100*100 is 7.000000000000001: one digit less than a float64 has.
		return []byte(strconv.FormatFloat(c.Share*100, 'g', 15, 64) + "%"), nil
	case "poisson":
		return []byte("poisson:" + f(c.Share)), nil
	case "cycle":
		return []byte("cycle:" + strconv.Itoa(c.Count)), nil
	case "come":
		return fmt.Appendf(nil, "come:%d/%d", c.Count, c.Every), nil
	}
	return []byte("all"), nil
}

func (c *Cohort) UnmarshalText(b []byte) error {
	s := string(b)
	bad := fmt.Errorf("want all, a count, a share such as 10%%, poisson:0.1, cycle:100 or come:100/20")
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
		n, err := strconv.Atoi(s[len("cycle:"):])
		if err != nil || n < 1 {
			return bad
		}
		*c = Cohort{Kind: "cycle", Count: n}
	case strings.HasPrefix(s, "come:"):
		x, ok := parseCome(s[len("come:"):])
		if !ok {
			return bad
		}
		*c = x
	case strings.HasSuffix(s, "%"):
		x, err := strconv.ParseFloat(s[:len(s)-1], 64)
		if err != nil || !(x > 0 && x <= 100) {
			return bad
		}
		*c = Cohort{Kind: "share", Share: x / 100}
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

// Over reports whether the cohort asks for more devices than there are. All of them come
// then.
func (c Cohort) Over(users int) bool {
	return (c.Kind == "count" || c.Kind == "cycle") && c.Count > users
}

// Expected is the expected size of a cohort.
func (c Cohort) Expected(users int) float64 {
	switch c.Kind {
	case "count", "cycle", "come":
		return float64(min(c.Count, users))
	case "share":
		return math.Max(1, math.Floor(c.Share*float64(users)+1e-9)) // 29% of 100 is 29, not 28.999999999999996
	case "poisson":
		return c.Share * float64(users)
	}
	return float64(users)
}

// Sampling is the sampler that an accountant may claim for so many users, and its rate;
// none where everybody comes, or comes in turn, or when it likes.
func (c Cohort) Sampling(users int) (account.Sampler, float64) {
	n := c.Expected(users)
	switch {
	case c.Kind == "poisson":
		return account.Poisson, c.Share
	case (c.Kind == "count" || c.Kind == "share") && n < float64(users):
		return account.WithoutReplacement, n / float64(users)
	}
	return account.None, 1
}

// Epoch is the number of rounds in which each of so many devices comes once at most: of
// a cycle, and where devices choose themselves; else 0.
func (c Cohort) Epoch(users int) int {
	if c.Come() {
		return c.Every
	}
	if c.Kind != "cycle" || users == 0 {
		return 0
	}
	n := min(c.Count, users)
	return (users + n - 1) / n
}

// Draw appends the cohort of a round to dst, ascending.
func (c Cohort) Draw(seed uint64, round, users int, dst []uint32) []uint32 {
	r := rng.New(seed, rng.Cohort, uint64(round))
	switch c.Kind {
	case "count", "share":
		// Selection sampling (Knuth's algorithm S): ascending, each subset alike.
		need := int(c.Expected(users))
		for u := 0; need > 0; u++ {
			if r.Uint32n(uint32(users-u)) < uint32(need) {
				dst = append(dst, uint32(u))
				need--
			}
		}
	case "poisson":
		for u := range users {
			if r.Float64() < c.Share {
				dst = append(dst, uint32(u))
			}
		}
	case "cycle":
		order := make([]uint32, users)
		for u := range order {
			order[u] = uint32(u)
		}
		r = rng.New(seed, rng.Cohort)
		r.Shuffle(order)
		n := min(c.Count, users)
		from := round % c.Epoch(users) * n
		dst = append(dst, order[from:min(from+n, users)]...)
		slices.Sort(dst)
	case "come":
		dst = c.come(seed, round, users, dst)
	default:
		for u := range users {
			dst = append(dst, uint32(u))
		}
	}
	return dst
}
