package fleet_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/fleet"
)

// Devices that check in by themselves give the model of a simulation with the same cohorts, bit by bit, masked
// or not. No device is counted twice in an epoch, and epsilon is that of the plan.
func TestDevicesThatCheckInByThemselves(t *testing.T) {
	for name, masked := range map[string]bool{"plain": false, "masked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, "pfedrec", "dim", "4")
			if err := s.DP.UnmarshalText([]byte("epsilon=30,delta=1e-3,clip=0.5,mechanism=tree")); err != nil {
				t.Fatal(err)
			}
			count, every := 6, 3
			if masked { // an exact sum begins with at least 14 devices
				count, every = 14, 2
			}
			s.Cohort = round.Cohort{Kind: "checkin", Count: count, Every: every}
			s.Rounds, s.Masked = 5, masked
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			var mu sync.Mutex
			late := map[[2]int]bool{}
			r.run(func(c *fleet.Config) {
				c.CheckInEvery = 30 * time.Millisecond
				c.Late = func(id, round uint32) {
					mu.Lock()
					defer mu.Unlock()
					late[[2]int{int(round), int(id)}] = true
				}
			}, uint32(s.Rounds))
			last, came := map[uint32]int{}, make([][]uint32, s.Rounds)
			for t0 := range s.Rounds {
				a, err := r.admin.Counted(context.Background(), uint32(t0))
				if err != nil || !a.Closed || len(a.DeviceIDs) > count || len(a.DeviceIDs) == 0 {
					t.Fatalf("round %d has %v, %v", t0+1, a, err)
				}
				for _, id := range a.DeviceIDs {
					if before, again := last[id]; again && before/every == t0/every {
						t.Errorf("id %d is in rounds %d and %d of one epoch", id, before+1, t0+1)
					}
					last[id] = t0
					delete(late, [2]int{t0, int(id)}) // it was late for one attempt only
				}
				came[t0] = a.DeviceIDs
			}
			for at := range late {
				came[at[0]] = append(came[at[0]], uint32(at[1]))
				slices.Sort(came[at[0]])
			}
			run := simulation(t, split, s)
			run.Replay(func(t int, dst []uint32) []uint32 { return append(dst, came[t]...) },
				func(t, user int) bool { return late[[2]int{t, user}] })
			same(t, r.newest(), finished(t, run))
			if got, want := *r.status().Epsilon, run.Stack().Total.Epsilon; math.Abs(got/want-1) > 1e-12 {
				t.Errorf("epsilon %g is spent, and the plan has %g", got, want)
			}
		})
	}
}
