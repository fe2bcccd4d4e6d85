package coordinator

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/wire"
)

// A method that counts items tells their popularity, without evaluations and also under a privacy policy: devices
// without a history have something to recommend. Items that fewer than three devices have are left out.
func TestPopularityComesFromTheModel(t *testing.T) {
	t.Parallel()
	for name, dp := range map[string]string{"exact": "", "noisy": "epsilon=5000,delta=1e-3,clip=3"} {
		t.Run(name, func(t *testing.T) {
			s := small(5)
			s.Method, s.Rounds, s.Bits, s.Params = "ials", 3, 24, map[string]string{"dim": "2"}
			if dp != "" {
				s = withDP(s, dp)
			}
			dir := filepath.Join(t.TempDir(), "state")
			r := open(t, dir, &s, nil)
			var d []*counter
			for _, h := range r.enrolled(5) {
				d = append(d, &counter{h})
			}
			// Device k has items 0 to k: five devices have item 0, one has item 4.
			r.count(d, 1)
			want := []uint32{0, 1, 2}
			check := func(when string) {
				t.Helper()
				m, _ := r.model()
				c, err := wire.ReadCatalogue(d[0].get(m.Catalogue), 10)
				if err != nil || !slices.Equal(c.Popular, want) {
					t.Errorf("%s: popular are %v (%v), want %v", when, c.GetPopular(), err, want)
				}
			}
			check("after the first round")
			r.stop()
			r = open(t, dir, nil, nil)
			if got := r.c.catalogue.Current().Popular; !slices.Equal(got, want) {
				t.Errorf("after a restart popular are %v", got)
			}
			if r.c.evaluations.Counted() {
				t.Error("devices count as asked")
			}
		})
	}
}

// counter is a device of a method that only counts in its first round.
type counter struct{ *testDevice }

// count lets devices answer the first round: device k sends 1 for items 0 to k.
func (r *harness) count(devices []*counter, rounds int) {
	r.t.Helper()
	for _, h := range devices {
		task := h.task()
		v := make([]int64, task.Length)
		unit := int64(1)
		if b := task.Bound; b.Max > 0 && r.c.engine.Stack == nil {
			unit = b.Max
		} else if b.Clip > 0 {
			unit = int64(b.Levels / b.Clip)
		}
		for i := range h.id + 1 {
			v[i] = unit
		}
		if _, err := h.Report(r.t.Context(), request(task, wire.AppendUpdate(nil, v))); err != nil {
			r.t.Fatal(err)
		}
	}
	waitFor(r.t, "the round", func() bool { return r.c.Status().Round >= rounds })
}

// With count-items devices count their items once, in a masked sum, although nobody evaluates.
func TestItemsAreCountedWithoutEvaluations(t *testing.T) {
	t.Parallel()
	s := small(12)
	s.Rounds, s.CountItems, s.Deadline = 2, true, time.Minute
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if err := r.attend(r.enrolled(12)); err != nil {
		t.Fatal(err)
	}
	if got, want := r.c.catalogue.Current().Popular, popular(idsTo(12), 10); !slices.Equal(got, want) {
		t.Errorf("popular are %v, want %v", got, want)
	}
	if n := len(r.c.Status().Evaluations); n != 0 || !r.c.evaluations.Counted() {
		t.Errorf("%d evaluations", n)
	}
	few, private := small(9), withDP(small(20), "epsilon=8,delta=1e-3")
	for _, s := range []Settings{few, private} {
		if s.CountItems = true; s.Check() == nil {
			t.Errorf("%d devices and %s may count items", s.Devices, textOf(s.DP))
		}
	}
}
