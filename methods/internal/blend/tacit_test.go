package blend

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/vec"
)

// globals returns zero values and sums for the slots of a method.
func globals(slots []method.Slot, items int) *method.Global {
	g := &method.Global{Items: items}
	for _, s := range slots {
		rows := s.Rows
		if s.PerItem {
			rows = items
		}
		g.Stride = append(g.Stride, vec.Pad(s.Dim))
		g.Value = append(g.Value, make([]float32, rows*vec.Pad(s.Dim)))
		g.Aggregate = append(g.Aggregate, make([]float32, rows*vec.Pad(s.Dim)))
	}
	return g
}

// A step with the sums of a pass of three rounds is the step of closed.IALS with their sum. IALS scales the sums of a
// round by the same factor.
func TestSolverStepsAsIALSDoes(t *testing.T) {
	const items, dim, users, devices = 30, 6, 40, 20
	ials := &closed.IALS{}
	param.Defaults(ials)
	ials.Dim = dim
	s := solver{dim: dim}
	whole, parts := globals(ials.Slots(items), items), globals(s.slots(items), items)
	whole.Users, whole.Devices, whole.Phase = users, devices, 1
	parts.Users = users
	r := rng.New(rng.Test, 1)
	for i := range items {
		for k := range dim {
			x := float32(r.Norm()) / 4
			whole.Value[0][i*whole.Stride[0]+k], parts.Value[solveItem][i*parts.Stride[solveItem]+k] = x, x
		}
	}
	for d := range devices {
		p, n := make([]float32, dim), float32(3+d%5)
		for k := range p {
			p[k] = float32(r.Norm())
		}
		for range int(n) {
			i := int(r.Uint32n(items - 1)) // the last item has no device
			for k := range p {
				parts.Aggregate[solveGrad][i*parts.Stride[solveGrad]+k] += p[k] / 2
			}
			parts.Aggregate[solveCount][i*parts.Stride[solveCount]]++
		}
		for a := range p {
			for b := range p {
				parts.Aggregate[solveOuter][a*parts.Stride[solveOuter]+b] += p[a] * p[b]
				parts.Aggregate[solveCurve][a*parts.Stride[solveCurve]+b] += n * p[a] * p[b]
			}
		}
		if parts.Devices++; d%7 == 6 || d == devices-1 { // the end of a round
			for _, x := range []int{solveGrad, solveOuter, solveCurve, solveCount} {
				vec.Add(parts.Aggregate[x], whole.Aggregate[x])
			}
			s.gather(parts)
			for _, x := range parts.Aggregate {
				clear(x)
			}
			parts.Devices = 0
		}
	}
	before := slices.Clone(parts.Value[solveItem])
	ials.Update(whole)
	s.step(parts)
	for i := range items {
		known := whole.Aggregate[solveCount][i*whole.Stride[solveCount]] >= few
		for k := range dim {
			want, got := whole.Value[0][i*whole.Stride[0]+k], parts.Value[solveItem][i*parts.Stride[solveItem]+k]
			if known && math.Abs(float64(want-got)) > 1e-4*(1+math.Abs(float64(want))) {
				t.Fatalf("item %d, column %d: %g, and closed.IALS has %g", i, k, got, want)
			}
			if !known && got != 0 {
				t.Errorf("item %d has few devices, and keeps a row: %g", i, got)
			}
		}
	}
	if slices.Equal(before, parts.Value[solveItem]) {
		t.Error("the step changes nothing")
	}
	if met := parts.Value[solveMet]; met[0] != 0 || met[1] != 0 || parts.Value[solveGrads][0] != 0 {
		t.Error("the sums of the pass are still there after its step")
	}
}

