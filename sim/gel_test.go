package sim

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// A second opinion on FedRecGEL: whole tables of float64, NeuMF with two hidden
// layers, and gradients as the formulas read.

// gelPoint is a point, or a gradient at one: its numbers by slot and row.
type gelPoint map[string][][]float64

var gelUser = map[string]bool{"user.gmf": true, "user.mlp": true}

func (p gelPoint) copy() gelPoint {
	out := gelPoint{}
	for name, rows := range p {
		for _, r := range rows {
			out[name] = append(out[name], append([]float64(nil), r...))
		}
	}
	return out
}

func (p gelPoint) each(q gelPoint, do func(name string, x, y *float64)) {
	for name, rows := range p {
		for r := range rows {
			for k := range rows[r] {
				do(name, &rows[r][k], &q[name][r][k])
			}
		}
	}
}

// grad is the gradient of the sum over pieces of the mean cross entropy in each.
func (p gelPoint) grad(samples []naiveSample, piece int) gelPoint {
	g := p.copy()
	g.each(p, func(_ string, x, _ *float64) { *x = 0 })
	for lo := 0; lo < len(samples); lo += piece {
		part := samples[lo:min(lo+piece, len(samples))]
		for _, s := range part {
			p.back(s, 1/float64(len(part)), g)
		}
	}
	return g
}

func (p gelPoint) back(s naiveSample, weight float64, g gelPoint) {
	x := [3][]float64{append(append([]float64(nil), p["user.mlp"][0]...), p["item.mlp"][s.item]...)}
	for l, name := range []string{"1", "2"} {
		for o, row := range p["weight."+name] {
			sum := p["bias."+name][0][o]
			for i, w := range row {
				sum += w * x[l][i]
			}
			x[l+1] = append(x[l+1], math.Max(sum, 0))
		}
	}
	z := p["head.bias"][0][0]
	for k, h := range p["head.mlp"][0] {
		z += h * x[2][k]
	}
	for k, h := range p["head.gmf"][0] {
		z += h * p["user.gmf"][0][k] * p["item.gmf"][s.item][k]
	}
	e := weight * (1/(1+math.Exp(-z)) - s.y)
	g["head.bias"][0][0] += e
	for k, h := range p["head.gmf"][0] {
		u, v := p["user.gmf"][0][k], p["item.gmf"][s.item][k]
		g["head.gmf"][0][k] += e * u * v
		g["user.gmf"][0][k] += e * h * v
		g["item.gmf"][s.item][k] += e * h * u
	}
	d := make([]float64, len(x[2]))
	for k, h := range p["head.mlp"][0] {
		g["head.mlp"][0][k] += e * x[2][k]
		d[k] = e * h
	}
	for l := 1; l >= 0; l-- {
		name := []string{"1", "2"}[l]
		down := make([]float64, len(x[l]))
		for o, row := range p["weight."+name] {
			if x[l+1][o] <= 0 {
				continue
			}
			g["bias."+name][0][o] += d[o]
			for i, w := range row {
				g["weight."+name][o][i] += d[o] * x[l][i]
				down[i] += d[o] * w
			}
		}
		d = down
	}
	half := len(p["user.mlp"][0])
	for k := range half {
		g["user.mlp"][0][k] += d[k]
		g["item.mlp"][s.item][k] += d[half+k]
	}
}

// sharp is the gradient of one group beside the point that this group has left.
func (p gelPoint) sharp(g gelPoint, user bool, rho float64, samples []naiveSample, piece int) gelPoint {
	norm := 0.0
	g.each(p, func(name string, x, _ *float64) {
		if gelUser[name] == user {
			norm += *x * *x
		}
	})
	moved := p.copy()
	moved.each(g, func(name string, x, d *float64) {
		if gelUser[name] == user {
			*x += rho * *d / (math.Sqrt(norm) + 1e-12)
		}
	})
	return moved.grad(samples, piece)
}

// gelAdam is PyTorch's Adam on the slots of a group.
type gelAdam struct {
	m, v gelPoint
	t    float64
}

func newGelAdam(p gelPoint) *gelAdam {
	a := &gelAdam{m: p.copy(), v: p.copy()}
	a.m.each(a.v, func(_ string, x, y *float64) { *x, *y = 0, 0 })
	return a
}

func (a *gelAdam) step(p, g gelPoint, user bool, lr float64) {
	a.t++
	a.m.each(g, func(_ string, m, x *float64) { *m = 0.9**m + 0.1**x })
	a.v.each(g, func(_ string, v, x *float64) { *v = 0.999**v + 0.001**x**x })
	move := a.m.copy()
	move.each(a.v, func(_ string, m, v *float64) {
		*m = lr * (*m / (1 - math.Pow(0.9, a.t))) / (math.Sqrt(*v/(1-math.Pow(0.999, a.t))) + 1e-8)
	})
	p.each(move, func(name string, x, d *float64) {
		if gelUser[name] == user {
			*x -= *d
		}
	})
}

