package sim

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// A second opinion on FedNCF and FedRecon: their rounds in float64, one batch a
// visit, as the papers' formulas read.

// naiveNet is a network of one hidden layer on a user's and an item's vector.
type naiveNet struct {
	w1 [][]float64 // hidden by user and item
	b1 []float64
	w2 []float64
	b2 float64
}

func (n *naiveNet) clone() *naiveNet {
	c := &naiveNet{b1: append([]float64(nil), n.b1...), w2: append([]float64(nil), n.w2...), b2: n.b2}
	for _, r := range n.w1 {
		c.w1 = append(c.w1, append([]float64(nil), r...))
	}
	return c
}

// visit takes one step on everything and returns the changed copies.
func (n *naiveNet) visit(user []float64, table [][]float64, samples []naiveSample, lr, userLR,
	itemLR float64,
) (*naiveNet, []float64, map[uint32][]float64) {
	after, newUser := n.clone(), append([]float64(nil), user...)
	rows := map[uint32][]float64{}
	for _, s := range samples {
		if rows[s.item] == nil {
			rows[s.item] = append([]float64(nil), table[s.item]...)
		}
	}
	for _, s := range samples {
		x := append(append([]float64(nil), user...), table[s.item]...)
		h, z := make([]float64, len(n.b1)), n.b2
		for o := range h {
			h[o] = n.b1[o]
			for i := range x {
				h[o] += n.w1[o][i] * x[i]
			}
			h[o] = math.Max(h[o], 0)
			z += n.w2[o] * h[o]
		}
		e := (1/(1+math.Exp(-z)) - s.y) / float64(len(samples))
		after.b2 -= lr * e
		for o := range h {
			after.w2[o] -= lr * e * h[o]
			if h[o] == 0 {
				continue
			}
			d := e * n.w2[o]
			after.b1[o] -= lr * d
			for i := range x {
				after.w1[o][i] -= lr * d * x[i]
				if i < len(user) {
					newUser[i] -= userLR * d * n.w1[o][i]
				} else {
					rows[s.item][i-len(user)] -= itemLR * d * n.w1[o][i]
				}
			}
		}
	}
	return after, newUser, rows
}

func wideRows(xs []float32, rows, stride, dim int) (out [][]float64) {
	for i := range rows {
		var r []float64
		for _, x := range xs[i*stride : i*stride+dim] {
			r = append(r, float64(x))
		}
		out = append(out, r)
	}
	return out
}

// addShare adds what one of n devices changed.
func addShare(to, after, before []float64, n float64) {
	for k := range to {
		to[k] += (after[k] - before[k]) / n
	}
}

func mustAgree(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for k := range want {
		if math.Abs(float64(got[k])-want[k]) > 1e-3*math.Max(1, math.Abs(want[k])) {
			t.Fatalf("%s: place %d is %g, the naive program has %g", what, k, got[k], want[k])
		}
	}
}

func TestFedNCFAgreesWithANaiveProgram(t *testing.T) {
	m := &methods.FedNCF{}
	configure(t, m, "dim", "5", "layers", "7", "eta", "8", "user-eta", "4")
	o := defaults()
	o.Rounds, o.Batch = 3, 1<<16
	r := start(t, m, small(t, "paper"), o, 2)
	const item, user, w1, b1, w2, b2 = 0, 1, 2, 3, 4, 5
	v := r.engine.Value
	table := wideRows(v[item], r.engine.Plan.Items, 8, 5)
	net := &naiveNet{
		wideRows(v[w1], 7, 16, 10), wideRows(v[b1], 1, 8, 7)[0], wideRows(v[w2], 1, 8, 7)[0],
		float64(v[b2][0]),
	}
	var users [][]float64
	for u := range r.fleet.state {
		users = append(users, wideRows(r.fleet.state[u].Plain, 1, 8, 5)[0])
	}
	probe := newProbe(t, r)
	for at := range o.Rounds {
		next, rows := net.clone(), wideRows(v[item], r.engine.Plan.Items, 8, 5)
		for i := range rows {
			copy(rows[i], table[i])
		}
		n := float64(len(users))
		for u := range users {
			after, mine, moved := net.visit(users[u], table, probe.samples(u, at), 0.1, 0.4,
				0.1*8*float64(r.engine.Plan.Items))
			users[u] = mine
			for o := range next.w1 {
				addShare(next.w1[o], after.w1[o], net.w1[o], n)
			}
			addShare(next.b1, after.b1, net.b1, n)
			addShare(next.w2, after.w2, net.w2, n)
			next.b2 += (after.b2 - net.b2) / n
			for i, row := range moved {
				addShare(rows[i], row, table[i], n)
			}
		}
		net, table = next, rows
		step(t, r)
		for i := range table {
			mustAgree(t, "an item's row", v[item][i*8:], table[i])
		}
		for o := range net.w1 {
			mustAgree(t, "a row of weights", v[w1][o*16:], net.w1[o])
		}
		mustAgree(t, "the biases", v[b1], net.b1)
		mustAgree(t, "the output's weights", v[w2], net.w2)
		mustAgree(t, "the output's bias", v[b2], []float64{net.b2})
		for u := range users {
			mustAgree(t, "a user's vector", r.fleet.state[u].Plain, users[u])
		}
	}
}

