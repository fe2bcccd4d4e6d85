package coordinator

import (
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// growing is a method with a number per item in one row, and with memory of the server that depends on the items.
type growing struct{ method.Method }

var _ method.PostUpdater = (*growing)(nil)

func (m *growing) Unwrap() method.Method { return m.Method }

func (m *growing) Slots(items int) []method.Slot {
	return append(m.Method.Slots(items),
		method.Slot{Name: "row", Scope: method.Shared, Upload: method.Broadcast, Rows: 1, Dim: items},
		method.Slot{Name: "memory", Scope: method.Server, Rows: 1, Dim: 2*items + 1})
}

func (m *growing) PostUpdate(g *method.Global) {
	for _, v := range g.Value[len(g.Value)-2:] {
		for i := range v {
			v[i] = float32(i + 1)
		}
	}
}

// A run with more items continues from the model of the run before, also if the method has a number per item in one
// row. Numbers of new items start at zero, and what only the server uses starts anew.
func TestARowOfItemsGrowsWithTheCatalogue(t *testing.T) {
	t.Parallel()
	registry := methods.Default().Clone()
	base, err := registry.Lookup("fedmf")
	if err == nil {
		err = registry.Add(method.Entry{Name: "growing", New: func() method.Method { return &growing{base.New()} }})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := small(3)
	s.Rounds, s.Method = 1, "growing"
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.Methods = registry })
	r.play(r.enrolled(3), 1)
	r.waitState(Finished)
	table := r.c.engine.Value[0][0]
	if err := r.c.BeginRun(&s, stock(20)); err != nil {
		t.Fatal(err)
	}
	value := r.c.engine.Value
	row, memory := value[len(value)-2], value[len(value)-1]
	if !r.planOf().Continues || r.planOf().Items != 20 || value[0][0] != table {
		t.Errorf("the run continues: %t, with %d items", r.planOf().Continues, r.planOf().Items)
	}
	for i, x := range row[:20] {
		want := float32(i + 1)
		if i >= 10 {
			want = 0
		}
		if x != want {
			t.Errorf("number %d of the row is %g, want %g", i, x, want)
		}
	}
	if memory[0] != 0 {
		t.Errorf("the server's memory starts at %g, want 0", memory[0])
	}
}
