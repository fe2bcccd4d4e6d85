package local_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// drawn lists the negatives of a task.
func (r *harness) drawn(t *local.Task) (out []uint32) {
	for _, raw := range r.DrawSamples(t) {
		if raw&vec.Positive == 0 {
			out = append(out, raw)
		}
	}
	return out
}

func TestNegativesAreNeverOfTheDeviceOrHidden(t *testing.T) {
	const items = 90
	r := setUp(t, newDual(4), local.Options{Items: items, Negatives: 3})
	g := rng.New(rng.Test)
	for id := range 600 {
		task := randomTask(&g, id, items, 1+id%(items-10)) // from much left to draw to nearly nothing
		free := pool(task, items)
		got := r.drawn(task)
		if want := 3 * len(task.Train); len(got) != want && len(free) > 0 {
			t.Fatalf("device %d draws %d negatives for %d positives, want %d", id, len(got), len(task.Train), want)
		}
		for _, item := range got {
			if !slices.Contains(free, item) {
				t.Fatalf("device %d draws item %d, which it has or must not see", id, item)
			}
		}
	}
}

// With one positive there is one group. If the pool is not larger than the
// group, the group is the pool.
func TestNegativesOfOnePositiveAreDistinct(t *testing.T) {
	for _, c := range []struct{ items, hidden, negatives int }{
		{40, 5, 4}, {40, 35, 4}, {40, 36, 3}, {9, 0, 8}, {400, 395, 4}, {40, 0, 30},
	} {
		r := setUp(t, newDual(4), local.Options{Items: c.items, Negatives: c.negatives})
		task := &local.Task{Train: []uint32{0}}
		for i := range c.hidden {
			task.Hide[0] = append(task.Hide[0], uint32(i))
		}
		for task.Round = range 200 {
			got := r.drawn(task)
			slices.Sort(got)
			if len(slices.Compact(slices.Clone(got))) != c.negatives {
				t.Fatalf("%+v, round %d: negatives %v, want %d distinct ones", c, task.Round, got, c.negatives)
			}
		}
	}
}

func TestASmallPoolIsDrawnWithRepetitions(t *testing.T) {
	r := setUp(t, newDual(4), local.Options{Items: 10, Negatives: 4})
	task := &local.Task{Train: []uint32{0, 1, 2, 3, 4, 5, 6}, Hide: [2][]uint32{{7}}}
	seen := map[uint32]int{}
	for task.Round = range 50 {
		for _, item := range r.drawn(task) {
			seen[item]++
		}
	}
	if len(seen) != 2 || seen[8]+seen[9] != 50*28 {
		t.Errorf("from a pool of 8 and 9 it draws %v, want %d of the two", seen, 50*28)
	}
}

// Every item of the pool is drawn alike: where most items are free, where few are,
// and with the distinct groups of both. Counts of draws without replacement within
// a group, so scaled, are chi-square; the bound is Wilson and Hilferty's at 4.9
// standard deviations, a false alarm once in two million seeds, and seeds are fixed.
func TestNegativesAreUniformOverThePool(t *testing.T) {
	for _, c := range []struct{ items, free int }{{60, 50}, {60, 20}, {60, 7}, {60, 5}, {200, 24}} {
		const negatives, rounds = 4, 3000
		r := setUp(t, newDual(4), local.Options{Items: c.items, Negatives: negatives})
		task := &local.Task{Train: []uint32{1, 3, 5}}
		all := pool(task, c.items)
		for k := range len(all) - c.free { // hidden items all over the catalogue
			task.Hide[k%2] = append(task.Hide[k%2], all[(k*7)%len(all)])
		}
		free := pool(task, c.items)
		if len(free) != c.free {
			t.Fatalf("%+v: the pool has %d items", c, len(free))
		}
		counts := map[uint32]float64{}
		for task.Round = range rounds {
			for _, item := range r.drawn(task) {
				counts[item]++
			}
		}
		groups, n := float64(rounds*len(task.Train)), float64(len(free))
		p, chi := negatives/n, 0.0
		for _, item := range free {
			d := counts[item] - groups*p
			chi += d * d / (groups * p * (1 - p)) * (n - 1) / n
		}
		k := n - 1
		if bound := k * math.Pow(1-2/(9*k)+4.9*math.Sqrt(2/(9*k)), 3); chi > bound {
			t.Errorf("%+v: chi-square over %d items is %.1f, want at most %.1f", c, len(free), chi, bound)
		}
	}
}

