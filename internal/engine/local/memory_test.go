package local_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

func TestWrongMethodsAreRefused(t *testing.T) {
	slot := func(s method.Slot) *dual {
		m := newDual(4)
		m.extra = []method.Slot{s}
		return m
	}
	many := newDual(4)
	many.extra = make([]method.Slot, method.MaxSlots)
	broken := newDual(4)
	broken.err = errors.New("dim = 4: want 5")
	for want, m := range map[string]method.Method{
		`slot "empty": 0 rows of 4 numbers`:                     slot(method.Slot{Name: "empty", Dim: 4}),
		`slot "flat": 3 rows of 0 numbers`:                      slot(method.Slot{Name: "flat", Rows: 3}),
		"67 slots: must be at most 64":                          many,
		"dim = 4: want 5":                                       broken,
		`slot "item": a visit with HistoryOnly changes no rows`: past{newDual(4)},
	} {
		if _, err := local.NewPlan(m, local.Options{Items: 10, Batch: 4}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// past works on the history alone, with a table that it could only spoil.
type past struct{ *dual }

func (past) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(*method.Work) {}}
}

func TestSlotsStartAsTheySay(t *testing.T) {
	const items, dim = 800, 20 // rows of 20 in a stride of 24
	m := newDual(dim)
	table := func(name string, i method.Init) method.Slot {
		return method.Slot{Name: name, Scope: method.Server, PerItem: true, Dim: dim, Init: i}
	}
	m.extra = []method.Slot{
		table("zeros", method.Init{}),
		table("constant", method.Init{Kind: method.Constant, A: 0.25}),
		table("normal", method.Init{Kind: method.Normal, A: 0.5}),
		table("uniform", method.Init{Kind: method.Uniform, A: 0.5}),
	}
	r := setUp(t, m, local.Options{Items: items})
	// Five standard deviations: a false alarm in 1 of 800,000 seeds for any of four.
	const n = items * dim
	for slot, want := range map[int][3]float64{ // largest, variance, and the variance's own spread
		3: {0, 0, 0}, 4: {0.25, 0, 0}, 5: {5 * 0.5, 0.25, 0.25 * math.Sqrt(2.0/n)},
		6: {0.5, 0.25 / 3, 0.25 * math.Sqrt(4.0/45/n)},
	} {
		v := r.mem.Value(slot)
		sum, squares := 0.0, 0.0
		for i, x := range v {
			if i%24 >= dim {
				if x != 0 {
					t.Fatalf("slot %d: place %d is padding and holds %g", slot, i, x)
				}
				continue
			}
			if math.Abs(float64(x)) > want[0] {
				t.Fatalf("slot %d: place %d is %g, want at most %g", slot, i, x, want[0])
			}
			sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		}
		if slot == 4 {
			squares -= n * 0.0625
			sum -= n * 0.25
		}
		if math.Abs(sum/n) > 5*math.Sqrt(want[1]/n)+1e-12 || math.Abs(squares/n-want[1]) > 5*want[2]+1e-12 {
			t.Errorf("slot %d: mean %g, variance %g, want 0 and %g", slot, sum/n, squares/n, want[1])
		}
	}
	same, other := setUp(t, m, local.Options{Items: items}), setUp(t, m, local.Options{Items: items, Seed: 77})
	if !slices.Equal(same.mem.Value(0), r.mem.Value(0)) || slices.Equal(other.mem.Value(0), r.mem.Value(0)) {
		t.Error("a slot starts from its seed and from nothing else")
	}
	if slices.Equal(r.mem.Value(0)[:24], r.mem.Value(5)[:24]) {
		t.Error("two slots start from the same draw")
	}
}

func TestCollectAddsTheShardsAndClearsThem(t *testing.T) {
	r := setUp(t, newDual(5), local.Options{Items: 30, Negatives: 3})
	want := make([]float32, 30*8)
	for shard := range 2 {
		for id := range 3 {
			st := r.mem.NewState(nil)
			task := &local.Task{Device: uint32(10*shard + id), Train: []uint32{uint32(id), 9}}
			r.Visit(&st, task, shard, false)
			alone := setUp(t, newDual(5), local.Options{Items: 30, Negatives: 3})
			st = alone.mem.NewState(nil)
			alone.Visit(&st, task, 0, false)
			u := alone.Delta(0).Parts[0]
			for k, id := range u.IDs {
				for i := range 5 {
					want[int(id)*8+i] += u.Data[k*5+i]
				}
			}
		}
	}
	got := make([]float32, len(want))
	for i := range got {
		got[i] = 1 // Collect adds
	}
	for lo := 0; lo < len(got); lo += 50 { // in pieces, as lanes do
		r.mem.CollectSums(0, lo, min(lo+50, len(got)), got)
	}
	for i := range got {
		got[i]--
	}
	alike(t, "the sum of six devices", got, want, 1e-5)
	alike(t, "what is left", r.sums(0), make([]float32, len(want)), 0)
}

func TestTouchedItemsAreCountedOncePerDevice(t *testing.T) {
	for _, plain := range []bool{false, true} {
		const items = 40
		r := setUp(t, newDual(4), local.Options{Items: items, Negatives: 4, Plain: plain})
		counts, want := make([]uint32, 2*items), make([]uint32, 2*items)
		r.CountTouched(counts)
		g := rng.New(rng.Test, 9)
		for id := range 30 {
			st := r.mem.NewState(nil)
			r.Visit(&st, randomTask(&g, id, items, 20), id%2, false)
			for _, item := range r.Touched() {
				want[id%2*items+int(item)]++
			}
		}
		if !slices.Equal(counts, want) {
			t.Errorf("plain %v: counts are %v, want %v", plain, counts, want)
		}
	}
}

func TestServeSaysWhichCopyIsScored(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, serve := range []method.Serving{method.ServeGlobal, method.ServeLocal} {
			m := newDual(6)
			m.serve = serve
			r := setUp(t, m, local.Options{Items: 40, Negatives: 4, Plain: plain})
			if !r.plan.Serves(serve) || r.plan.Serves(method.ServeOther) {
				t.Errorf("the plan serves %d: %v", serve, r.plan.Serves(serve))
			}
			st := r.mem.NewState(nil)
			task := &local.Task{Train: []uint32{1, 2, 3, 3}}
			r.Visit(&st, task, 0, false)
			got := make([]float32, 40)
			r.ScoreAll(got)
			table := slices.Clone(r.mem.Value(dualItem))
			if u := r.Delta(0).Parts[0]; serve == method.ServeLocal {
				for k, id := range u.IDs {
					for i := range 6 {
						table[int(id)*8+i] += u.Data[k*6+i]
					}
				}
			}
			for i := range got {
				want := float64(st.Plain[8])
				for k := range 6 {
					want += float64(st.Plain[k]) * float64(table[i*8+k])
				}
				if !near(got[i], float32(want), 1e-4) {
					t.Fatalf("plain %v, serve %d: item %d scores %g, want %g", plain, serve, i, got[i], want)
				}
			}
			r.Prepare(&st, task) // a new download: the device's own head on the coordinator's table
			r.ScoreAll(got)
			for i := range got {
				want := float64(st.Plain[8])
				for k := range 6 {
					want += float64(st.Plain[k]) * float64(r.mem.Value(dualItem)[i*8+k])
				}
				if !near(got[i], float32(want), 1e-4) {
					t.Fatalf("plain %v, serve %d: prepared, item %d scores %g, want %g", plain, serve, i, got[i], want)
				}
			}
		}
	}
}

