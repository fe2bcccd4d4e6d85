package fleet_test

import (
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// extremes returns what a liar sends in a round: every number of one slot at its range, each slot and sign
// in turn. In a matrix it sends the diagonal only, every other time.
func extremes(m method.Method, slots []method.Slot, rounds int, most int64) func(round int) []int64 {
	phased := m.(method.PhasedSlots)
	turn := map[int]int{} // by phase
	return func(round int) []int64 {
		phase, _ := phased.Phase(round, rounds)
		var sent []int
		for i, s := range slots {
			if s.Scope == method.Shared && s.Upload != method.Broadcast && phased.Transfers(phase, i) {
				sent = append(sent, i)
			}
		}
		k := turn[phase]
		turn[phase]++
		target, sign := sent[k/2%len(sent)], int64(1-2*(k%2))
		var out []int64
		for _, i := range sent {
			s := &slots[i]
			numbers := make([]int64, s.Rows*s.Dim)
			for x := range numbers {
				if i == target && (s.Rows != s.Dim || k%4 < 2 || x/s.Dim == x%s.Dim) {
					numbers[x] = sign * most
				}
			}
			if out = append(out, numbers...); s.HighPrecision {
				out = append(out, numbers...)
			}
		}
		return append(out, 0)
	}
}

// A real coordinator, honest devices and one liar whose every number is within its range: all rounds are
// done, every model can be adopted, no round is discarded, and a restart works. Package sim measures how
// little accuracy such a liar costs.
func TestOneLiarWithinItsBound(t *testing.T) {
	const rounds = 20
	for _, m := range []method.Method{&methods.IALS{}, &methods.IALSNext{}} {
		name := "ials"
		if _, is := m.(*methods.IALSNext); is {
			name = "ials-next"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, name, "dim", "4")
			s.Rounds = rounds
			slots := simulation(t, split, s).Slots()
			bound, err := privacy.NarrowBound(split.Users(), s.Bits)
			if err != nil {
				t.Fatal(err)
			}
			lie := extremes(m, slots, rounds, bound.MaxInteger)
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
