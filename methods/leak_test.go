package methods_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// visited returns the delta of one local training.
func visited(t *testing.T, m method.Method, o local.Options, task local.Task) (*local.Plan, *local.Delta) {
	t.Helper()
	o.Rounds, o.Batch, o.Seed = 10, 32, 1
	p, err := local.NewPlan(m, o)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	w, state := local.NewWorker(mem, 0), mem.NewState(nil)
	w.Visit(&state, &task, 0, false)
	return p, w.Delta(0)
}

// Without secure aggregation the coordinator can read an update.
func TestSingleUpdateRevealsTheItemsOfItsDevice(t *testing.T) {
	train := []uint32{3, 17, 40, 77}
	_, u := visited(t, with(t, &methods.FedMF{}), local.Options{Items: 100, Users: 5, Negatives: 1},
		local.Task{Train: train})
	for _, p := range u.Parts {
		for _, id := range train {
			if p.IDs != nil && !slices.Contains(p.IDs, id) {
				t.Errorf("item %d was trained on but is not in the update", id)
			}
		}
		if len(p.IDs) > 2*len(train) {
			t.Errorf("%d rows for %d items and as many negatives", len(p.IDs), len(train))
		}
	}
}

func TestSingleUpdateOfPrivRecRevealsTheUsersFeatures(t *testing.T) {
	f := &rows.Features{
		User: []rows.Column{
			{Name: "age", Card: 4, Code: []uint32{2, 0}},
			{Name: "gender", Card: 2, Code: []uint32{1, 0}},
		},
		Item: []rows.Column{{Name: "genre", Card: 3, Code: []uint32{0, 1, 2, 0, 1, 2, 0, 1, 2, 0}}},
	}
	m := with(t, &methods.PrivRec{}, "dim=4", "layers=8")
	p, u := visited(t, m, local.Options{Items: 10, Users: 2, Negatives: 2, Features: f},
		local.Task{Device: 0, Train: []uint32{1, 4, 5}, Rows: []uint32{0, 1, 2}})
	for k, want := range []int{2, 1} { // the slots of the user's features come first
		part := u.Parts[k]
		for row := range len(part.Data) / part.Dim {
			moved := slices.ContainsFunc(part.Data[row*part.Dim:(row+1)*part.Dim],
				func(x float32) bool { return x != 0 })
			if moved != (row == want) {
				t.Errorf("row %d of %s moved: %v; the user's is %d", row, p.Slots[part.Slot].Name, moved, want)
			}
		}
	}
}
