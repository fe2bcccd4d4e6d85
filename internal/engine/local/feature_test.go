package local_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// seer scores an item by its colour and by the moment, and writes down the samples of its visits.
type seer struct {
	saw *[][3]uint32 // item, label, interaction
}

func (s seer) Bind(*rows.Features) (method.Method, error) { return s, nil }
func (s seer) Slots(int) []method.Slot {
	return []method.Slot{{Name: "x", Scope: method.Shared, Rows: 1, Dim: 1}}
}

func (s seer) Logits(w *method.Work, b *method.Batch, out []float32) {
	for x, i := range b.Item {
		out[x] = float32(w.Features.Item[0].Code[i]) + 10*float32(w.Features.Row[0].Code[b.Row[x]])
	}
}

func (s seer) Visit(int) method.Visit {
	return method.Visit{Run: func(w *method.Work) {
		for pass := range 3 {
			if pass > 0 {
				w.Samples.Shuffle()
			}
			*s.saw = (*s.saw)[:0]
			b := w.Batch(0, len(w.Samples.Item))
			for x := range b.Item {
				*s.saw = append(*s.saw, [3]uint32{b.Item[x], uint32(b.Y[x]), b.Row[x]})
			}
		}
	}}
}

func colours(items, interactions int) *rows.Features {
	f := &rows.Features{
		Item: []rows.Column{{Name: "colour", Card: 3}},
		Row:  []rows.Column{{Name: "moment", Card: interactions}},
	}
	for i := range uint32(items) {
		f.Item[0].Code = append(f.Item[0].Code, i%3)
	}
	for k := range uint32(interactions) {
		f.Row[0].Code = append(f.Row[0].Code, k)
	}
	return f
}

// newSeer returns a worker and a state of a seer with coloured items.
func newSeer(t *testing.T, saw *[][3]uint32, items int) (*local.Worker, local.State) {
	t.Helper()
	p, err := local.NewPlan(seer{saw}, local.Options{
		Features: colours(items, 9), Items: items, Rounds: 3, Batch: 100,
		Negatives: 3, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return local.NewWorker(m, 0), m.NewState(nil)
}

func TestASampleKeepsTheMomentOfItsPositive(t *testing.T) {
	var saw [][3]uint32
	k, st := newSeer(t, &saw, 50)
	task := local.Task{Device: 1, Round: 2, Train: []uint32{4, 9, 30}, Rows: []uint32{7, 2, 5}}
	k.Visit(&st, &task, 0, false)
	at := map[uint32]uint32{4: 7, 9: 2, 30: 5}
	negatives := map[uint32]int{}
	for _, s := range saw {
		if s[1] == 1 && at[s[0]] != s[2] {
			t.Errorf("item %d comes from interaction %d, want %d", s[0], s[2], at[s[0]])
		}
		if s[1] == 0 {
			negatives[s[2]]++
		}
	}
	if len(saw) != 12 || negatives[7] != 3 || negatives[2] != 3 || negatives[5] != 3 {
		t.Errorf("of %d samples the negatives are %v by interaction, want three for each of three", len(saw), negatives)
	}
	drawn := k.DrawSamples(&task)
	for x, raw := range drawn {
		if i := raw &^ vec.Positive; raw != i && k.DrawnInteractions()[x] != at[i] {
			t.Errorf("item %d is drawn from interaction %d, want %d", i, k.DrawnInteractions()[x], at[i])
		}
	}
}

func TestItemsAlikeAreScoredOnce(t *testing.T) {
	var saw [][3]uint32
	k, st := newSeer(t, &saw, 2000)
	k.Prepare(&st, &local.Task{Train: []uint32{4, 9}, Rows: []uint32{7, 2}})
	all, some := make([]float32, 2000), make([]float32, 3)
	for _, moment := range []uint32{2, 8} { // the newest, then another
		if moment != 2 {
			k.Context(moment)
		}
		k.ScoreAll(all)
		k.Score([]uint32{5, 1999, 0}, some)
		if !slices.Equal(some, []float32{all[5], all[1999], all[0]}) {
			t.Errorf("one by one they score %v", some)
		}
		for i, z := range all {
			if want := float32(i%3) + 10*float32(moment); z != want {
				t.Fatalf("in moment %d item %d scores %g, want %g", moment, i, z, want)
			}
		}
	}
}
