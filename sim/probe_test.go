package sim

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

func everyone(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func trained(t *testing.T, m method.Method, rounds, jobs int) *Run {
	t.Helper()
	o := defaults()
	o.Rounds = rounds
	r := start(t, m, small(t, "deployed"), o, jobs)
	finish(t, r)
	return r
}

func probeOf(t *testing.T, r *Run, jobs int) *Probe {
	t.Helper()
	p, why := r.NewProbe(learn.LossNamed("bce"), everyone(r.fleet.Count()), 1<<20, jobs)
	if p == nil {
		t.Fatal(why)
	}
	return p
}

// The loss of PFedRec by hand: samples as they are drawn, a dot product, a logarithm.
func TestAProbeMeasuresTheTrainingLoss(t *testing.T) {
	r := trained(t, pfedrec(t, "dim", "8", "eta", "4"), 6, 2)
	want, n := 0.0, 0
	f := r.fleet
	for u := range f.Count() {
		l := f.lanes[0]
		f.open(l, u, r.engine.Next-1)
		s := f.state[u].Plain
		for _, raw := range l.DrawSamples(&l.task) {
			row := r.engine.Value[0][int(raw&^(1<<31))*8:]
			z := float64(s[8]) // the bias lies behind the vector
			for k := range 8 {
				z += float64(row[k]) * float64(s[k])
			}
			if raw>>31 == 1 {
				z = -z
			}
			want += math.Log1p(math.Exp(z))
			n++
		}
	}
	want /= float64(n)
	for _, jobs := range []int{1, 3} {
		p := probeOf(t, r, jobs)
		got := p.Loss()
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("loss is %g with %d workers, want %g", got, jobs, want)
		}
		if _, samples := p.Devices(); samples != n {
			t.Errorf("%d samples count, want %d", samples, n)
		}
		if again := p.Loss(); again != got {
			t.Errorf("asked again the loss is %g, not %g", again, got)
		}
	}
}

func TestTheGradientOfAProbeIsTheFiniteDifference(t *testing.T) {
	ncf := &methods.FedNCF{}
	configure(t, ncf, "dim", "4", "layers", "8")
	gel := &methods.FedRecGEL{}
	configure(t, gel, "dim", "4", "layers", "8,4")
	for name, m := range map[string]method.Method{
		"pfedrec": pfedrec(t, "dim", "8", "eta", "4"), "fedncf": ncf,
		"fedrecgel": gel,
	} {
		r := trained(t, m, 4, 2)
		p := probeOf(t, r, 2)
		g := p.Gradient()
		checked := 0
		for k := range p.Slots {
			v := p.Value(k)
			for x := 0; x < len(v); x += 1 + len(v)/25 {
				const h = 3e-3
				old := v[x]
				v[x] = old + h
				up := p.Loss()
				v[x] = old - h
				down := p.Loss()
				v[x] = old
				want := (up - down) / (2 * h)
				if math.Abs(float64(g[k][x])-want) > 6e-5+0.03*math.Abs(want) {
					t.Errorf("%s slot %s place %d: the gradient is %g, the finite difference %g", name, p.Slot(k).Name,
						x, g[k][x], want)
				}
				if want != 0 {
					checked++
				}
			}
		}
		if checked < 10 {
			t.Errorf("%s: only %d places have a gradient: nothing is proved", name, checked)
		}
	}
}

func TestLookingAtARunChangesNothing(t *testing.T) {
	for _, rounds := range []int{3, 5} { // half way, and at the end
		o := defaults()
		o.Rounds = 5
		r, other := start(t, pfedrec(t), small(t, "deployed"), o, 2), start(t, pfedrec(t), small(t, "deployed"), o, 2)
		for range rounds {
			step(t, r)
			step(t, other)
		}
		r.CompareTables(everyone(20))
		slot, _, _ := r.ItemTable()
		r.Inspect(3, slot)
		p := probeOf(t, r, 2)
		p.Value(0)[0] += 5
		p.Loss()
		p.Gradient()
		finish(t, r)
		finish(t, other)
		if r.Digest() != other.Digest() {
			t.Errorf("a run that was looked at after round %d has other bits than one that was not", rounds)
		}
	}
}

func TestMethodsWithoutALandscapeSayWhy(t *testing.T) {
	for _, name := range []string{"mf", "fcf", "fedrecon", "local"} {
		e, err := methods.Default().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		r := trained(t, e.Build(), 2, 1)
		if p, why := r.NewProbe(learn.LossNamed("bce"), everyone(5), 100, 1); p != nil || why == "" {
			t.Errorf("%s has a landscape %v, reason %q; want none, and a reason", name, p != nil, why)
		}
	}
}

func TestInspectShowsTablesAsServed(t *testing.T) {
	r := trained(t, pfedrec(t, "dim", "8"), 30, 2)
	in := r.CompareTables(everyone(40))
	hr := func(p []metrics.Rank) float64 { return metrics.Of(p, metrics.Against).HR10() }
	if in.Random == nil || metrics.Of(in.Own, metrics.Against).Users != 40 {
		t.Fatalf("inference is %+v, want three tables for 40 users", in)
	}
	if hr(in.Own) < hr(in.Random) && hr(in.Global) < hr(in.Random) {
		t.Errorf("HR@10 is %.3f own, %.3f global and %.3f with a stranger's table: the stranger's should not be best",
			hr(in.Own), hr(in.Global), hr(in.Random))
	}
	slot, dim, ok := r.ItemTable()
	if !ok || dim != 8 {
		t.Fatalf("item table %d of %d: %v", slot, dim, ok)
	}
	s := r.Inspect(4, slot)
	head := cloneState(&r.fleet.state[4])
	f := r.fleet
	f.open(f.lanes[0], 4, r.engine.Next-1)
	f.lanes[0].Visit(&head, &f.lanes[0].task, -1, false)
	for i := range f.split.Items() { // own scores are the head on the own table
		z := float64(head.Plain[8])
		for k := range 8 {
			z += float64(head.Plain[k]) * float64(s.Table[i*8+k])
		}
		if math.Abs(z-float64(s.Own[i])) > 1e-3*(1+math.Abs(z)) {
			t.Fatalf("item %d scores %g, its own row says %g", i, s.Own[i], z)
		}
	}
	if len(s.Drawn) == 0 || len(s.Train) == 0 {
		t.Error("a device has no positives or no negatives")
	}
}