// A second table beside the head's, with no rule: nothing of it may change, be
// kept or be sent.
func TestATableThatIsNotTrainedIsLeftAlone(t *testing.T) {
	for _, scope := range []method.Scope{method.Shared, method.Private} {
		m := newDual(4)
		m.extra = []method.Slot{{
			Name: "side", Scope: scope, PerItem: true, Dim: 3,
			Init: method.Init{Kind: method.Normal, A: 1},
		}}
		r := setUp(t, m, local.Options{Items: 30, Negatives: 4})
		st := r.mem.NewState(nil)
		for round := range 3 {
			r.Visit(&st, &local.Task{Round: round, Train: []uint32{1, 2, 2, 3}}, 0, false)
		}
		if scope == method.Shared {
			for i, x := range r.sums(3) {
				if x != 0 {
					t.Fatalf("place %d of the table's sum is %g, want 0", i, x)
				}
			}
			continue
		}
		for at, id := range st.Tables[0].IDs {
			for k, x := range st.Tables[0].Data[at*8 : at*8+8] {
				if want := r.mem.Value(3)[int(id)*8+k]; x != want {
					t.Fatalf("private row %d place %d is %g, want %g as it was born", id, k, x, want)
				}
			}
		}
	}
}

// localTable keeps the table on the device, so no shared table has a head.
type localTable struct{ *dual }

