package factorisation

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FedRAP is additive personalization (Li et al., ICLR 2024): each item has a shared row,
// which is averaged, and a private row on every device; the score uses their sum. Two
// terms of the loss separate the tables and keep the shared one sparse. Both are means
// over the rows of a batch, as in the authors' code; the paper has norms of whole tables.
// Weight decay applies to every row in every step. The authors' code computes a curriculum
// for the two weights but never uses it: their logs correspond to `curriculum=inert`.
// Devices recommend with their private rows and the newest shared ones.
type FedRAP struct {
	Dim        int            `default:"32" min:"1" max:"4096" doc:"embedding dimension"`
	LR         learn.Schedule `default:"decay:0.5,0.97,0.95" min:"0" doc:"learning rate of the score function; by default times 0.97 per round and 0.95 per batch"`
	RowLR      learn.Schedule `default:"decay:200,0.97,0.95" min:"0" doc:"learning rate of both tables"`
	Lambda     float32        `default:"0.1" min:"0" range:"0.001..1,log" doc:"weight of the term that separates the tables"`
	Mu         float32        `default:"0.1" min:"0" range:"0.001..1,log" doc:"weight of the term that keeps the shared table sparse"`
	Curriculum string         `default:"inert" choices:"inert|fixed|tanh|sin|square|frac" doc:"schedule of lambda and mu over rounds; inert and fixed: constant"`
	Regular    string         `default:"l1" choices:"l1|l2|none|prox" doc:"what keeps the shared table sparse: mean of |c|, mean of c^2, nothing, or a soft threshold of mu/1000 at the coordinator"`
	Tables     string         `default:"both" choices:"both|shared|own" doc:"both tables, the shared one only (FedRAP-C), or the device's own only (FedRAP-D)"`
	Decay      float32        `default:"0.0001" min:"0" doc:"weight decay, on every row"`
	Epochs     int            `default:"10" min:"1" max:"1000" doc:"largest number of local passes"`
	Tol        float64        `default:"0.0001" min:"0" doc:"local training stops when the running mean of the loss changes by less than this fraction"`
}

var (
	_ method.Learner     = (*FedRAP)(nil)
	_ method.Headed      = (*FedRAP)(nil)
	_ method.PostUpdater = (*FedRAP)(nil)
)

const (
	rapCommon = iota
	rapOwn
	rapScore
	rapBias
)

var rapHead = learn.Additive{Common: rapCommon, Own: rapOwn, Vector: rapScore, Bias: rapBias}

func (m *FedRAP) Slots(int) []method.Slot {
	normal, linear := method.Init{Kind: method.Normal, A: 1}, method.Init{
		Kind: method.Uniform,
		A:    1 / math.Sqrt(float64(m.Dim)),
	}
	common := method.Slot{
		Name: "common", Scope: method.Shared, PerItem: true, Dim: m.Dim, Init: normal,
		Doc: "the shared table",
	}
	own := method.Slot{
		Name: "own", Scope: method.Private, PerItem: true, Dim: m.Dim, Init: normal,
		Doc: "the device's own table",
	}
	rest := []method.Slot{
		{Name: "score", Scope: method.Private, Rows: 1, Dim: m.Dim, Init: linear, Doc: "weights of the score function"},
		{Name: "bias", Scope: method.Private, Rows: 1, Dim: 1, Init: linear, Doc: "bias of the score function"},
	}
	switch m.Tables {
	case "shared":
		return append([]method.Slot{common}, rest...)
	case "own":
		return append([]method.Slot{own}, rest...)
	}
	return append([]method.Slot{common, own}, rest...)
}

// single is the head if there is only one table.
var single = method.Head{Item: 0, Vector: 1, Bias: 2}

func (m *FedRAP) Head() *method.Head {
	if m.Tables == "both" {
		return nil
	}
	return &single
}

func (m *FedRAP) Logits(w *method.Work, b *method.Batch, out []float32) {
	if m.Tables == "both" {
		rapHead.Logits(w, b, out)
		return
	}
	learn.Dot(single).Logits(w, b, out)
}

func (m *FedRAP) Back(w *method.Work, b *method.Batch, dz []float32) {
	if m.Tables == "both" {
		rapHead.Back(w, b, dz)
		return
	}
	learn.Dot(single).Back(w, b, dz)
}

// weight is a term's coefficient over rounds.
func (m *FedRAP) weight(v float32) learn.Schedule {
	switch m.Curriculum {
	case "tanh", "sin":
		return learn.Schedule{Kind: m.Curriculum, V: v, A: 10}
	case "square":
		return learn.Schedule{Kind: "square", V: v, A: 5}
	case "frac":
		return learn.Schedule{Kind: "frac", V: v}
	}
	return learn.Const(v)
}

func (m *FedRAP) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *FedRAP) PluggedVisit(of method.Learner, _ int, p learn.Plug) method.Visit {
	l1, l2 := learn.Const(0), learn.Const(0)
	switch m.Regular {
	case "l1":
		l1 = m.weight(m.Mu)
	case "l2":
		l2 = m.weight(m.Mu)
	}
	var step method.Step
	switch pulls := (learn.AdditiveRates{
		Score: m.LR, Rows: m.RowLR, Decay: m.Decay, Separate: m.weight(m.Lambda), L1: l1,
		L2: l2,
	}); {
	case m.Tables == "both" && of == method.Learner(m):
		step = rapHead.Descend(of, pulls)
	case m.Tables == "both":
		step = rapHead.Plainly(of, pulls)
	default:
		loss := learn.BCE(of)
		if m.Tables == "shared" {
			loss = learn.WithTerms(loss, learn.L1(0, l1), learn.L2(0, l2))
		}
		step = learn.Descend(loss, learn.SGD(0, m.RowLR, m.Decay), learn.SGD(1, m.LR, m.Decay),
			learn.SGD(2, m.LR, m.Decay))
	}
	return learn.Epochs(m.Epochs, m.Tol, learn.Alternate(append([]method.Step{step}, p.After...)...))
}

// PostUpdate sets small numbers of the shared table to 0 and moves the others towards it.
func (m *FedRAP) PostUpdate(g *method.Global) {
	if m.Regular == "prox" && m.Tables != "own" {
		vec.Soft(m.Mu/1000, g.Value[rapCommon])
	}
}
