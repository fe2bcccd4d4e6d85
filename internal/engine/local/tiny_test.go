package local_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// The slots of dual: a shared table whose tuned copy is served, a vector and a bias.
const (
	dualItem = iota
	dualVector
	dualBias
)

// dual trains a bilinear head as PFedRec does. seen, if set, is told each batch.
type dual struct {
	learn.Dot
	dim   int
	extra []method.Slot
	serve method.Serving
	decay float32
	seen  func(w *method.Work, b *method.Batch)
	err   error
}

func newDual(dim int) *dual {
	return &dual{Dot: learn.Dot{Item: dualItem, Vector: dualVector, Bias: dualBias}, dim: dim, serve: method.ServeLocal}
}

func (m *dual) Check() error { return m.err }

func (m *dual) Head() *method.Head { return (*method.Head)(&m.Dot) }

func (m *dual) Slots(int) []method.Slot {
	normal := method.Init{Kind: method.Normal, A: 0.5}
	return append([]method.Slot{
		{Name: "item", Scope: method.Shared, Serve: m.serve, PerItem: true, Dim: m.dim, Init: normal},
		{Name: "vector", Scope: method.Private, Rows: 1, Dim: m.dim, Init: normal},
		{Name: "bias", Scope: method.Private, Rows: 1, Dim: 1, Init: normal},
	}, m.extra...)
}

func (m *dual) Visit(int) method.Visit {
	bce := learn.BCE(m)
	score := learn.Descend(bce, learn.SGD(dualVector, learn.Const(0.4), 0), learn.SGD(dualBias, learn.Const(0.4), 0))
	step := learn.Alternate(score, learn.Descend(bce, learn.SGD(dualItem, learn.Const(6), m.decay)))
	do := step.Do
	step.Do = func(w *method.Work, b *method.Batch) float64 {
		if m.seen != nil {
			m.seen(w, b)
		}
		return do(w, b)
	}
	return learn.Epochs(1, 0, step)
}

// harness is a worker in a memory of its own.
type harness struct {
	*local.Worker
	plan *local.Plan
	mem  *local.Memory
}

func setUp(t testing.TB, m method.Method, o local.Options) *harness {
	t.Helper()
	o.Rounds, o.Batch, o.Seed = 10, max(o.Batch, 8), max(o.Seed, 5)
	p, err := local.NewPlan(m, o)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{local.NewWorker(mem, 0), p, mem}
}

// sums collects what shards hold of a slot.
func (r *harness) sums(slot int) []float32 {
	out := make([]float32, len(r.mem.Value(slot)))
	r.mem.CollectSums(slot, 0, len(out), out)
	return out
}

// randomTask makes a device with up to n train items, some of them twice, and
// some hidden ones.
func randomTask(r *rng.Rand, id, items, n int) *local.Task {
	t := &local.Task{Device: uint32(id), Round: int(r.Uint32n(5))}
	for range 1 + r.Uint32n(uint32(n)) {
		t.Train = append(t.Train, r.Uint32n(uint32(items)))
		if r.Uint32n(4) == 0 {
			t.Train = append(t.Train, t.Train[r.Uint32n(uint32(len(t.Train)))])
		}
	}
	for k := range t.Hide {
		for range r.Uint32n(5) {
			t.Hide[k] = append(t.Hide[k], r.Uint32n(uint32(items)))
		}
	}
	return t
}

// pool lists the items that a task may draw as negatives.
func pool(t *local.Task, items int) (free []uint32) {
	not := slices.Concat(t.Train, t.Hide[0], t.Hide[1])
	for i := range uint32(items) {
		if !slices.Contains(not, i) {
			free = append(free, i)
		}
	}
	return free
}

func near(got, want float32, tol float64) bool {
	return math.Abs(float64(got-want)) <= tol*math.Max(1, math.Abs(float64(want)))
}

func alike(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !near(got[i], want[i], tol) {
			t.Fatalf("%s: place %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}