// FedRecon keeps nothing of the user: every round starts from the same vector.
func TestFedReconAgreesWithANaiveProgram(t *testing.T) {
	m := &methods.FedRecon{}
	configure(t, m, "dim", "5", "eta", "8", "recon", "3", "recon-lr", "0.7")
	o := defaults()
	o.Rounds, o.Batch = 3, 1<<16
	r := start(t, m, small(t, "paper"), o, 2)
	v := r.engine.Value
	table := wideRows(v[0], r.engine.Plan.Items, 8, 5)
	first := naiveDevice{wideRows(v[1], 1, 8, 5)[0], float64(v[2][0])}
	probe := newProbe(t, r)
	rebuilt := func(u, at int) *naiveDevice {
		d := &naiveDevice{append([]float64(nil), first.w...), first.b}
		for range 3 {
			naiveVisit(table, d, probe.samples(u, at), naiveConfig{lr: 0.7, batch: 1 << 16}) // the rows stay
		}
		return d
	}
	for at := range o.Rounds {
		rows := wideRows(v[0], r.engine.Plan.Items, 8, 5)
		for i := range rows {
			copy(rows[i], table[i])
		}
		for u := range r.fleet.state {
			moved := naiveVisit(table, rebuilt(u, at), probe.samples(u, at),
				naiveConfig{itemLR: 0.1 * 8 * float64(r.engine.Plan.Items), batch: 1 << 16})
			for i, d := range moved {
				for k := range d {
					rows[i][k] += d[k] / float64(len(r.fleet.state))
				}
			}
		}
		table = rows
		step(t, r)
		for i := range table {
			mustAgree(t, "an item's row", v[0][i*8:], table[i])
		}
		// To recommend, the vector is rebuilt against the new rows.
		l := r.fleet.lanes[0]
		r.fleet.open(l, 7, at)
		l.Prepare(&r.fleet.state[7], &l.task)
		scores := make([]float32, len(table))
		l.ScoreAll(scores)
		d := rebuilt(7, at)
		var want []float64
		for i := range table {
			z := d.b
			for k := range d.w {
				z += d.w[k] * table[i][k]
			}
			want = append(want, z)
		}
		mustAgree(t, "a score", scores, want)
	}
	for i := range r.fleet.plan.Slots {
		if r.fleet.plan.Slots[i].Scope == method.Private {
			t.Errorf("slot %q stays on the device", r.fleet.plan.Slots[i].Name)
		}
	}
}

// Noise is added to uploads only: after one round the tuned
// tables are measured as without it, and the coordinator's is not the same.
func TestNoiseIsOnTheUploadOnly(t *testing.T) {
	run := func(noise string) *Run {
		o := defaults()
		o.Rounds = 1
		if err := o.Noise.UnmarshalText([]byte(noise)); err != nil {
			t.Fatal(err)
		}
		r := start(t, pfedrec(t), small(t, "paper"), o, 2)
		step(t, r)
		return r
	}
	quiet, loud, again := run("none"), run("laplace:0.5"), run("laplace:0.5")
	for u, p := range quiet.Best.Test {
		if loud.Best.Test[u] != p {
			t.Fatalf("user %d is measured at %+v with noise and at %+v without", u, loud.Best.Test[u], p)
		}
	}
	if loud.Digest() != again.Digest() {
		t.Error("two runs with noise and one seed differ")
	}
	sum, n := 0.0, 0
	for i, x := range loud.engine.Value[0] {
		d := float64(x - quiet.engine.Value[0][i])
		sum += d * d
		n++
	}
	// The variance of the mean of 2n exponential differences is 2*0.25/n; that of so
	// many numbers is off by more than 4*sqrt(5/numbers) of itself once in 15,000.
	want := 2 * 0.25 / float64(loud.fleet.Count())
	if got := sum / float64(n); math.Abs(got/want-1) > 4*math.Sqrt(5/float64(n)) {
		t.Errorf("the noise on the mean has variance %g, want %g", got, want)
	}
	if got, want := loud.Bytes/loud.Devices, loud.fleet.plan.MaxBytesUp(); got != want {
		t.Errorf("a device sends %d bytes with noise on every row, want %d", got, want)
	}
	if quiet.Bytes >= loud.Bytes {
		t.Errorf("without noise %d bytes are sent, with it %d", quiet.Bytes, loud.Bytes)
	}
}

func TestAFederationsOptionsDoNotFitAMethodTrainedInOnePlace(t *testing.T) {
	for _, set := range []func(o *Options){
		func(o *Options) { o.Cohort.Kind, o.Cohort.Count = "count", 3 },
		func(o *Options) { o.Dropout = 0.1 },
		func(o *Options) { o.Straggle = 0.1 },
		func(o *Options) { o.Mean = "row" },
		func(o *Options) { o.Server.Rate = 0.5 },
		func(o *Options) { o.Noise.Kind, o.Noise.Scale = "gauss", 1 },
	} {
		m, o := &methods.MF{}, defaults()
		configure(t, m)
		set(&o)
		if _, err := New(m, small(t, "paper"), o, 1, 1); err == nil {
			t.Errorf("%+v is let through", o)
		}
	}
}