func TestFedRecGELAgreesWithANaiveProgram(t *testing.T) {
	m := &methods.FedRecGEL{}
	configure(t, m, "dim", "5", "layers", "7,3", "rho-shared", "0.2", "rho-user", "0.3", "server-lr", "0.02")
	o := defaults()
	o.Rounds, o.Batch = 4, 8
	o.Cohort.Kind, o.Cohort.Share = "share", 0.5
	r := start(t, m, small(t, "fedrecgel"), o, 2)
	probe, slots := newProbe(t, r), r.fleet.plan.Slots
	point, users := gelPoint{}, make([]gelPoint, r.fleet.Count())
	own := map[string]int{"user.gmf": 0, "user.mlp": 8} // in a device's state
	for i, s := range slots[:11] {
		if point[s.Name] = wideRows(r.engine.Value[i], s.Rows, (s.Dim+7)/8*8, s.Dim); s.Scope == method.Private {
			point[s.Name] = wideRows(r.engine.Value[i], 1, 8, s.Dim)
		}
	}
	server, mine := newGelAdam(point), make([]*gelAdam, len(users))
	for u := range users {
		users[u], mine[u] = point.copy(), newGelAdam(point)
	}
	for at := range o.Rounds {
		ids := o.Cohort.Draw(1, at, len(users), nil)
		mean := newGelAdam(point).m
		for _, u := range ids {
			p := point.copy()
			p["user.gmf"], p["user.mlp"] = users[u]["user.gmf"], users[u]["user.mlp"]
			samples := probe.samples(int(u), at)
			g := p.grad(samples, o.Batch)
			shared, own := p.sharp(g, false, 0.2, samples, o.Batch), p.sharp(g, true, 0.3, samples, o.Batch)
			mine[u].step(users[u], own, true, 0.1)
			mean.each(shared, func(_ string, x, y *float64) { *x += *y / float64(len(ids)) })
		}
		server.step(point, mean, false, 0.02)
		step(t, r)
		for i, s := range slots[:11] {
			for k, want := range point[s.Name] {
				if s.Scope == method.Shared {
					mustAgree(t, s.Name, r.engine.Value[i][k*((s.Dim+7)/8*8):], want)
				}
			}
		}
		for u := range users {
			for name, place := range own {
				mustAgree(t, name, r.fleet.state[u].Plain[place:], users[u][name][0])
			}
		}
	}
}

// plainGEL is FedRecGEL that has never heard of SAM.
type plainGEL struct{ methods.FedRecGEL }

func (m *plainGEL) Visit(int) method.Visit {
	var rules []learn.Rule
	for i, s := range m.Slots(1)[:13] {
		switch {
		case s.Scope == method.Private:
			rules = append(rules, learn.Adam(i, m.LR, true))
		case s.Scope == method.Shared:
			rules = append(rules, learn.SendGradient(i))
		}
	}
	return learn.Once(learn.Descend(learn.InSubBatches(learn.BCE(m)), rules...))
}

func TestFedRecGELWithoutRhoIsThePlainMethodToTheBit(t *testing.T) {
	o := defaults()
	o.Rounds, o.Batch = 5, 16
	o.Cohort.Kind, o.Cohort.Share = "share", 0.3
	digest := func(m method.Method, jobs int, rho string) string {
		configure(t, m, "rho-shared", rho, "rho-user", rho)
		r := start(t, m, small(t, "fedrecgel"), o, jobs)
		finish(t, r)
		return r.Digest()
	}
	sam, plain := digest(&methods.FedRecGEL{}, 2, "0"), digest(&plainGEL{}, 3, "0")
	if sam != plain {
		t.Errorf("digest without rho is %s, of the plain method %s", sam, plain)
	}
	if sharp := digest(&methods.FedRecGEL{}, 1, "0.02"); sharp == sam {
		t.Error("rho changes nothing")
	}
}

// Without validation the last round is reported; what test would choose is told,
// and a resume remembers it.
func TestWithoutValidationTheLastRoundIsReported(t *testing.T) {
	o := defaults()
	o.Rounds = 12
	r := start(t, pfedrec(t), small(t, "fedrecgel"), o, 2)
	best, at := -1.0, 0
	for !r.Done() {
		e := step(t, r)
		if e.Valid.Sampled != nil || !e.Best {
			t.Fatalf("round %d: validation %v, best so far: %v", e.Round, e.Valid.Sampled, e.Best)
		}
		if hr := e.Test.Sampled["hr@10"]; hr > best {
			best, at = hr, e.Round
		}
		if e.Round == 6 {
			var file bytes.Buffer
			again := start(t, pfedrec(t), small(t, "fedrecgel"), o, 1)
			if err := r.Save(&file, "x"); err != nil {
				t.Fatal(err)
			}
			if err := again.Load(&file, "x"); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again.TestBest, r.TestBest) {
				t.Errorf("a resume has %+v, want %+v", again.TestBest, r.TestBest)
			}
		}
	}
	if r.Selected != 12 || r.TestBest.Round != at || r.TestBest.Test.Sampled["hr@10"] != best {
		t.Errorf("round %d is reported and %d is best on test, want 12 and %d", r.Selected, r.TestBest.Round, at)
	}
	if deployed := start(t, pfedrec(t), small(t, "deployed"), o, 1); step(t, deployed).Valid.Sampled == nil ||
		deployed.TestBest != nil {
		t.Error("where there is validation, test chooses nothing")
	}
}
