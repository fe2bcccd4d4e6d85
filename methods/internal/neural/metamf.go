package neural

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// MetaMF generates each user's item table and rating network (Lin et al., SIGIR 2020):
// the coordinator holds the users' embeddings and a meta network; a device would receive
// the parameters that these generate for it, and return their gradient. Here, as in the
// authors' code, training is centralised: a step takes whole users until it has a batch
// of samples, generates the parameters of each user once, and computes exactly the
// gradients that devices would return. The coordinator learns no less in the paper: it
// sees which rows of a user have a gradient.
//
// This form is for implicit feedback: sigmoid, binary cross entropy and sampled
// negatives. The authors' code uses squared error on ratings, clips the gradient's norm
// at 5 and rebuilds the table for every sample.
type MetaMF struct {
	Dim    int     `default:"32" min:"8" max:"1024" doc:"dimension of the users' embeddings and of the generated table"`
	Memory int     `default:"128" min:"8" max:"1024" doc:"width of the collaborative vector"`
	Hidden int     `default:"512" min:"8" max:"1024" doc:"width of the meta network's hidden layers"`
	LR     float32 `default:"0.0001" min:"0" range:"1e-4..3e-3,log" doc:"Adam's learning rate"`
	Decay  float32 `default:"0" min:"0" range:"0|1e-6|1e-5|1e-4|1e-3" doc:"weight decay of the parameters that a step touches"`
	Start  float64 `default:"1" min:"0" range:"0.1|0.3|1" doc:"standard deviation of the initial user embeddings"`
}

var (
	_ method.Central = (*MetaMF)(nil)
	_ method.Checker = (*MetaMF)(nil)
)

const (
	metaUser   = iota
	metaMemory // from here on: of all users
	metaHidden
	metaHiddenBias
	metaFirst
	metaFirstBias
	metaSecond
	metaSecondBias
	metaFactor
	metaFactorBias
	metaRows // from here on: of one item
	metaRowsBias
	metaSlots
)

func (m *MetaMF) Slots(items int) []method.Slot {
	xavier := func(in, out int) method.Init {
		return method.Init{Kind: method.Normal, A: math.Sqrt(2 / float64(in+out))}
	}
	plain := func(name, doc string, rows, dim int, init method.Init) method.Slot {
		return method.Slot{Name: name, Rows: rows, Dim: dim, Init: init, Doc: doc}
	}
	d, c, h, zero := m.Dim, m.Memory, m.Hidden, method.Init{}
	first, second, factor := (&generated{dim: d}).outputs()
	s := []method.Slot{
		metaUser: {
			Name: "user", PerUser: true, Dim: d, Init: method.Init{Kind: method.Normal, A: m.Start},
			Doc: "user embeddings",
		},
		metaMemory:     plain("memory", "what turns an embedding into the collaborative vector", d, c, xavier(d, c)),
		metaHidden:     plain("hidden", "hidden layers of the three heads", 3*h, c, xavier(c, h)),
		metaHiddenBias: plain("hidden.bias", "their biases", 1, 3*h, zero),
		metaFirst:      plain("first", "makes the generated network's first layer", first, h, xavier(h, first)),
		metaFirstBias:  plain("first.bias", "its biases", 1, first, zero),
		metaSecond:     plain("second", "makes its second layer", second, h, xavier(h, second)),
		metaSecondBias: plain("second.bias", "its biases", 1, second, zero),
		metaFactor:     plain("factor", "makes the item table's common factor", factor, h, xavier(h, factor)),
		metaFactorBias: plain("factor.bias", "its biases", 1, factor, zero),
		metaRows: {
			Name: "rows", PerItem: true, Dim: metaWide * h, Init: xavier(h, metaWide*items),
			Doc: "makes an item's row of the table's other factor",
		},
		metaRowsBias: {Name: "rows.bias", PerItem: true, Dim: metaWide, Doc: "its biases"},
	}
	return learn.ServerAdam(s)
}

func (m *MetaMF) Visit(int) method.Visit { return method.Visit{} }

func (m *MetaMF) Logits(w *method.Work, b *method.Batch, out []float32) {
	var val [metaSlots][]float32
	for i := range val {
		val[i] = w.View[i].Val
	}
	mark := w.Mark()
	defer w.Release(mark)
	g := newGenerated(m, &val, w.Floats(m.metaRoom()))
	g.make(w.View[metaUser].Val)
	room := w.Floats(2 * metaWide)
	for x, item := range b.Item {
		out[x] = g.score(w.View[metaRows].Row(item), w.View[metaRowsBias].Row(item), room[:metaWide], room[metaWide:])
	}
}

func (m *MetaMF) Pass(p *method.Pool) { newMetaPass(m, p).run() }

// move takes Adam's step on all parameters that have a gradient.
func (t *metaPass) move() {
	a := learn.NextServerAdam(t.p, t.LR, t.Decay)
	for i := metaMemory; i < metaRows; i++ {
		a.Move(i, 0, t.grads[i])
	}
	for k, u := range t.users {
		a.Move(metaUser, int(u)*t.Dim, t.du[k*t.Dim:(k+1)*t.Dim])
	}
	for _, item := range t.touched {
		clear(t.row)
		clear(t.biasRow)
		for at := t.last[item]; at > 0; at = t.entries[at-1].next {
			e := &t.entries[at-1]
			vec.Add(e.ds[:], t.biasRow)
			for r, d := range e.ds {
				vec.Axpy(d, t.heads[int(e.user)*t.Hidden:][:t.Hidden], t.row[r*t.Hidden:(r+1)*t.Hidden])
			}
		}
		t.last[item] = 0
		a.Move(metaRows, int(item)*len(t.row), t.row)
		a.Move(metaRowsBias, int(item)*metaWide, t.biasRow)
	}
}

func (m *MetaMF) Check() error {
	if m.Dim%vec.Lanes != 0 || m.Memory%vec.Lanes != 0 || m.Hidden%vec.Lanes != 0 {
		return fmt.Errorf("dim = %d, memory = %d, hidden = %d: must be multiples of %d", m.Dim, m.Memory, m.Hidden,
			vec.Lanes)
	}
	return nil
}
