package round

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
)

// Whatever the arrivals, no device is in two rounds of an epoch, and no round has more
// than its count: that is all that the accountant takes for granted.
func TestDevicesThatCheckInTrainOncePerEpoch(t *testing.T) {
	for _, c := range []struct {
		text  string
		users int
	}{
		{"checkin:20/6", 200},
		{"checkin:20/10", 200},
		{"checkin:7/1", 30},
		{"checkin:50/3", 120},
		{"checkin:5/40", 300},
	} {
		k := parse(t, c.text)
		if err := k.Check(c.users); err != nil {
			t.Fatal(err)
		}
		short := 0
		for seed := range uint64(3) {
			last := map[uint32]int{}
			for round := range 4 * k.Every {
				d := k.Draw(seed, round, c.users, nil)
				if len(d) > k.Count || !slices.IsSorted(d) || len(d) > 0 && int(d[len(d)-1]) >= c.users {
					t.Fatalf("%s, round %d: %v", c.text, round, d)
				}
				if len(d) < k.Count {
					short++
				}
				for _, u := range d {
					if before, again := last[u]; again && before/k.Every == round/k.Every {
						t.Fatalf("%s: device %d comes in rounds %d and %d of one epoch", c.text, u, before, round)
					}
					last[u] = round
				}
			}
		}
		if tight := k.Count*k.Every*10 > c.users*9 && k.Every > 1; tight && short == 0 {
			t.Errorf("%s of %d: nobody is ever missing, though the laziest must come", c.text, c.users)
		}
	}
}

// The moments have no memory: who has not come yet may be drawn anew in each round. So
// a second simulation does, and both have rounds of the same size and eagerness in the mean. Each
// of 12 means of 2,000 is 5 deviations off with a chance below 6e-7; the seeds are fixed.
func TestArrivalsAreThoseOfDrawsInEachRound(t *testing.T) {
	const users, count, every, runs = 24, 5, 6, 2000
	k := Cohort{Kind: "checkin", Count: count, Every: every}
	var a, b [every][2][]float64
	note := func(to *[2][]float64, seed uint64, who []uint32) {
		eager := 0.0
		for _, u := range who {
			eager += math.Log(CheckInRate(seed, int(u)))
		}
		to[0], to[1] = append(to[0], float64(len(who))), append(to[1], eager)
	}
	for seed := range uint64(runs) {
		r, had := rng.New(rng.Test, seed), [users]bool{}
		for round := range every {
			note(&a[round], seed, k.Draw(seed, round, users, nil))
			type arrival struct {
				at  float64
				who uint32
			}
			var all []arrival
			for u := range users {
				if at := -math.Log(1-r.Float64()) / CheckInRate(seed, u); !had[u] && at <= 1 {
					all = append(all, arrival{at, uint32(u)})
				}
			}
			slices.SortFunc(all, func(x, y arrival) int { return int(math.Copysign(1, x.at-y.at)) })
			var who []uint32
			for _, x := range all[:min(count, len(all))] {
				who, had[x.who] = append(who, x.who), true
			}
			note(&b[round], seed, who)
		}
	}
	for round := range every {
		for m, what := range []string{"size", "eagerness"} {
			sum, square := 0.0, 0.0
			for i, x := range a[round][m] { // the devices of a run are the same in both
				d := x - b[round][m][i]
				sum, square = sum+d, square+d*d
			}
			if dev := math.Sqrt(square); math.Abs(sum) > 5*dev {
				t.Errorf("round %d: the mean %s differs by %.3f, which is %.1f deviations", round, what, sum/runs,
					sum/dev)
			}
		}
	}
	if first, last := mean(a[0][1]), mean(a[every-1][1]); first <= last {
		t.Errorf("the logarithms of eagerness add up to %.2f in the first round and %.2f in the last: the eager do "+
			"not come first", first, last)
	}
}

func mean(xs []float64) (m float64) {
	for _, x := range xs {
		m += x / float64(len(xs))
	}
	return m
}

func TestACohortThatLeavesRoundsWithoutDevicesIsRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"checkin:10/10": true, "checkin:10/11": false, "checkin:200/1": true,
		"checkin:200/2": false, "checkin:1/100": true, "cycle:10": true, "all": true,
	} {
		err := parse(t, text).Check(100)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "has no devices left") {
			t.Errorf("%s of 100: %v", text, err)
		}
	}
}

func TestEligibleReplacesTheDraw(t *testing.T) {
	f := &fake{users: 40, rep: Report{Devices: 1}}
	e := engine(t, f, aggregate.PerCohort)
	e.Cohort = parse(t, "checkin:5/3")
	e.Eligible = func(round int, dst []uint32) []uint32 { return append(dst, uint32(round), 39) }
	for round := range uint32(3) {
		step(t, e)
		if !slices.Equal(f.cohorts[round], []uint32{round, 39}) {
			t.Errorf("round %d has %v", round, f.cohorts[round])
		}
	}
}