func (m localTable) Slots(n int) []method.Slot {
	s := m.dual.Slots(n)
	s[dualItem].Scope = method.Private
	return s
}

func TestAPrivateTablePersistsAndIsNeverSent(t *testing.T) {
	const items = 700 // more than are scored at a time
	m := newDual(6)
	r := setUp(t, localTable{m}, local.Options{Items: items, Negatives: 4})
	st, other := r.mem.NewState(nil), r.mem.NewState(nil)
	before := make([]float32, items)
	for round := range 4 {
		if round > 0 {
			got := make([]float32, items)
			r.Prepare(&st, &local.Task{Train: []uint32{1}})
			r.ScoreAll(got)
			alike(t, fmt.Sprintf("scores at the start of round %d", round), got, before, 1e-5)
		}
		r.Visit(&st, &local.Task{Round: round, Train: []uint32{1, 2, 699, 2}}, 0, false)
		r.ScoreAll(before)
		if u := r.Delta(0); len(u.Parts) != 0 {
			t.Fatalf("round %d: parts %v are sent", round, u.Parts)
		}
		r.Visit(&other, &local.Task{Device: 5, Round: round, Train: []uint32{8}}, 0, false)
	}
	ids := slices.Clone(st.Tables[0].IDs)
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) || len(st.Tables[0].Data) != 8*len(ids) {
		t.Errorf("the table holds rows %v and %d numbers, want each row once", ids, len(st.Tables[0].Data))
	}
	if r.plan.BytesDown(0) != 0 || r.plan.PlainSize() != 16 || r.plan.TableStride(0) != 8 {
		t.Errorf("%d bytes down, %d floats of state, stride %d", r.plan.BytesDown(0), r.plan.PlainSize(),
			r.plan.TableStride(0))
	}
}

func TestBytesDownAreTheSharedSlots(t *testing.T) {
	m := newDual(6)
	m.extra = []method.Slot{
		{Name: "cast", Scope: method.Shared, Upload: method.Broadcast, Rows: 2, Dim: 3},
		{Name: "stat", Scope: method.Shared, Upload: method.Sum, Rows: 2, Dim: 3},
		{Name: "server", Scope: method.Server, Rows: 2, Dim: 3},
	}
	if got, want := setUp(t, m, local.Options{Items: 40}).plan.BytesDown(0), 4*(40*6+2*3); got != want {
		t.Errorf("a device downloads %d bytes, want %d: the table and what is broadcast, without padding", got, want)
	}
}

func TestAnArenaThatIsTooLargeIsRefused(t *testing.T) {
	p, err := local.NewPlan(newDual(1), local.Options{Items: 20_000_000, Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.NewMemory(p, 64, 2); err == nil || !strings.Contains(err.Error(), "an arena has at most") {
		t.Errorf("got %v, want an error before the memory is taken", err)
	}
}

var _ method.Learner = learner{}

// learner has a head and phases, and writes down the phase it sees.
type learner struct {
	*dual
	phases *[]int
}

func (m learner) Phase(round, rounds int) (int, string) { return 100*rounds + round, "" }

func (m learner) Visit(int) method.Visit {
	return learn.Epochs(1, 0, method.Step{Do: func(w *method.Work, b *method.Batch) float64 {
		*m.phases = append(*m.phases, w.Phase)
		return 0
	}})
}

func TestAVisitSeesItsPhase(t *testing.T) {
	var got []int
	r := setUp(t, learner{newDual(4), &got}, local.Options{Items: 30})
	st := r.mem.NewState(nil)
	r.Visit(&st, &local.Task{Round: 7, Train: []uint32{1}}, 0, false)
	if !slices.Equal(got, []int{1007}) {
		t.Errorf("phases are %v, want 1007: round 7 of 10", got)
	}
}
