package round

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// mostEvery is as many rounds as a run may have.
const mostEvery = 1_000_000

// parseCome reads what follows "come:".
func parseCome(s string) (c Cohort, ok bool) {
	count, every, cut := strings.Cut(s, "/")
	n, bad := strconv.Atoi(count)
	e, worse := strconv.Atoi(every)
	return Cohort{Kind: "come", Count: n, Every: e}, cut && bad == nil && worse == nil && n > 0 && e > 0 &&
		e <= mostEvery
}

// Come reports whether devices choose themselves when they take part.
func (c Cohort) Come() bool { return c.Kind == "come" }

// Check says what of a cohort does not fit so many devices.
func (c Cohort) Check(users int) error {
	if !c.Come() {
		return nil
	}
	if places := min(c.Count, users) * (c.Every - 1); places >= users {
		return fmt.Errorf("cohort=come:%d/%d: each device comes once in %d rounds, so %d of them have used up all "+
			"%d devices, and the last finds nobody: fewer in a round, or fewer rounds",
			c.Count, c.Every, c.Every, c.Every-1, users)
	}
	return nil
}

// Eager is how often a simulated device comes, on average, in the longest time that a
// round takes. The odds of a uniform draw: 1 for the device in the middle, 9 or more for
// the most eager tenth, a ninth or less for the laziest; the same bits everywhere.
func Eager(seed uint64, device int) float64 {
	r := rng.New(seed, rng.Arrival, uint64(device))
	u := r.Float64()
	return (u + 0x1p-53) / (1 - u)
}

// come appends who comes in a round of a simulation. Each device comes at random moments,
// as often as it is eager, and stays away when it has had its turn in these rounds. A round is over
// when it has its count, or when its time, which is 1, is up. No promise rests on this:
// the accountant knows nothing of it.
//
// Moments of that kind have no memory, so the first one of each device in all rounds of
// an epoch is all there is to draw, and no round needs to know of another.
func (c Cohort) come(seed uint64, round, users int, dst []uint32) []uint32 {
	epoch, at := round/c.Every, round%c.Every
	when := make([]float64, users)
	order := make([]uint32, users)
	for u := range order {
		r := rng.New(seed, rng.Arrival, uint64(u), uint64(epoch))
		when[u] = -rng.Log(1-r.Float64()) / Eager(seed, u)
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
