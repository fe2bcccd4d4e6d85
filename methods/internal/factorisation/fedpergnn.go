package factorisation

import (
	"fmt"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FedPerGNN is a graph network on each device (Wu et al., Nature Communications
// 2022): a star of the user's items, extended by the users who share one. With e an
// item's row and n the neighbours' mean by attention, an item's state is
// h = e + near*n, the user's is q = u + graph * sum of a*h over its items, where a is
// the softmax of u.h/sqrt(dim), and the logit is q.h + bias. While training, the
// items are those of the mini-batch; to recommend, all.
//
// Neighbours meet through the coordinator: a device adds u, weighed by the exponential
// of its own u.h/sqrt(dim), to a sum for each of its items. The sum over its weight is
// the softmax over all who have the item, of which nobody sees more than that. But
// what one device sends are its own items, each with its own vector: without masks
// the coordinator reads both. The authors' third party sees as much.
//
// Mended against the authors' code: labels are not cut to whole numbers (which makes
// all of them 0), attention over neighbours is normalised, predictions are compared
// with their own labels. It trains as FedMF does, by binary cross entropy. Left out:
// pseudo items, their noise (noise=laplace:SCALE adds such), dropout, and layers that
// have weights. With FedMF's item rate a graph of 0.3 diverges.
type FedPerGNN struct {
	dual
	Near  float32 `default:"0.1" min:"0" range:"0|0.1|0.3|1" doc:"weight of the neighbours in an item's state"`
	Graph float32 `default:"0.03" min:"0" range:"0|0.03|0.1|0.3" doc:"weight of the items in the user's state"`
}

var (
	_ method.Learner = (*FedPerGNN)(nil)
	_ method.Headed  = (*FedPerGNN)(nil)
	_ method.Updater = (*FedPerGNN)(nil)
	_ method.Checker = (*FedPerGNN)(nil)
)

const (
	gnnNear = learn.LayerSlot + 1 + iota // broadcast
	gnnSum                               // sum: weight * u, and the weight
)

func (m *FedPerGNN) Slots(int) []method.Slot {
	shared := method.Shared
	return append(m.net().slots(),
		method.Slot{
			Name: "near", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: m.Dim,
			Doc: "mean vector of the users who have an item, by attention",
		},
		method.Slot{
			Name: "sum", Scope: shared, Upload: method.Sum, PerItem: true, Dim: m.Dim + 1,
			Doc: "a device's vector and its weight, for each of its items",
		})
}

func (m *FedPerGNN) Head() *method.Head { return nil }

func (m *FedPerGNN) Visit(items int) method.Visit {
	return learn.Then(m.visit(m, items), method.Visit{Run: m.meet})
}

// meet adds the device's vector to the sums of its items.
func (m *FedPerGNN) meet(w *method.Work) {
	b, u, k := w.Batch(0, len(w.Samples.Item)), w.View[learn.UserSlot].Val, 0
	mark := w.Mark()
	defer w.Release(mark)
	h := w.Floats(w.View[learn.ItemSlot].Stride)
	for x, p := range b.Pos {
		if k == len(b.Rows) || p != b.Rows[k] {
			continue
		}
		if k++; b.Y[x] == 1 {
			m.state(w, b.Rd[learn.ItemSlot][x], b.Item[x], h)
			weight, sum := exp(float32(vec.Dot(u, h)*m.scale())), w.View[gnnSum].Row(b.Wr[gnnSum][x])
			vec.Axpy(weight, u[:m.Dim], sum[:m.Dim])
			sum[m.Dim] += weight
		}
	}
}

// Update moves the rows by the mean change, and divides the neighbours' sums by
// their weights. An item that nobody brought keeps the neighbours that it had.
func (m *FedPerGNN) Update(g *method.Global) {
	vec.Axpy(1/float32(g.Devices), g.Aggregate[learn.ItemSlot], g.Value[learn.ItemSlot])
	s, t := g.Stride[gnnNear], g.Stride[gnnSum]
	for i := range g.Items {
		sum, near := g.Aggregate[gnnSum][i*t:], g.Value[gnnNear][i*s:]
		for k := 0; k < m.Dim && sum[m.Dim] > 0; k++ {
			near[k] = sum[k] / sum[m.Dim]
		}
	}
}

// Check rejects weight decay, which FedPerGNN does not have.
func (m *FedPerGNN) Check() error {
	if m.Decay != 0 {
		return fmt.Errorf("decay = %g: must be 0 for fedpergnn", m.Decay)
	}
	return m.dual.Check()
}