// In a catalogue of at most sampleSize items nothing is sampled: the gain is that of closed.RankGain.
func TestGainIsTheRankGainOfSmallCatalogues(t *testing.T) {
	const items = 150
	r := rng.New(rng.Test, 2)
	for trial := range uint32(50) {
		w := &method.Work{Items: items, Rand: r}
		target := r.Uint32n(items)
		w.Samples.Item = []uint32{target}
		for range 1 + trial%20 {
			if i := r.Uint32n(items); !slices.Contains(w.Samples.Item, i) {
				w.Samples.Item = append(w.Samples.Item, i)
			}
		}
		all := make([]float32, items)
		for i := range all {
			all[i] = float32(r.Uint32n(200)) // with ties
		}
		all[target] = float32(100 + r.Uint32n(100))
		list := withTarget(w, target)
		if len(list) != items || list[0] != target {
			t.Fatalf("%d of %d items are compared, the first is %d, want %d", len(list), items, list[0], target)
		}
		scores := make([]float32, len(list))
		for x, i := range list {
			scores[x] = all[i]
		}
		got, want := rivalsOf(w, list).gain(scores), closed.RankGain(w, all, target)
		if math.Abs(float64(got-want)) > 1e-5 {
			t.Errorf("trial %d: the gain is %g, and the RankGain %g", trial, got, want)
		}
	}
}

// The gain of a sample of a large catalogue estimates the gain among all items.
func TestGainOfASampleEstimatesThatOfTheCatalogue(t *testing.T) {
	const items, target = 40_000, 7
	w := &method.Work{Items: items, Rand: rng.New(rng.Test, 3)}
	w.Samples.Item = []uint32{target}
	all := make([]float32, items)
	for i := range all {
		all[i] = -float32(i * 7919 % items) // 0 is the best score
	}
	all[target] = -1999.5 // 2,000 of 40,000 items are above it: 4.95 of 99
	mean := 0.0
	for range 100 {
		mark := w.Mark()
		list := withTarget(w, target)
		if len(list) > sampleSize+1 {
			t.Fatalf("%d items are compared, want at most %d", len(list), sampleSize+1)
		}
		scores := make([]float32, len(list))
		for x, i := range list {
			scores[x] = all[i]
		}
		mean += float64(rivalsOf(w, list).gain(scores)) / 100
		w.Release(mark)
	}
	if want := float64(discount(4.95)); math.Abs(mean-want) > 0.02 {
		t.Errorf("the mean gain is %.3f, want about %.3f", mean, want)
	}
}

func TestSamplesAreDistinctAndAscend(t *testing.T) {
	for _, items := range []int{1, 2, 999, 1000, 1001, 54321} {
		for _, at := range []float64{0, 0.5, 0.999999} {
			w := &method.Work{Items: items}
			list := sample(w, at)
			if len(list) != min(items, sampleSize) || int(list[len(list)-1]) >= items {
				t.Fatalf("%d of %d items, the last is %d", len(list), items, list[len(list)-1])
			}
			for x := range list[1:] {
				if list[x] >= list[x+1] {
					t.Fatalf("%d items: %d is before %d", items, list[x], list[x+1])
				}
			}
		}
	}
}

// The number of a setting comes from a coordinator, which may send anything.
func TestAnyChoiceIsASetting(t *testing.T) {
	seen := map[any]bool{}
	for k := range settings {
		x, share := setting(float32(k + 1))
		seen[[2]any{x, share}] = true
	}
	if len(seen) != settings {
		t.Errorf("%d of %d settings differ", len(seen), settings)
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e9, 1e300, 0} {
		want := float32(0)
		if x > 1 {
			want = 1
		}
		if _, share := setting(float32(x)); share != want {
			t.Errorf("choice %g has share %g, want %g", x, share, want)
		}
	}
	merit := make([]float32, settings)
	merit[5], merit[9] = 3, 3
	if k := best(merit); k != 5 {
		t.Errorf("setting %d is the best, want 5", k)
	}
}

// The last round of a run chooses, if it comes after the solves, also in runs with few rounds.
func TestPhasesOfShortRuns(t *testing.T) {
	m := &Tacit{}
	param.Defaults(m)
	for rounds, want := range map[int]int{
		1: 0, 3: 2, 5: phaseSolve, 8: phaseSolve, 9: phaseChoose, 16: phaseChoose,
		17: phaseChoose, 18: phaseChoose, 800: phaseChoose,
	} {
		if got, _ := m.Phase(rounds-1, rounds); got != want {
			t.Errorf("the last of %d rounds is in phase %d, want %d", rounds, got, want)
		}
	}
}