// Positives stand anywhere among the negatives: the mean place of a positive is
// the middle, to five standard deviations (a false alarm in 1 of 1.7 million seeds),
// and every place is taken alike (chi-square as above).
func TestPositivesStandAnywhereInTheOrder(t *testing.T) {
	m := newDual(4)
	const rounds, n = 2000, 20
	counts := make([]float64, n)
	m.seen = func(_ *method.Work, b *method.Batch) {
		for x, y := range b.Y {
			if y == 1 {
				counts[b.Lo+x]++
			}
		}
	}
	r := setUp(t, m, local.Options{Items: 50, Negatives: 4})
	st := r.mem.NewState(nil)
	task := &local.Task{Train: []uint32{4, 9, 14, 19}}
	for task.Round = range rounds {
		r.Visit(&st, task, 0, false)
	}
	chi, p := 0.0, 4.0/n
	for _, c := range counts {
		chi += (c - rounds*p) * (c - rounds*p) / (rounds * p * (1 - p)) * (n - 1) / n
	}
	const k = n - 1
	if bound := k * math.Pow(1-2.0/(9*k)+4.9*math.Sqrt(2.0/(9*k)), 3); chi > bound {
		t.Errorf("chi-square over places is %.1f, want at most %.1f: %v", chi, bound, counts)
	}
}

func TestNegativesAreWhatAVisitDraws(t *testing.T) {
	m := newDual(4)
	var got, own []uint32
	m.seen = func(_ *method.Work, b *method.Batch) {
		for x, item := range b.Item {
			if b.Y[x] == 0 {
				got = append(got, item)
			} else {
				own = append(own, item)
			}
		}
	}
	for _, plain := range []bool{false, true} {
		r := setUp(t, m, local.Options{Items: 70, Negatives: 4, Plain: plain})
		g := rng.New(rng.Test, 2)
		for id := range 100 {
			task := randomTask(&g, id, 70, 30)
			st := r.mem.NewState(nil)
			got, own = nil, nil
			r.Visit(&st, task, 0, false)
			want := r.drawn(task)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("plain %v, device %d: the visit has negatives %v, Negatives says %v", plain, id, got, want)
			}
			mine := slices.Sorted(slices.Values(task.Train))
			if slices.Sort(own); !slices.Equal(own, mine) {
				t.Fatalf("plain %v, device %d: the visit has positives %v, want %v", plain, id, own, mine)
			}
		}
	}
}

func TestSamplesAreNamedBySeedRoundAndDevice(t *testing.T) {
	r := setUp(t, newDual(4), local.Options{Items: 300, Negatives: 4})
	other := setUp(t, newDual(4), local.Options{Items: 300, Negatives: 4, Seed: 99})
	task := func(round, id int) *local.Task {
		return &local.Task{Round: round, Device: uint32(id), Train: []uint32{1, 2, 3, 4, 5}}
	}
	a := r.drawn(task(1, 1))
	r.drawn(task(7, 3))
	if again := r.drawn(task(1, 1)); !slices.Equal(a, again) {
		t.Errorf("the same device and round draws %v, then %v", a, again)
	}
	for what, b := range map[string][]uint32{
		"another round": r.drawn(task(2, 1)), "another device": r.drawn(task(1, 2)),
		"another seed": other.drawn(task(1, 1)),
	} {
		if slices.Equal(a, b) {
			t.Errorf("%s draws the same negatives", what)
		}
	}
}
