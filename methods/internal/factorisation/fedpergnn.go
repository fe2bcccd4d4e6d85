package factorisation

import (
	"fmt"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FedPerGNN is a graph network on each device (Wu et al., Nature Communications 2022): a
// star of the user's items, extended by the users who share an item. With e an item's row
// and n the attention-weighted mean of its neighbours, an item's state is h = e + near*n,
// the user's state is q = u + graph * sum of a*h over its items, where a is the softmax
// of u.h/sqrt(dim), and the logit is q.h + bias. Training uses the items of the
// mini-batch; recommending uses all items of the user.
//
// Neighbours are exchanged through the coordinator: a device adds u, weighted by the
// exponential of its u.h/sqrt(dim), to a sum for each of its items. The sum divided by
// the total weight is the softmax over all devices that have the item, and devices see
// only that quotient. A single update contains the device's items, each with its vector:
// without secure aggregation the coordinator can read both. The authors' third party sees
// as much.
//
// Corrections of the authors' code: labels are not truncated to integers (which makes all
// of them 0), attention over neighbours is normalised, and predictions are compared with
// their own labels. Training is that of FedMF, with binary cross entropy. Not
// implemented: pseudo items, their noise (noise=laplace:SCALE is similar), dropout, and
// layers with weights. With FedMF's item learning rate, graph=0.3 diverges.
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
			Doc: "attention-weighted mean vector of the users who have an item",
		},
		method.Slot{
			Name: "sum", Scope: shared, Upload: method.Sum, PerItem: true, Dim: m.Dim + 1,
			Doc: "the device's weighted vector and the weight, for each of its items",
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

// Update moves the rows by the mean delta, and divides the neighbours' sums by their
// weights. An item without reports keeps its neighbours.
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
