package closed

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// EASESketch is EASE (Steck 2019) for catalogues that are too large for an item-item
// matrix. The coordinator broadcasts a row of `rank` numbers per item. A device adds up the
// rows of its items, and sends the sum for each of them. The aggregate is the Gram matrix
// times the rows; from it the coordinator computes a low-rank approximation of the Gram
// matrix with its exact diagonal, and the rows of the next round. Three rounds come close
// to EASE. The sketch follows Halko et al. (2011).
type EASESketch struct {
	Reg  float64 `default:"300" min:">0" range:"30..3000,log" doc:"regularisation, added to the number of devices with an item"`
	Rank int     `default:"64" min:"1" max:"4096" range:"32|64|128|256" doc:"columns of the sketch; at most one per item"`
	Few  int     `default:"2" min:"1" range:"1|2|5" doc:"items that fewer devices have are left out: their rows would reveal a device's items"`
}

var (
	_ method.Ready       = (*EASESketch)(nil)
	_ method.Updater     = (*EASESketch)(nil)
	_ method.PhasedSlots = (*EASESketch)(nil)
)

const (
	sketchBase = iota // broadcast
	sketchSum         // sum
	sketchRow         // broadcast: rows, each followed by its divisor
	sketchUser        // ephemeral
)

// sketchSpace passes data from Ready to Logits: for each item, 1 if the user has it.
type sketchSpace struct{ own method.Buffer }

func (m *EASESketch) rank(items int) int { return min(m.Rank, items) }

func (m *EASESketch) Slots(items int) []method.Slot {
	k := m.rank(items)
	return []method.Slot{
		sketchBase: {
			Name: "base", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: k + 1,
			Init: method.Init{Kind: method.Normal, A: 0.1}, Doc: "columns that the Gram matrix is multiplied with",
		},
		sketchSum: {
			Name: "sum", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: k + 1,
			Doc: "sum of the device's rows, and 1, for each of its items",
		},
		sketchRow: {
			Name: "row", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: k + 1,
			Doc: "rows for recommending, each followed by its divisor",
		},
		sketchUser: {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: k + 1, Doc: "sum of the device's rows"},
	}
}

// Logits returns R_j . (sum of R_i over the user's other items) / divisor_j.
func (m *EASESketch) Logits(w *method.Work, b *method.Batch, out []float32) {
	rows, user, k := &w.View[sketchRow], w.View[sketchUser].Val, m.rank(w.Items)
	own := method.Workspace[sketchSpace](&w.Scratch).own.Floats(w.Items)
	for x, r := range b.Rd[sketchRow] {
		row := rows.Row(r)
		by := row[k]
		if by == 0 {
			out[x] = 0
			continue
		}
		out[x] = vec.Dot(row[:k], user[:k])
		if own[b.Item[x]] != 0 {
			out[x] -= vec.Dot(row[:k], row[:k])
		}
		out[x] /= by
	}
}

func (m *EASESketch) Phase(int, int) (int, string) { return 0, "pass" }

// Transfers excludes the rows for recommending, which local training does not use.
func (m *EASESketch) Transfers(_, slot int) bool { return slot != sketchRow }

func (m *EASESketch) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		user := m.sum(w, sketchBase)
		user[m.rank(w.Items)] = 1
		for _, r := range w.Samples.Wr[sketchSum] {
			vec.Add(user, w.View[sketchSum].Row(r))
		}
	}}
}

// sum adds up the rows of the device's items.
func (m *EASESketch) sum(w *method.Work, slot int) []float32 {
	user := w.View[sketchUser].Val
	clear(user)
	for _, i := range w.Samples.Item {
		vec.Add(w.View[slot].Row(i), user)
	}
	return user
}

func (m *EASESketch) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		m.sum(w, sketchRow)
		own := method.Workspace[sketchSpace](&w.Scratch).own.Floats(w.Items)
		clear(own)
		for _, i := range w.Samples.Item {
			own[i] = 1
		}
	}}
}

func (m *EASESketch) Update(g *method.Global) {
	s := Sketch{
		Items: g.Items, Rank: m.rank(g.Items), Stride: g.Stride[sketchSum], Reg: m.Reg,
		Few: m.Few, All: float64(g.Users) / float64(g.Devices),
	}
	s.Make(g.Aggregate[sketchSum], g.Value[sketchBase], g.Value[sketchRow])
}
