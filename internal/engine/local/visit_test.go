package local_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// The direct layout leaves rows where they are and sends changes straight to the
// sums. Copying every row and fusing nothing must end at the same place: update,
// state, tuned rows and scores, over devices of every size, with train items that
// come twice.
func TestInPlaceTrainingMatchesCopiesOfEveryRow(t *testing.T) {
	for _, dim := range []int{3, 8, 20, 32, 40} {
		const items = 60
		fast := setUp(t, newDual(dim), local.Options{Items: items, Negatives: 4})
		slow := setUp(t, newDual(dim), local.Options{Items: items, Negatives: 4, Plain: true})
		if !fast.plan.InPlace() || slow.plan.InPlace() {
			t.Fatalf("direct: %v and %v, want true and false", fast.plan.InPlace(), slow.plan.InPlace())
		}
		g := rng.New(rng.Test, uint64(dim))
		a, b := fast.mem.NewState(nil), slow.mem.NewState(nil)
		for id := range 60 {
			what := fmt.Sprintf("dim %d, device %d: ", dim, id)
			task := randomTask(&g, id, items, 1+id)
			x, y := fast.Visit(&a, task, 1, true), slow.Visit(&b, task, 1, true)
			if x.Samples != y.Samples || x.Touched != y.Touched || x.Bytes != y.Bytes || x.LossN != y.LossN ||
				!near(float32(x.Loss), float32(y.Loss), 1e-4) {
				t.Fatalf("%soutcome %+v, want %+v", what, x, y)
			}
			alike(t, what+"state", a.Plain, b.Plain, 1e-4)
			copy(a.Plain, b.Plain) // so that rounding does not add up over devices
			fast.sameScores(t, what, slow, task)
			u, v := fast.Delta(1).Parts[0], slow.Delta(1).Parts[0]
			fast.tunedIsBasePlus(t, what, &u)
			slow.tunedIsBasePlus(t, what, &v)
			if !slices.Equal(u.IDs, v.IDs) {
				t.Fatalf("%supdate of items %v, want %v", what, u.IDs, v.IDs)
			}
			alike(t, what+"update", u.Data, v.Data, 1e-4)
		}
	}
}

// sameScores compares the scores of two workers after a visit.
func (r *harness) sameScores(t *testing.T, what string, other *harness, task *local.Task) {
	t.Helper()
	n := r.plan.Items
	x, y := make([]float32, n), make([]float32, n)
	r.ScoreAll(x)
	other.ScoreAll(y)
	alike(t, what+"scores", x, y, 1e-3)
	list := append(pool(task, n), task.Train[0])
	some := make([]float32, len(list))
	r.Score(list, some)
	for k, i := range list {
		if some[k] != x[i] {
			t.Fatalf("%sitem %d scores %g in a list and %g among all", what, i, some[k], x[i])
		}
	}
}

// tunedIsBasePlus checks the tuned rows: what was downloaded plus what is sent.
func (r *harness) tunedIsBasePlus(t *testing.T, what string, u *local.Part) {
	t.Helper()
	ids, data, _ := r.TunedRows(dualItem, []uint32{99}, nil)
	if got := slices.Sorted(slices.Values(ids[1:])); !slices.Equal(got, u.IDs) || ids[0] != 99 {
		t.Fatalf("%stuned rows %v, want those of the update: %v", what, got, u.IDs)
	}
	base, stride := r.mem.Value(dualItem), vec.Pad(u.Dim)
	for x, id := range ids[1:] {
		at, _ := slices.BinarySearch(u.IDs, id)
		for k := range u.Dim {
			if got, want := data[x*stride+k], base[int(id)*stride+k]+u.Data[at*u.Dim+k]; !near(got, want, 1e-4) {
				t.Fatalf("%stuned row %d place %d is %g, want %g", what, id, k, got, want)
			}
		}
	}
}

