package sim

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/base/rng"
)

// made scores users by numbers made up from seed, user and item, with ties.
type made struct {
	levels uint32
	user   int
	row    []float32
}

func (m *made) For(u int, _ *data.Part) {
	m.user = u
	r := rng.New(rng.Test, uint64(u))
	for i := range m.row {
		m.row[i] = float32(r.Uint32n(m.levels))
	}
}

func (m *made) ScoreAll(dst []float32) { copy(dst, m.row) }

func (m *made) Score(items []uint32, dst []float32) {
	for x, i := range items {
		dst[x] = m.row[i]
	}
}

// count says how many of the items score above, and how many the same.
func count(row []float32, held int64, items []uint32) (p metrics.Rank) {
	for _, i := range items {
		switch {
		case int64(i) == held:
		case row[i] > row[held]:
			p.Above++
		case row[i] == row[held]:
			p.Ties++
		}
	}
	return p
}

// Everything is found again by counting. Full ranking leaves out the train items
// and, when testing, the validation item.
func TestRanksMatchABruteForceCount(t *testing.T) {
	for _, protocol := range []string{"paper", "isolated", "deployed", "complete", "temporal"} {
		for _, levels := range []uint32{3, 1 << 30} {
			s := small(t, protocol)
			got, err := Evaluate(context.Background(), s, 0, 3,
				func() Scorer { return &made{levels: levels, row: make([]float32, s.Items())} }, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := &made{levels: levels, row: make([]float32, s.Items())}
			var p data.Part
			for u := range s.Users() {
				s.User(u, &p)
				m.For(u, &p)
				var free []uint32
				for i := range uint32(s.Items()) {
					if !slices.Contains(p.Train, i) {
						free = append(free, i)
					}
				}
				want := func(held int64, items []uint32) metrics.Rank {
					if held == data.None {
						return metrics.Rank{Above: metrics.NotRanked}
					}
					return count(m.row, held, items)
				}
				noValid := slices.DeleteFunc(slices.Clone(free),
					func(i uint32) bool { return slices.Contains(p.Later, i) && int64(i) != p.Test })
				for what, c := range map[string][2]metrics.Rank{
					"validation": {got.Valid[u], want(p.Valid, p.Candidates[0])},
					"test":       {got.Test[u], want(p.Test, p.Candidates[1])},
				} {
					if c[0] != c[1] {
						t.Fatalf("%s, user %d, %s: place %+v, want %+v", protocol, u, what, c[0], c[1])
					}
				}
				if (got.TestFull != nil) != s.Full {
					t.Fatalf("%s: full ranking %v", protocol, got.TestFull != nil)
				}
				if !s.Full {
					continue
				}
				if got.ValidFull[u] != want(p.Valid, free) || got.TestFull[u] != want(p.Test, noValid) {
					t.Fatalf("%s, user %d, full: places %+v and %+v, want %+v and %+v", protocol, u,
						got.ValidFull[u], got.TestFull[u], want(p.Valid, free), want(p.Test, noValid))
				}
				slices.SortStableFunc(noValid, func(a, b uint32) int { return cmp.Compare(m.row[b], m.row[a]) })
				if top := got.Top[u*topK : (u+1)*topK]; !slices.Equal(top, noValid[:topK]) {
					t.Fatalf("%s, user %d: the list is %v, want %v", protocol, u, top, noValid[:topK])
				}
			}
		}
	}
}

// scored holds two rounds of PFedRec by the naive program: what user u's head
// gives each item of user v's table, after the visits of the second round.
type scored struct {
	run     *Run
	table   [][]float64
	devices []*naiveDevice
	moved   []map[uint32][]float64
}

func twoRounds(t *testing.T, infer string) *scored {
	t.Helper()
	o := defaults()
	o.Rounds, o.Batch = 2, 16
	s := &scored{run: start(t, pfedrec(t, "dim", "5", "infer", infer), small(t, "deployed"), o, 2)}
	s.table, s.devices = naiveStart(s.run)
	probe := newProbe(t, s.run)
	c := naiveConfig{lr: 0.1, itemLR: 0.1 * float64(len(s.table)) * 80, batch: 16}
	naiveRound(s.table, s.devices, func(u int) []naiveSample { return probe.samples(u, 0) },
		func(int) bool { return false }, c)
	for u, d := range s.devices {
		s.moved = append(s.moved, naiveVisit(s.table, d, probe.samples(u, 1), c))
	}
	finish(t, s.run)
	return s
}

func (s *scored) score(u, v int, item uint32) float64 {
	d := s.devices[u]
	z := d.b
	for k, x := range s.table[item] {
		if m := s.moved[v][item]; m != nil {
			x += m[k]
		}
		z += d.w[k] * x
	}
	return z
}

// fits reports whether user u's place is that by user v's table. Scores within a
// thousandth of the held-out one may be on either side.
func (s *scored) fits(u, v int, p *data.Part) bool {
	s.run.fleet.split.User(u, p)
	held, low, high := s.score(u, v, uint32(p.Test)), int32(0), int32(0)
	for _, i := range p.Candidates[1] {
		z := s.score(u, v, i)
		if z > held+1e-3 {
			low++
		}
		if z > held-1e-3 {
			high++
		}
	}
	got := s.run.eval.now.Test[u]
	return got.Above >= low && got.Above+got.Ties <= high
}

func TestTunedTablesAreScored(t *testing.T) {
	s := twoRounds(t, "own")
	var p data.Part
	for u := range s.devices {
		if !s.fits(u, u, &p) {
			t.Errorf("user %d stands at %+v, and not where the user's own table says", u, s.run.eval.now.Test[u])
		}
	}
}

// Every user gets the table of the user at a fixed distance.
func TestTablesOfOtherDevicesAreScored(t *testing.T) {
	s := twoRounds(t, "random")
	var p data.Part
	var shifts []int
	for shift := range s.devices {
		fit := 0
		for u := range s.devices {
			if s.fits(u, (u+shift)%len(s.devices), &p) {
				fit++
			}
		}
		if fit == len(s.devices) {
			shifts = append(shifts, shift)
		}
	}
	if len(shifts) != 1 || shifts[0] == 0 {
		t.Errorf("places fit the tables of users %v further, want one distance, and not 0", shifts)
	}
}

// The coordinator's new table is what a Fresh slot is measured with.
func TestFreshTablesAreScoredAfterTheServersStep(t *testing.T) {
	o := defaults()
	o.Rounds, o.Batch = 2, 16
	r := start(t, pfedrec(t, "dim", "5", "infer", "global"), small(t, "deployed"), o, 2)
	finish(t, r)
	table, devices := naiveStart(r) // as they are now
	var p data.Part
	for u, d := range devices {
		r.fleet.split.User(u, &p)
		score := func(i int64) float64 {
			z := d.b
			for k, x := range table[i] {
				z += d.w[k] * x
			}
			return z
		}
		low, high := int32(0), int32(0)
		for _, i := range p.Candidates[0] {
			if score(int64(i)) > score(p.Valid)+1e-4 {
				low++
			}
			if score(int64(i)) > score(p.Valid)-1e-4 {
				high++
			}
		}
		if got := r.eval.now.Valid[u]; got.Above < low || got.Above+got.Ties > high {
			t.Errorf("user %d: %d score above the validation item, want %d to %d", u, got.Above, low, high)
		}
	}
}

// Under paper, logits above 17 are all 1 as float32 sigmoids, and tie.
func TestOnlyThePaperProtocolSquashesScores(t *testing.T) {
	for protocol, want := range map[string]metrics.Rank{
		"paper":    {Above: 0, Ties: 2},
		"isolated": {Above: 1, Ties: 0},
	} {
		e := newEval(small(t, protocol), 0, 1)
		s := newScores(e.split)
		row := make([]float32, e.split.Items())
		row[1], row[2], row[3] = 50, 60, 40
		if got := e.sampled(&made{row: row}, &s, 1, []uint32{2, 3, 4}); e.split.Full || got != want {
			t.Errorf("%s: a logit of 50 among 60, 40 and 0 stands at %+v, want %+v", protocol, got, want)
		}
	}
}
