package fleet_test

import (
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/wire"
)

// extremes returns what a liar sends in a round: every number of one slot at its range, each slot and sign
// in turn. In a matrix it sends the diagonal only, every other time.
func extremes(plan *local.Plan) func(round int) []int64 {
	turn := map[int]int{} // by phase
	return func(round int) []int64 {
		phase, most := plan.Phase(round), plan.RoundMaxInteger(round)
		var sent []int
		for _, i := range plan.SentSlots() {
			if plan.IsSent(phase, i) {
				sent = append(sent, i)
			}
		}
		k := turn[phase]
		turn[phase]++
		target, sign := sent[k/2%len(sent)], int64(1-2*(k%2))
		s, out := &plan.Slots[target], make([]int64, plan.UpdateLength(round)+1)
		first, each := plan.IntegersOf(round, target)
		for x := range s.Rows * s.Dim {
			if s.Rows == s.Dim && k%4 >= 2 && x/s.Dim != x%s.Dim {
				continue
			}
			for d := range each {
				out[first+d*s.Rows*s.Dim+x] = sign * most
			}
		}
		return out
	}
}

// A real coordinator, honest devices and one liar whose every number is within its range: all rounds are
// done, every model can be adopted, no round is discarded, and a restart works. Package sim measures how
// little accuracy such a liar costs.
func TestOneLiarWithinItsBound(t *testing.T) {
	const rounds = 20
	for _, name := range []string{"ials", "ials-next"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, name, "dim", "4")
			s.Rounds = rounds
			lie := extremes(simulation(t, split, s).Plan())
			dir := filepath.Join(t.TempDir(), "state")
			r := open(t, dir, split, &s)
			lied := 0
			f := r.run(func(c *fleet.Config) {
				c.Lie = func(id, round uint32, update []byte) []byte {
					if id != 3 {
						return update
					}
					lied++
					return wire.AppendUpdate(nil, lie(int(round)))
				}
			}, rounds)
			st := r.status()
			if n := f.Stats().Counted; lied < rounds || n < int64(rounds*split.Users()) {
				t.Errorf("the liar reported %d times in %d rounds, and %d reports were counted", lied, rounds, n)
			}
			if st.Counts["models_rejected"] != 0 {
				t.Errorf("%d models were rejected", st.Counts["models_rejected"])
			}
			for _, d := range f.Devices() {
				if list, err := d.Recommend(5); err != nil || list.ModelVersion != st.Version {
					t.Fatalf("a device recommends with version %d of %d: %v", list.ModelVersion, st.Version, err)
				}
			}
			r.stop()
			r = open(t, dir, split, nil)
			if got := r.status(); got.Version != st.Version || got.Round != rounds {
				t.Errorf("after a restart: version %d, round %d", got.Version, got.Round)
			}
		})
	}
}
