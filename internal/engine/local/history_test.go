package local_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// The slots of closed: a broadcast table, a sum by item, a plain sum, a vector.
const (
	clItem = iota
	clCount
	clTotal
	clUser
)

// closed solves instead of descending: its vector is the sum of its items' rows,
// and it counts them.
type closed struct{}

func (closed) Slots(int) []method.Slot {
	return []method.Slot{
		clItem: {
			Name: "item", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: 3,
			Init: method.Init{Kind: method.Normal, A: 1},
		},
		clCount: {Name: "count", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 1},
		clTotal: {Name: "total", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: 3},
		clUser:  {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: 3},
	}
}

func (closed) Head() *method.Head {
	return &method.Head{Item: clItem, Vector: clUser, Bias: method.NoBias}
}

func (m closed) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(*m.Head()).Logits(w, b, out)
}

func (m closed) Ready(int) method.Visit { return method.Visit{HistoryOnly: true, Run: m.rebuild} }

func (closed) rebuild(w *method.Work) {
	b := w.Batch(0, len(w.Samples.Item))
	for x, r := range b.Rd[clItem] {
		vec.Axpy(b.Y[x], w.View[clItem].Row(r), w.View[clUser].Val)
	}
}

func (m closed) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		m.rebuild(w)
		vec.Add(w.View[clUser].Val, w.View[clTotal].Val)
		b := w.Batch(0, len(w.Samples.Item))
		for x, r := range b.Wr[clCount] {
			w.View[clCount].Row(r)[0] += b.Y[x]
		}
	}}
}

func TestAVisitOfTheHistorySendsSumsAndIsRebuiltToScore(t *testing.T) {
	r := setUp(t, closed{}, local.Options{Items: 20, Negatives: 4})
	base := r.mem.Value(clItem)
	task := &local.Task{Train: []uint32{3, 7, 3}, Hide: [2][]uint32{{4}}}
	user := func(k int) float32 { return 2*base[3*8+k] + base[7*8+k] }
	var st local.State
	for visit := range 2 { // the second must not find what the first left
		out := r.Visit(&st, task, 1, false)
		u := r.Delta(1)
		if out.Samples != 3 || out.Touched != 2 || out.Bytes != bytesOf(u) {
			t.Errorf("visit %d: %+v, and the update has %d bytes", visit, out, bytesOf(u))
		}
		if len(u.Parts) != 2 || !slices.Equal(u.Parts[0].IDs, []uint32{3, 7}) || !slices.Equal(u.Parts[0].Data,
			[]float32{2, 1}) {
			t.Fatalf("visit %d: the counts sent are %+v, want 2 of item 3 and 1 of item 7", visit, u.Parts)
		}
		alike(t, "the total sent", u.Parts[1].Data, []float32{user(0), user(1), user(2)}, 1e-6)
	}
	got := make([]float32, 20)
	r.Prepare(&st, task)
	r.ScoreAll(got)
	for i := range got {
		want := base[i*8]*user(0) + base[i*8+1]*user(1) + base[i*8+2]*user(2)
		if !near(got[i], want, 1e-5) {
			t.Errorf("item %d scores %g, want %g", i, got[i], want)
		}
	}
	for i, x := range r.sums(clCount) {
		if x != 0 {
			t.Errorf("scoring leaves %g at place %d of the sums", x, i)
		}
	}
}