func TestAnUpdateNamesWhatWasTouchedAndEmptiesTheSums(t *testing.T) {
	for _, plain := range []bool{false, true} {
		m := newDual(6)
		m.extra = []method.Slot{
			{Name: "cast", Scope: method.Shared, Upload: method.Broadcast, Rows: 2, Dim: 3},
			{Name: "stat", Scope: method.Shared, Upload: method.Sum, Rows: 2, Dim: 3},
			{Name: "server", Scope: method.Server, Rows: 2, Dim: 3},
			{Name: "brief", Scope: method.Ephemeral, Rows: 2, Dim: 3},
		}
		var touched []uint32
		m.seen = func(w *method.Work, b *method.Batch) {
			touched = append(touched, b.Item...)
			w.View[4].Val[8]++ // second row, first place
		}
		r := setUp(t, m, local.Options{Items: 200, Negatives: 4, Plain: plain})
		if got := r.plan.SentSlots(); !slices.Equal(got, []int{0, 4}) {
			t.Fatalf("slots %v are sent, want 0 and 4", got)
		}
		st := r.mem.NewState(nil)
		task := &local.Task{Train: []uint32{7, 3, 7, 150}}
		out := r.Visit(&st, task, 1, false)
		slices.Sort(touched)
		touched = slices.Compact(touched)
		u := r.Delta(1)
		if len(u.Parts) != 2 || u.Parts[0].Slot != 0 || u.Parts[1].Slot != 4 {
			t.Fatalf("the update is %+v", u)
		}
		if !slices.Equal(u.Parts[0].IDs, touched) || len(u.Parts[0].Data) != 6*len(touched) ||
			out.Touched != len(touched) || out.Samples != 20 {
			t.Errorf("plain %v: items %v of %d samples, %d numbers, want %v", plain, u.Parts[0].IDs, out.Samples,
				len(u.Parts[0].Data), touched)
		}
		// three batches
		if want := []float32{0, 0, 0, 3, 0, 0}; u.Parts[1].IDs != nil || !slices.Equal(u.Parts[1].Data, want) {
			t.Errorf("plain %v: the statistic is %v of rows %v, want %v, dense", plain, u.Parts[1].Data,
				u.Parts[1].IDs, want)
		}
		if out.Bytes != bytesOf(u) {
			t.Errorf("plain %v: a visit counts %d bytes, the update has %d", plain, out.Bytes, bytesOf(u))
		}
		for i, x := range slices.Concat(r.sums(0), r.sums(4)) {
			if x != 0 {
				t.Fatalf("plain %v: place %d of the sums is %g after the update was taken", plain, i, x)
			}
		}
		if n := len(st.Plain); n != 8+8 || st.Visits != 1 {
			t.Errorf("the state has %d numbers and %d visits, want 16 and 1", n, st.Visits)
		}
	}
}

func TestAnUpdateOfMostRowsIsCountedAsDense(t *testing.T) {
	r := setUp(t, newDual(8), local.Options{Items: 12, Negatives: 8})
	st := r.mem.NewState(nil)
	out := r.Visit(&st, &local.Task{Train: []uint32{0, 1, 2}}, 0, false)
	const want = 4 * 12 * 8
	if got := bytesOf(r.Delta(0)); out.Touched == 12 && (out.Bytes != want || out.Bytes >= got) {
		t.Errorf("%d touched rows of 12 count as %d bytes, want %d: with ids it would be %d", out.Touched, out.Bytes,
			want, got)
	}
}

// A late device has trained, but its delta is not counted.
func TestALateVisitChangesTheStateAndNotTheSums(t *testing.T) {
	for _, plain := range []bool{false, true} {
		m := newDual(5)
		m.decay = 0.01 // so that shrinkage is sent too
		a := setUp(t, m, local.Options{Items: 40, Negatives: 4, Plain: plain})
		b := setUp(t, m, local.Options{Items: 40, Negatives: 4, Plain: plain})
		counts := make([]uint32, 2*40)
		a.CountTouched(counts)
		x, y := a.mem.NewState(nil), b.mem.NewState(nil)
		task := &local.Task{Train: []uint32{1, 2, 3, 4}}
		for task.Round = range 3 {
			late, fine := a.Visit(&x, task, local.NotCounted, false), b.Visit(&y, task, 0, false)
			if late != fine {
				t.Errorf("the outcome is %+v, in time it is %+v", late, fine)
			}
		}
		if !slices.Equal(x.Plain, y.Plain) || x.Visits != 3 {
			t.Errorf("plain %v: the state of a late device is %v after %d visits, in time it is %v", plain, x.Plain,
				x.Visits, y.Plain)
		}
		for i, s := range a.sums(0) {
			if s != 0 {
				t.Fatalf("plain %v: place %d of the sums is %g, want nothing", plain, i, s)
			}
		}
		if s := a.mem.TakeShrinkage(0); s != 0 {
			t.Errorf("plain %v: the sum of shrinkages is %g, want 0", plain, s)
		}
		if s := b.mem.TakeShrinkage(0); !(s < -0.1) {
			t.Errorf("plain %v: in time the sum of shrinkages is %g, want it below -0.1", plain, s)
		}
		if slices.Max(counts) != 0 {
			t.Errorf("plain %v: late devices count as having touched %v", plain, counts)
		}
	}
}

