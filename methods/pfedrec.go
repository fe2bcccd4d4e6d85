package methods

import (
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// PFedRec is dual personalization (Zhang et al., IJCAI 2023): item rows are
// shared and then tuned on the device, the score function never leaves it.
// Recommendations use the tuned rows.
type PFedRec struct {
	dual
	Infer string `default:"own" choices:"own|global|random" doc:"the table to recommend with: the device's own tuned one, the coordinator's, or another device's (the paper's Figure 3)"`
}

func (m *PFedRec) Slots(int) []method.Slot {
	s := m.slots()
	s[dualItem].Serve = map[string]method.Serve{"own": method.Tuned, "global": method.Fresh, "random": method.Stranger}[m.Infer]
	return s
}

func (m *PFedRec) Visit(items int) method.Visit { return m.visit(m, items) }

// dual is the model and the local training that PFedRec, FedMF and local-only
// training have in common; they differ in where the item rows live and in which
// copy of them is scored.
type dual struct {
	Dim    int            `default:"32" doc:"embedding dimension"`
	LR     learn.Schedule `default:"0.1" range:"1e-3..1,log" doc:"rate of the score function"`
	Eta    float32        `default:"80" range:"1..1000,log" doc:"the item rows' rate is lr * items * eta, as in the authors' code"`
	Decay  float32        `default:"0" doc:"weight decay; it shrinks every row in every step, touched or not"`
	Epochs int            `default:"1" doc:"local passes per round"`
}

const (
	dualItem = iota
	dualScore
	dualBias
)

var dualHead = learn.Dot{Item: dualItem, Vector: dualScore, Bias: dualBias}

func (m *dual) slots() []method.Slot {
	linear := method.Init{Kind: method.Uniform, A: 1 / math.Sqrt(float64(m.Dim))} // PyTorch's Linear
	return []method.Slot{
		dualItem: {
			Name: "item", Scope: method.Shared, PerItem: true, Dim: m.Dim,
			Init: method.Init{Kind: method.Normal, A: 1}, Doc: "item embeddings",
		},
		dualScore: {Name: "score", Scope: method.Private, Rows: 1, Dim: m.Dim, Init: linear, Doc: "weights of the score function"},
		dualBias:  {Name: "bias", Scope: method.Private, Rows: 1, Dim: 1, Init: linear, Doc: "bias of the score function"},
	}
}

func (m *dual) Head() method.Head { return method.Head(dualHead) }

func (m *dual) Logits(w *method.Work, b *method.Batch, out []float32) { dualHead.Logits(w, b, out) }
func (m *dual) Back(w *method.Work, b *method.Batch, dz []float32)    { dualHead.Back(w, b, dz) }

// visit takes, for each batch, a step on the score function and then one on the
// item rows, which sees the new score function (Algorithm 1 of the PFedRec paper
// and its code; the paper writes the loss as a sum, the code and we take a mean).
func (m *dual) visit(of method.Learner, items int) method.Visit {
	rate := m.LR
	rate.V *= float32(items) * m.Eta
	bce := learn.BCE(of)
	return learn.Epochs(m.Epochs, 0, learn.Alternate(
		learn.Descend(bce, learn.SGD(dualScore, m.LR, m.Decay), learn.SGD(dualBias, m.LR, m.Decay)),
		learn.Descend(bce, learn.SGD(dualItem, rate, m.Decay)),
	))
}

func (m *dual) Check() error {
	switch {
	case m.Dim < 1 || m.Dim > 4096:
		return fmt.Errorf("dim = %d: want 1 to 4096", m.Dim)
	case m.Epochs < 1 || m.Epochs > 1000:
		return fmt.Errorf("epochs = %d: want 1 to 1000", m.Epochs)
	case m.Decay < 0:
		return fmt.Errorf("decay = %g: want 0 or more", m.Decay)
	case m.LR.V < 0 || m.Eta < 0:
		return fmt.Errorf("lr = %g, eta = %g: want 0 or more", m.LR.V, m.Eta)
	}
	return nil
}
