// Package factorisation holds methods that score a user's vector with item rows, alone or
// through a small network: matrix factorisation, its federated forms and FedRAP.
package factorisation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// PFedRec is dual personalization (Zhang et al., IJCAI 2023): item rows are shared and
// then tuned on the device; the score function never leaves it. Devices recommend with
// the tuned rows. The paper describes a score function of any depth; its code has one
// layer. With hidden layers, a setting says which of them are private, and the user's
// vector is an input beside the item's row. The paper's function has no such vector, but
// shared layers need it.
type PFedRec struct {
	dual
	Layers  learn.Layers `default:"none" doc:"widths of the score function's hidden layers, such as 64,16; the user's vector is then an input too"`
	Private string       `default:"all" doc:"private layers: all, none, or numbers such as 1,3 (the output is the last)"`
	UserEta float32      `default:"1" min:"0" doc:"with hidden layers, the user vector's learning rate is lr * user-eta"`
	Order   string       `default:"alternate" choices:"alternate|joint" doc:"alternate steps on score function and item rows, or one joint step"`
	Infer   string       `default:"own" choices:"own|global|random" doc:"table to recommend with: the device's tuned one, the coordinator's, or a random device's (the paper's Figure 3)"`
}

var (
	_ method.Learner = (*PFedRec)(nil)
	_ method.Headed  = (*PFedRec)(nil)
	_ method.Checker = (*PFedRec)(nil)
)

func (m *PFedRec) net() net { return net{&m.dual, m.Layers, m.Private, m.UserEta} }

func (m *PFedRec) Slots(int) []method.Slot {
	s := m.net().slots()
	for i := range s {
		if s[i].Scope == method.Shared && m.Infer == "own" {
			s[i].Serve = method.ServeLocal
		}
	}
	if m.Infer == "random" {
		s[learn.ItemSlot].Serve = method.ServeOther
	}
	return s
}

func (m *PFedRec) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *PFedRec) Head() *method.Head { return m.net().score().Head() }
func (m *PFedRec) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.net().score().Logits(w, b, out)
}

func (m *PFedRec) Back(w *method.Work, b *method.Batch, dz []float32) { m.net().score().Back(w, b, dz) }
func (m *PFedRec) Check() error                                       { return m.net().check() }

// dual is the model and the local training of PFedRec, FedMF and local-only training.
// They differ in the scope of the item rows and in the copy that they recommend with.
type dual struct {
	Dim    int            `default:"32" min:"1" max:"4096" doc:"embedding dimension"`
	LR     learn.Schedule `default:"0.1" min:"0" range:"1e-3..1,log" doc:"learning rate of the score function"`
	Eta    float32        `default:"80" min:"0" range:"1..1000,log" doc:"the item rows' learning rate is lr * items * eta, as in the authors' code"`
	Decay  float32        `default:"0" min:"0" doc:"weight decay, on every row in every step"`
	Epochs int            `default:"1" min:"1" max:"1000" doc:"local passes per round"`
	Loss   string         `default:"bce" choices:"bce|bpr|squared" doc:"binary cross entropy, pairwise ranking, or squared error on ratings (use a small eta)"`
}

func (m *dual) net() net           { return net{dual: m, private: "all"} }
func (m *dual) Head() *method.Head { return m.net().score().Head() }
func (m *dual) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.net().score().Logits(w, b, out)
}

func (m *dual) Back(w *method.Work, b *method.Batch, dz []float32) { m.net().score().Back(w, b, dz) }
func (m *dual) Check() error                                       { return m.net().check() }

// net is a dual whose score function may have hidden layers.
type net struct {
	*dual
	layers  learn.Layers
	private string // as PFedRec.Private
	userEta float32
}

func (n net) score() learn.Score   { return learn.Score{Dim: n.Dim, Hidden: n.layers} }
func (n net) slots() []method.Slot { return n.score().Slots(n.stays) }

func (n net) stays(layer int) bool {
	if n.private == "all" {
		return true
	}
	for _, s := range strings.Split(n.private, ",") {
		if k, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && k == layer {
			return true
		}
	}
	return false
}

// visit passes over the samples. With the order "alternate", each batch is a step on the
// score function and then one on the item rows, which uses the new score function
// (Algorithm 1 of the PFedRec paper; the paper sums the loss, its code and we take the
// mean). The steps in after end every batch.
func (n net) visit(of method.Learner, items int, order string, after ...method.Step) method.Visit {
	function, rows := n.rules(items)
	loss := learn.Mean(n.Loss, of)
	steps := []method.Step{learn.Descend(loss, function...), learn.Descend(loss, rows)}
	if order == "joint" {
		steps = []method.Step{learn.Descend(loss, append(function, rows)...)}
	}
	return learn.Epochs(n.Epochs, 0, learn.Alternate(append(steps, after...)...))
}

// rules returns the rules of the score function and the rule of the item rows.
func (n net) rules(items int) (function []learn.Rule, rows learn.Rule) {
	user, row := n.LR, n.LR
	if row.V *= float32(items) * n.Eta; len(n.layers) > 0 {
		user.V *= n.userEta
	}
	function = append(function, learn.SGD(learn.UserSlot, user, n.Decay))
	for slot := learn.LayerSlot; slot < len(n.slots()); slot++ {
		function = append(function, learn.SGD(slot, n.LR, n.Decay))
	}
	return function, learn.SGD(learn.ItemSlot, row, n.Decay)
}

// check rejects a list of private layers that does not fit the network.
func (n net) check() error {
	switch {
	case n.private == "all" || n.private == "none" && len(n.layers) > 0:
		return nil
	case len(n.layers) == 0:
		return fmt.Errorf("private = %s: without hidden layers the only layer is the user's vector, which is "+
			"private; add layers=64,16, or use private=all", n.private)
	}
	for _, s := range strings.Split(n.private, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || k < 1 || k > n.score().Layers() {
			return fmt.Errorf("private = %s: must be all, none, or numbers of layers from 1 to %d", n.private,
				n.score().Layers())
		}
	}
	return nil
}