func TestDeviceWithoutTrainingDataIsSkipped(t *testing.T) {
	for name, task := range map[string]*local.Task{
		"no train item":              {},
		"no train item, some hidden": {Hide: [2][]uint32{{1, 2}}},
		"no free item":               {Train: []uint32{0, 1, 2, 3}, Hide: [2][]uint32{{4, 5}, {6, 7, 8, 9}}},
		"everything is its own":      {Train: []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		for _, plain := range []bool{false, true} {
			r := setUp(t, newDual(4), local.Options{Items: 10, Negatives: 2, Plain: plain})
			other := &local.Task{Device: 9, Train: []uint32{1, 5}}
			st := r.mem.NewState(nil)
			r.Visit(&st, other, 0, false) // leaves its traces in the worker
			r.Delta(0)
			st = r.mem.NewState(nil)
			before := slices.Clone(st.Plain)
			if out := r.Visit(&st, task, 0, true); out != (local.Outcome{}) {
				t.Errorf("%s, plain %v: the outcome is %+v, want nothing", name, plain, out)
			}
			if !slices.Equal(st.Plain, before) || st.Visits != 0 {
				t.Errorf("%s, plain %v: the state has changed", name, plain)
			}
			if u := r.Delta(0); len(u.Parts[0].Data) != 0 {
				t.Errorf("%s, plain %v: the update is %+v, want it empty", name, plain, u)
			}
			if ids, _, _ := r.TunedRows(dualItem, nil, nil); len(ids) != 0 {
				t.Errorf("%s, plain %v: rows %v are tuned", name, plain, ids)
			}
			got, want := make([]float32, 10), make([]float32, 10)
			r.ScoreAll(got)
			r.Prepare(&st, task)
			r.ScoreAll(want)
			alike(t, name+": scores", got, want, 0)
			if n := len(r.drawn(task)); n != 0 {
				t.Errorf("%s: %d negatives are drawn", name, n)
			}
		}
	}
}

func TestWithoutNegativesOnlyPositivesAreLearnt(t *testing.T) {
	r := setUp(t, newDual(4), local.Options{Items: 3, Negatives: 0})
	st := r.mem.NewState(nil)
	if out := r.Visit(&st, &local.Task{Train: []uint32{0, 1, 2}}, 0, false); out.Samples != 3 || out.Touched != 3 {
		t.Errorf("three items and no negatives make %d samples of %d items, want 3 and 3", out.Samples, out.Touched)
	}
}

func TestAWorkerForgetsTheDeviceBefore(t *testing.T) {
	const items = 50
	for _, plain := range []bool{false, true} {
		used := setUp(t, newDual(8), local.Options{Items: items, Negatives: 4, Plain: plain})
		g := rng.New(rng.Test, 8)
		for id := range 40 {
			task := randomTask(&g, id, items, 25)
			for range g.Uint32n(3) { // others come first
				st := used.mem.NewState(nil)
				used.Visit(&st, randomTask(&g, 77, items, 25), 1, false)
				used.Delta(1)
			}
			fresh := setUp(t, newDual(8), local.Options{Items: items, Negatives: 4, Plain: plain})
			a, b := used.mem.NewState(nil), fresh.mem.NewState(nil)
			used.Visit(&a, task, 0, false)
			fresh.Visit(&b, task, 0, false)
			u, v := used.Delta(0).Parts[0], fresh.Delta(0).Parts[0]
			if !slices.Equal(a.Plain, b.Plain) || !slices.Equal(u.IDs, v.IDs) || !slices.Equal(u.Data, v.Data) {
				t.Fatalf("plain %v, device %d: a worker that has seen others does something else than a new one",
					plain, id)
			}
		}
	}
}

func TestTheZeroStateIsADeviceThatWasNeverVisited(t *testing.T) {
	r := setUp(t, newDual(4), local.Options{Items: 30, Negatives: 4})
	task := &local.Task{Train: []uint32{1, 2, 3}}
	other := r.mem.NewState(nil)
	r.Visit(&other, &local.Task{Device: 9, Train: []uint32{8, 9}}, 0, false) // whose values must not be found
	var zero local.State
	born := r.mem.NewState(nil)
	r.Visit(&zero, task, 1, false)
	r.Visit(&born, task, 1, false)
	if !slices.Equal(zero.Plain, born.Plain) || zero.Visits != 1 {
		t.Errorf("after a visit the zero state is %v, a born one %v", zero.Plain, born.Plain)
	}
}

// bytesOf is the size of a delta with 4 bytes for each number and each row index.
func bytesOf(d *local.Delta) (n int) {
	for _, p := range d.Parts {
		n += 4 * (len(p.Data) + len(p.IDs))
	}
	return n
}
