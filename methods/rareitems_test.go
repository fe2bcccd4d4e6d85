package methods_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// In rareSet, rareOnce is in the middle of one user's history. rareFirst is the first item
// of that user and in the middle of another history. rareNewest is in the middle of one
// history and the newest training item of another.
const (
	rareItems  = 24
	rareOnce   = 20
	rareFirst  = 21
	rareNewest = 22
)

// rareSet returns 60 users of the items below 20, some of whom also have rare items.
func rareSet() *data.Set {
	s := &data.Set{NumItems: rareItems, Start: []int{0}, Meta: data.Info{Name: "rare", TimeKind: data.OrderOnly}}
	for u := range 60 {
		var h []uint32
		for k := range 10 { // the last two are held out
			h = append(h, uint32(u*7+k*3)%20)
		}
		switch u {
		case 0:
			h[0], h[4] = rareFirst, rareOnce
		case 1:
			h[3], h[4] = rareFirst, rareNewest
		case 2:
			h[7] = rareNewest
		}
		for k, i := range h {
			s.Item, s.Time = append(s.Item, i), append(s.Time, int64(k))
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}

// slot returns the index of a slot.
func slot(t *testing.T, r *sim.Run, name string) int {
	t.Helper()
	for i, s := range r.Slots() {
		if s.Name == name {
			return i
		}
	}
	t.Fatalf("unknown slot %q", name)
	return 0
}

// empty reports whether an item's row is zero.
func empty(r *sim.Run, slot, item int) bool {
	s := vec.Pad(r.Slots()[slot].Dim)
	for _, x := range r.Value(slot)[item*s : (item+1)*s] {
		if x != 0 {
			return false
		}
	}
	return true
}

// A row that only one device contributed to would reveal its update, so it must stay zero in
// every phase.
func TestRowsOfASingleDeviceAreNotLearnt(t *testing.T) {
	s := testworld.Deployed(t, rareSet())
	for _, c := range []struct {
		words, slot string
		rounds      int
		none, some  []int // with few=2
	}{
		{"ials dim=4", "item", 5, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
		{"ials dim=4 average=2", "item", 6, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
		{"als dim=4", "item", 3, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
		{"ials-next dim=4", "item", 7, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
		// A first item has no earlier one, and the newest is held back for the choice.
		{"ials-next dim=4", "head", 7, []int{rareOnce, rareFirst, rareNewest, 23}, []int{0, 19}},
		{"slit", "weight", 1, []int{rareOnce, rareFirst, rareNewest, 23}, []int{0, 19}},
		{"ease", "weight", 1, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
		{"ease-sketch", "row", 3, []int{rareOnce, 23}, []int{0, rareFirst, rareNewest}},
	} {
		r := runOn(t, s, c.words, c.rounds)
		at := slot(t, r, c.slot)
		for _, i := range c.none {
			if !empty(r, at, i) {
				t.Errorf("%s: item %d has a row of %s, but only one device sent it", c.words, i, c.slot)
			}
		}
		for _, i := range c.some {
			if empty(r, at, i) {
				t.Errorf("%s: item %d has no row of %s, but at least two devices sent it", c.words, i, c.slot)
			}
		}
		if one := runOn(t, s, c.words+" few=1", c.rounds); empty(one, slot(t, one, c.slot), rareOnce) {
			t.Errorf("%s few=1: item %d has no row of %s", c.words, rareOnce, c.slot)
		}
	}
}

// The column of an item that one device has would reveal that device's other items.
func TestColumnsOfASingleDeviceAreNotLearnt(t *testing.T) {
	s := testworld.Deployed(t, rareSet())
	for _, words := range []string{"ease", "slit"} {
		w := table(runOn(t, s, words, 1), 0, rareItems, rareItems)
		for i := range rareItems {
			if w.At(i, rareOnce) != 0 {
				t.Errorf("%s: item %d predicts item %d, which one device has", words, i, rareOnce)
			}
		}
	}
}

// watched is a method that records how many devices sent each item.
type watched struct {
	*methods.IALS
	slot int
	seen []float32
}

func (m *watched) Update(g *method.Global) {
	for i := range m.seen {
		m.seen[i] = g.Aggregate[m.slot][i*g.Stride[m.slot]]
	}
	m.IALS.Update(g)
}

// In a small cohort only one device may have an item that many devices have. That round must
// not change its row.
func TestRowOfASingleDeviceInACohortDoesNotChange(t *testing.T) {
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery, o.Cohort.Kind, o.Cohort.Count = 12, 12, "count", 8
	m := &watched{IALS: with(t, &methods.IALS{}, "dim=4").(*methods.IALS), seen: make([]float32, rareItems)}
	r, err := sim.New(m, testworld.Deployed(t, rareSet()), o, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	item, stride, alone := r.Value(slot(t, r, "item")), vec.Pad(4), 0
	m.slot = slot(t, r, "count")
	for !r.Done() {
		before := slices.Clone(item)
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i, n := range m.seen {
			moved := !slices.Equal(before[i*stride:(i+1)*stride], item[i*stride:(i+1)*stride])
			switch {
			case r.RoundsRun() == 1: // the first round only counts
			case n >= 2 && !moved:
				t.Errorf("round %d: %g devices sent item %d, but its row did not change", r.RoundsRun(), n, i)
			case n == 1 && moved:
				t.Errorf("round %d: the row of item %d changed, but only one device sent it", r.RoundsRun(), i)
			case n == 1:
				alone++
			}
		}
	}
	if alone < 10 {
		t.Errorf("only %d rows came from a single device; want at least 10", alone)
	}
}
