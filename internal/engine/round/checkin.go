package round

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// parseCheckIn reads COUNT/EVERY.
func parseCheckIn(s string) (c Cohort, ok bool) {
	first, second, found := strings.Cut(s, "/")
	count, err := strconv.Atoi(first)
	if err != nil || !found {
		return c, false
	}
	every, err := strconv.Atoi(second)
	if err != nil {
		return c, false
	}
	return Cohort{Kind: "checkin", Count: count, Every: every}, count > 0 && every > 0 && every <= maxRounds
}

// ByCheckIn reports whether devices decide when they take part.
func (c Cohort) ByCheckIn() bool { return c.Kind == "checkin" }

// Check reports why a cohort does not fit a federation of that many devices.
func (c Cohort) Check(devices int) error {
	if !c.ByCheckIn() {
		return nil
	}
	if used := min(c.Count, devices) * (c.Every - 1); used >= devices {
		return fmt.Errorf("cohort = checkin:%d/%d: each of the %d devices takes part once in %d rounds, so the "+
			"last of "+
			"these has no devices left; use fewer devices per round or fewer rounds",
			c.Count, c.Every, devices, c.Every)
	}
	return nil
}

// CheckInRate is how often a simulated device checks in, on average, in the longest time
// that a round takes. It is the odds of a uniform draw: 1 for the median device, 9 or more
// for the most active tenth, a ninth or less for the least active; the same bits everywhere.
func CheckInRate(seed uint64, device int) float64 {
	r := rng.New(seed, rng.Arrival, uint64(device))
	u := r.Float64()
	return (u + 0x1p-53) / (1 - u)
}

// simulateCheckIns appends the devices that check in during a round of a simulation. Each
// device checks in at random times, at its own rate, and skips an epoch in which it has
// taken part. A round ends when it has its count, or after time 1. No guarantee depends on
// this: the accountant does not know it.
//
// Such times have no memory, so the first one of each device in an epoch is all there is to
// draw, and a round needs nothing from the rounds before.
func (c Cohort) simulateCheckIns(seed uint64, round, devices int, dst []uint32) []uint32 {
	epoch, at := round/c.Every, round%c.Every
	when := make([]float64, devices)
	order := make([]uint32, devices)
	for u := range order {
		r := rng.New(seed, rng.Arrival, uint64(u), uint64(epoch))
		when[u] = -rng.Log(1-r.Float64()) / CheckInRate(seed, u)
		order[u] = uint32(u)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		switch {
		case when[a] < when[b] || when[a] == when[b] && a < b:
			return -1
		}
		return 1
	})
	began := 0.0
	for ; ; at-- {
		n := sort.Search(len(order), func(i int) bool { return when[order[i]] > began+1 })
		began++
		if n >= c.Count {
			n = c.Count
			began = when[order[n-1]]
		}
		if at == 0 {
			from := len(dst)
			dst = append(dst, order[:n]...)
			slices.Sort(dst[from:])
			return dst
		}
		order = order[n:]
	}
}
