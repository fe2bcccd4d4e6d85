package factorisation

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
)

// starOnPaper scores every sample of a batch in float64, as the paper defines it.
func starOnPaper(e, n [][]float64, y []float32, u []float64, bias, near, graph float64) []float64 {
	d := len(u)
	dot := func(a, b []float64) (s float64) {
		for k := range a {
			s += a[k] * b[k]
		}
		return s
	}
	h, sum, q := make([][]float64, len(e)), 0.0, append([]float64(nil), u...)
	for x := range e {
		h[x] = make([]float64, d)
		for k := range d {
			h[x][k] = e[x][k] + near*n[x][k]
		}
		if y[x] == 1 {
			sum += math.Exp(dot(u, h[x]) / math.Sqrt(float64(d)))
		}
	}
	for x := range e {
		for k := range d {
			if y[x] == 1 {
				q[k] += graph * math.Exp(dot(u, h[x])/math.Sqrt(float64(d))) / sum * h[x][k]
			}
		}
	}
	z := make([]float64, len(e))
	for x := range z {
		z[x] = dot(q, h[x]) + bias
	}
	return z
}

// gnnAtWork returns a device whose items have neighbours.
func gnnAtWork(t *testing.T, m *FedPerGNN) (*method.Work, rng.Rand) {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{Items: 40, Rounds: 2, Batch: 64, Negatives: 2, Seed: 1, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rng.New(rng.Test)
	for i := range mem.Value(gnnNear) {
		if i%8 < m.Dim {
			mem.Value(gnnNear)[i] = float32(r.Norm())
		}
	}
	k, st := local.NewWorker(mem, 0), mem.NewState(nil)
	return k.ResolveSamples(&st, &local.Task{Train: []uint32{3, 17, 3, 8, 29, 0, 12}}), r
}

func TestFedPerGNNsGradientIsTheFiniteDifference(t *testing.T) {
	m := testworld.Set(t, method.Entry{New: func() method.Method { return &FedPerGNN{} }}.Build(), "dim=5", "near=0.7",
		"graph=0.9").(*FedPerGNN)
	w, r := gnnAtWork(t, m)
	b := w.Batch(0, len(w.Samples.Item))
	z, dz := make([]float32, b.N), make([]float32, b.N)
	it, near := &w.View[learn.ItemSlot], &w.View[gnnNear]
	wide := func(x []float32) (out []float64) {
		for _, v := range x[:m.Dim] {
			out = append(out, float64(v))
		}
		return out
	}
	e, n := make([][]float64, b.N), make([][]float64, b.N)
	byPos := map[uint32][]float64{}
	for x := range e {
		if p := b.Pos[x]; byPos[p] == nil {
			byPos[p] = wide(it.Row(b.Rd[learn.ItemSlot][x]))
		}
		e[x], n[x] = byPos[b.Pos[x]], wide(near.Row(b.Item[x]))
		dz[x] = float32(2*r.Float64() - 1)
	}
	u, bias := wide(w.View[learn.UserSlot].Val), float64(w.View[learn.LayerSlot].Val[0])
	value := func() (s float64) {
		for x, v := range starOnPaper(e, n, b.Y, u, bias, 0.7, 0.9) {
			s += v * float64(dz[x])
		}
		return s
	}
	m.Logits(w, b, z)
	for x, want := range starOnPaper(e, n, b.Y, u, bias, 0.7, 0.9) {
		if math.Abs(float64(z[x])-want) > 1e-4*math.Max(1, math.Abs(want)) {
			t.Errorf("logit %d is %g, on paper %g", x, z[x], want)
		}
	}
	w.ClearGrads(b)
	m.Back(w, b, dz)
	check := func(what string, x *float64, got float32) {
		if want := testworld.Slope(x, value); math.Abs(float64(got)-want) > 1e-4*math.Max(1, math.Abs(want)) {
			t.Errorf("the gradient of the %s is %g, the finite difference %g", what, got, want)
		}
	}
	for i := range u {
		check("user", &u[i], w.View[learn.UserSlot].Grad[i])
	}
	check("bias", &bias, w.View[learn.LayerSlot].Grad[0])
	for p, row := range byPos {
		for i := range row {
			check("item", &row[i], it.GradRow(p)[i])
		}
	}
}

func TestFedPerGNNWithoutItsGraphIsFedMF(t *testing.T) {
	_, _, a := testworld.Trained(t, testworld.Set(t,
		method.Entry{New: func() method.Method { return &FedPerGNN{} }}.Build(), "near=0", "graph=0"), true)
	_, _, b := testworld.Trained(t, testworld.Set(t,
		method.Entry{New: func() method.Method { return &FedMF{} }}.Build()), true)
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); d > 1e-3*math.Max(1, math.Abs(float64(b[i]))) {
			t.Fatalf("place %d of the item table is %g, of FedMF's it is %g", i, a[i], b[i])
		}
	}
}

// The coordinator's neighbours are the softmax over all devices that have the item.
func TestNeighboursAreASoftmaxOverTheDevices(t *testing.T) {
	// learning rates are 0, so one round is enough
	m := testworld.Set(t, method.Entry{New: func() method.Method { return &FedPerGNN{} }}.Build(), "lr=0", "near=0",
		"graph=0")
	run, _, _ := testworld.Trained(t, m, false)
	near, stride := run.Value(gnnNear), 32
	u := run.Value(learn.UserSlot) // the same on all devices
	some := 0
	for i := range len(near) / stride {
		if near[i*stride] == 0 {
			continue
		}
		some++
		for k, want := range u[:m.(*FedPerGNN).Dim] {
			if got := near[i*stride+k]; math.Abs(float64(got-want)) > 1e-5 {
				t.Fatalf("item %d: the mean of equal vectors is %g at %d, want %g", i, got, k, want)
			}
		}
	}
	if some < 50 {
		t.Errorf("only %d items have neighbours", some)
	}
}
