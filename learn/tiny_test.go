package learn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// The slots of the methods below: a table, a second one, a vector and a bias.
const (
	tinyItem = iota
	tinyVector
	tinyBias
	tinyOther
)

// tiny is a bilinear head with any local training.
type tiny struct {
	learn.Dot
	slots []method.Slot
	visit func(m method.Learner) method.Visit
}

const tinyDim = 5

// newTiny returns a method whose table has the given scope.
func newTiny(scope method.Scope, visit func(m method.Learner) method.Visit) *tiny {
	normal := method.Init{Kind: method.Normal, A: 0.7}
	return &tiny{
		Dot: learn.Dot{Item: tinyItem, Vector: tinyVector, Bias: tinyBias},
		slots: []method.Slot{
			{Name: "item", Scope: scope, PerItem: true, Dim: tinyDim, Init: normal},
			{Name: "vector", Scope: method.Private, Rows: 1, Dim: tinyDim, Init: normal},
			{Name: "bias", Scope: method.Private, Rows: 1, Dim: 1, Init: normal},
			{Name: "other", Scope: method.Private, PerItem: true, Dim: tinyDim, Init: normal},
		},
		visit: visit,
	}
}

func (m *tiny) Slots(int) []method.Slot { return slices.Clone(m.slots) }

func (m *tiny) Visit(int) method.Visit { return m.visit(m) }

// headed is tiny with a Head, so that its steps are fused.
type headed struct{ *tiny }

func (m headed) Visit(int) method.Visit { return m.visit(m) }
func (m headed) Head() *method.Head     { return (*method.Head)(&m.Dot) }

// bench is one worker with its own memory.
type bench struct {
	*local.Worker
	plan  *local.Plan
	mem   *local.Memory
	state local.State
}

const tinyItems = 30

func open(t *testing.T, m method.Method, plain bool) *bench {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{
		Items: tinyItems, Rounds: 10, Batch: 4, Negatives: 2, Seed: 3,
		Plain: plain,
	})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{local.NewWorker(mem, 0), p, mem, mem.NewState(nil)}
}

// train contains an item twice, so that rows repeat within and between batches.
var train = []uint32{3, 17, 3, 8, 29, 0, 12}

func task(round int) *local.Task {
	return &local.Task{Device: 1, Round: round, Train: train, Hide: [2][]uint32{{5, 6}}}
}

// batch records the samples of one step.
type batch struct {
	item []uint32
	y    []float32
}

// seen records the batches of a step.
func seen(to *[]batch, s method.Step) method.Step {
	do := s.Do
	s.Do = func(w *method.Work, b *method.Batch) float64 {
		*to = append(*to, batch{slices.Clone(b.Item), slices.Clone(b.Y)})
		return do(w, b)
	}
	return s
}

// dense is the reference: whole tables of float64, with optimisers that update every row in
// every batch.
type dense struct {
	item   [tinyItems][tinyDim]float64
	vector [tinyDim]float64
	bias   float64
}

func newDense(b *bench) *dense {
	d := &dense{}
	for i := range d.item {
		for k := range d.item[i] {
			d.item[i][k] = float64(b.mem.Value(tinyItem)[i*8+k])
		}
	}
	for k := range d.vector {
		d.vector[k] = float64(b.mem.Value(tinyVector)[k])
	}
	d.bias = float64(b.mem.Value(tinyBias)[0])
	return d
}

func (d *dense) logit(item uint32) float64 {
	z := d.bias
	for k, v := range d.vector {
		z += v * d.item[item][k]
	}
	return z
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// grad returns the gradient of the mean binary cross entropy of a batch.
func (d *dense) grad(b batch) *dense {
	g := &dense{}
	for x, i := range b.item {
		e := (sigmoid(d.logit(i)) - float64(b.y[x])) / float64(len(b.item))
		g.bias += e
		for k := range d.vector {
			g.vector[k] += e * d.item[i][k]
			g.item[i][k] += e * d.vector[k]
		}
	}
	return g
}

// sgd is torch.optim.SGD: weight decay adds decay times the value to the gradient.
func sgd(x *float64, g, lr, decay float64) { *x -= lr * (g + decay**x) }

// table returns the device's table: the downloaded one plus its delta.
func (b *bench) table(t *testing.T) (out [tinyItems][tinyDim]float64) {
	t.Helper()
	if b.plan.Slots[tinyItem].Scope == method.Private {
		o := &b.state.Tables[0]
		for i := range out {
			for k := range out[i] {
				out[i][k] = o.BaseScale * float64(b.mem.Value(tinyItem)[i*8+k])
			}
		}
		for at, id := range o.IDs {
			for k := range out[id] {
				out[id][k] = o.Scale * float64(o.Data[at*8+k])
			}
		}
		return out
	}
	p := b.Delta(0).Parts[0]
	for i := range out {
		for k := range out[i] {
			out[i][k] = (1 + p.Shrunk) * float64(b.mem.Value(tinyItem)[i*8+k])
		}
	}
	for at, id := range p.IDs {
		for k := range out[id] {
			out[id][k] += float64(p.Data[at*p.Dim+k])
		}
	}
	return out
}

// agree compares all values of a device after local training with the reference.
func (b *bench) agree(t *testing.T, when string, d *dense, tol float64) {
	t.Helper()
	off := func(got, want float64) bool { return !(math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))) }
	got := b.table(t)
	for i := range got {
		for k := range got[i] {
			if off(got[i][k], d.item[i][k]) {
				t.Fatalf("%s: item %d element %d is %.7g, the dense optimiser has %.7g", when, i, k, got[i][k],
					d.item[i][k])
			}
		}
	}
	for k := range d.vector {
		if g := float64(b.state.Plain[k]); off(g, d.vector[k]) {
			t.Fatalf("%s: element %d of the vector is %.7g, the dense optimiser has %.7g", when, k, g, d.vector[k])
		}
	}
	if g := float64(b.state.Plain[8]); off(g, d.bias) {
		t.Fatalf("%s: the bias is %.7g, the dense optimiser has %.7g", when, g, d.bias)
	}
}
