package closed

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// EASE is the linear item-item model of Steck (2019), federated. Each device sends 1 for
// each pair of its items, once; the aggregate is the Gram matrix of all histories. One
// round is therefore exact: the weights equal those of centralised training. A device
// scores items with the sum of the weights of its own items.
type EASE struct {
	Reg float64 `default:"300" min:">0" range:"30..3000,log" doc:"regularisation, added to the number of devices with an item"`
	Few int     `default:"2" min:"1" range:"1|2|5" doc:"items that fewer devices have are left out: their rows would reveal a device's items"`
}

var (
	_ method.Ready   = (*EASE)(nil)
	_ method.Updater = (*EASE)(nil)
)

const (
	easeWeight = iota // broadcast
	easeGram          // sum
	easeScore         // ephemeral
)

func (m *EASE) Slots(items int) []method.Slot {
	return []method.Slot{
		easeWeight: {
			Name: "weight", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: items,
			Doc: "weights from an item to every other one",
		},
		easeGram: {
			Name: "gram", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: SymmetricRows(items).Dim(),
			Range: 1, Doc: "1 for each pair of a device's items; half of the symmetric matrix",
		},
		easeScore: {Name: "score", Scope: method.Ephemeral, Rows: 1, Dim: items, Doc: "scores of all items"},
	}
}

func (m *EASE) Logits(w *method.Work, b *method.Batch, out []float32) {
	pick(&w.View[easeScore], b, out)
}

// pick copies the scores of a batch from scores of all items.
func pick(score *method.View, b *method.Batch, out []float32) {
	for x, i := range b.Item {
		out[x] = score.Val[i]
	}
}

func (m *EASE) Visit(items int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		if own := w.Samples.Item; len(own) > 0 {
			SymmetricRows(items).Pairs(own, w.Samples.Wr[easeGram][0]-own[0], &w.View[easeGram])
		}
	}}
}

func (m *EASE) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		score := w.View[easeScore].Val
		clear(score)
		for _, i := range w.Samples.Item {
			vec.Add(w.View[easeWeight].Row(i), score)
		}
	}}
}

func (m *EASE) Update(g *method.Global) {
	// The pair of an item with itself counts the devices that have it.
	keep := FrequentItems(g.Aggregate[easeGram], g.Items, g.Stride[easeGram], m.Few)
	scale(g, easeGram)
	SymmetricRows(g.Items).Ease(keep, g.Aggregate[easeGram], g.Stride[easeGram], m.Reg, g.Value[easeWeight],
		g.Stride[easeWeight])
}

// scale scales a cohort's sums up to all devices.
func scale(g *method.Global, slots ...int) {
	if g.Devices == g.Users {
		return
	}
	for _, i := range slots {
		vec.Scale(float32(g.Users)/float32(g.Devices), g.Aggregate[i])
	}
}
