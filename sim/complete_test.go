package sim

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/method"
)

// following recommends the items whose numbers follow that of the newest item, the nearest first. With ready, it
// reads the history before it scores.
type following struct{ ready bool }

func (following) Slots(int) []method.Slot {
	return []method.Slot{
		{Name: "sum", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: 1},
		{Name: "newest", Scope: method.Ephemeral, Rows: 1, Dim: 1},
	}
}

func (following) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { w.View[0].Val[0] = float32(len(w.History)) }}
}

func (following) Update(*method.Global) {}

func (f following) Logits(w *method.Work, b *method.Batch, out []float32) {
	newest := int(w.History[len(w.History)-1])
	if f.ready {
		newest = int(w.View[1].Val[0])
	}
	for x, item := range b.Item {
		out[x] = -float32((int(item) - newest - 1 + w.Items) % w.Items)
	}
}

// readyFollowing is following with a Ready.
type readyFollowing struct{ following }

func (readyFollowing) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		w.View[1].Val[0] = float32(w.Samples.Item[len(w.Samples.Item)-1])
	}}
}

func TestCompleteRanksTheTestItemAfterTheValidationItem(t *testing.T) {
	for name, m := range map[string]method.Method{
		"history": following{}, "ready": readyFollowing{following{true}},
	} {
		o := defaults()
		o.Rounds = 1
		deployed, complete := start(t, m, small(t, "deployed"), o, 2), start(t, m, small(t, "complete"), o, 3)
		finish(t, deployed)
		finish(t, complete)
		a, b := deployed.Best, complete.Best
		if !slices.Equal(a.Valid, b.Valid) || !slices.Equal(a.ValidFull, b.ValidFull) {
			t.Errorf("%s: complete changes validation", name)
		}
		s := small(t, "complete")
		var p data.Part
		for u := range s.Users() {
			s.User(u, &p)
			for which, newest := range []uint32{p.Train[len(p.Train)-1], uint32(p.Valid)} {
				after := func(i int) int { return (i - int(newest) - 1 + s.Items()) % s.Items() }
				var full, sampled metrics.Rank
				for i := range s.Items() {
					if after(i) < after(int(p.Test)) && !slices.Contains(p.Train, uint32(i)) && int64(i) != p.Valid {
						full.Above++
					}
				}
				for _, i := range p.Candidates[1] {
					if after(int(i)) < after(int(p.Test)) {
						sampled.Above++
					}
				}
				got := []*Ranks{a, b}[which]
				if got.TestFull[u] != full || got.Test[u] != sampled {
					t.Fatalf("%s, user %d: ranks %+v and %+v, want %+v and %+v", name, u, got.TestFull[u], got.Test[u],
						full, sampled)
				}
			}
			if p.Valid != int64(p.Seen()[len(p.Seen())-2]) {
				t.Fatal("the validation item is not the row before the last")
			}
		}
	}
}

// A method that keeps its state on the device scores as it is.
func TestCompleteIsDeployedForPrivateState(t *testing.T) {
	o := defaults()
	o.Rounds = 3
	one, two := start(t, pfedrec(t), small(t, "deployed"), o, 2), start(t, pfedrec(t), small(t, "complete"), o, 2)
	finish(t, one)
	finish(t, two)
	a, b := one.Best, two.Best
	if !slices.Equal(a.Test, b.Test) || !slices.Equal(a.TestFull, b.TestFull) || !slices.Equal(a.Top, b.Top) {
		t.Error("complete changes the ranks of a method without Ready")
	}
}
