package method_test

import (
	"testing"

	"github.com/tacit-rec/tacit/method"
)

// Every round belongs to the pass whose rounds PassRounds lists, and passes have nearly equal lengths.
func TestPassesDivideTheRounds(t *testing.T) {
	for passes := 1; passes <= 17; passes++ {
		for rounds := 1; rounds <= 70; rounds++ {
			checkPasses(t, rounds, passes)
		}
	}
}

func checkPasses(t *testing.T, rounds, passes int) {
	t.Helper()
	next, least, most := 0, rounds, 0
	for p := range passes {
		from, to := method.PassRounds(p, rounds, passes)
		if from != next || to < from {
			t.Fatalf("%d rounds, %d passes: pass %d has rounds %d to %d, want them to begin at %d", rounds, passes, p,
				from, to, next)
		}
		for r := from; r < to; r++ {
			pass, first, last := method.PassOf(r, rounds, passes)
			if pass != p || first != (r == from) || last != (r == to-1) {
				t.Fatalf("%d rounds, %d passes: round %d is in pass %d (first %v, last %v), want pass %d of %d to %d",
					rounds, passes, r, pass, first, last, p, from, to)
			}
		}
		next, least, most = to, min(least, to-from), max(most, to-from)
	}
	if next != rounds || most-least > 1 || rounds >= passes && least == 0 {
		t.Fatalf("%d rounds, %d passes: they end at %d, with %d to %d rounds each", rounds, passes, next, least, most)
	}
}

func TestPassScaleExtrapolates(t *testing.T) {
	for _, c := range []struct {
		users         int
		reports, want float64
	}{{100, 100, 1}, {100, 80, 1.25}, {100, 200, 0.5}, {100, 0, 0}, {100, -3, 0}} {
		if got := method.PassScale(c.users, c.reports); got != c.want {
			t.Errorf("%d users, %g reports: %g, want %g", c.users, c.reports, got, c.want)
		}
	}
}
