package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/methods"
)

// The naive program below is PFedRec as a newcomer to Go would write it from the
// paper: float64, a map for a device's copy of the rows, closures, math.Exp, and
// whatever memory it takes. It is the second opinion on the fleet's arithmetic,
// and the yardstick of its speed.

type naiveSample struct {
	item uint32
	y    float64
}

// naiveDevice is what stays with a user.
type naiveDevice struct {
	w []float64
	b float64
}

type naiveConfig struct {
	lr, itemLR float64
	batch      int
}

// naiveVisit trains a device on its samples and returns how far its copies of the
// rows have moved.
func naiveVisit(table [][]float64, d *naiveDevice, samples []naiveSample, c naiveConfig) map[uint32][]float64 {
	local := map[uint32][]float64{}
	row := func(i uint32) []float64 {
		r, ok := local[i]
		if !ok {
			r = append([]float64(nil), table[i]...)
			local[i] = r
		}
		return r
	}
	predict := func(i uint32) float64 {
		z := d.b
		for k, x := range row(i) {
			z += d.w[k] * x
		}
		return 1 / (1 + math.Exp(-z))
	}
	for lo := 0; lo < len(samples); lo += c.batch {
		batch := samples[lo:min(lo+c.batch, len(samples))]
		n := float64(len(batch))
		gw, gb := make([]float64, len(d.w)), 0.0
		for _, s := range batch {
			e := (predict(s.item) - s.y) / n
			for k, x := range row(s.item) {
				gw[k] += e * x
			}
			gb += e
		}
		for k := range gw {
			d.w[k] -= c.lr * gw[k]
		}
		d.b -= c.lr * gb
		grads := map[uint32][]float64{}
		for _, s := range batch {
			e := (predict(s.item) - s.y) / n
			g := grads[s.item]
			if g == nil {
				g = make([]float64, len(d.w))
				grads[s.item] = g
			}
			for k := range g {
				g[k] += e * d.w[k]
			}
		}
		for i, g := range grads {
			r := row(i)
			for k := range r {
				r[k] -= c.itemLR * g[k]
			}
		}
	}
	for i, r := range local {
		for k := range r {
			r[k] -= table[i][k]
		}
	}
	return local
}

// naiveRound visits all devices on two goroutines and averages what they send. A
// device without samples is not there, and one that is late is not heard.
func naiveRound(table [][]float64, devices []*naiveDevice, samples func(u int) []naiveSample, late func(u int) bool,
	c naiveConfig,
) (trained int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	sum, heard := map[uint32][]float64{}, 0.0
	for g := range 2 {
		wg.Go(func() {
			for u := g; u < len(devices); u += 2 {
				s := samples(u)
				update := naiveVisit(table, devices[u], s, c)
				if len(s) == 0 || late(u) {
					continue
				}
				mu.Lock()
				heard++
				trained += len(s)
				for i, r := range update {
					t := sum[i]
					if t == nil {
						t = make([]float64, len(r))
						sum[i] = t
					}
					for k := range r {
						t[k] += r[k]
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, r := range sum {
		for k := range r {
			table[i][k] += r[k] / heard
		}
	}
	return trained
}

// naiveDraw draws four negatives for each positive and shuffles.
func naiveDraw(items int, train, hidden []uint32, r *rand.Rand) []naiveSample {
	not := map[uint32]bool{}
	for _, i := range slices.Concat(train, hidden) {
		not[i] = true
	}
	var out []naiveSample
	for _, i := range train {
		out = append(out, naiveSample{i, 1})
		for range 4 {
			j := r.Uint32N(uint32(items))
			for not[j] {
				j = r.Uint32N(uint32(items))
			}
			out = append(out, naiveSample{j, 0})
		}
	}
	r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// naiveStart makes the naive program's table and devices those of a run.
func naiveStart(r *Run) (table [][]float64, devices []*naiveDevice) {
	m := r.engine.Plan.Method.(*methods.PFedRec)
	stride := len(r.engine.Value[0]) / r.engine.Plan.Items
	wide := func(xs []float32) (out []float64) {
		for _, x := range xs {
			out = append(out, float64(x))
		}
		return out
	}
	for i := range r.engine.Plan.Items {
		table = append(table, wide(r.engine.Value[0][i*stride:i*stride+m.Dim]))
	}
	for u := range r.fleet.state {
		p := r.fleet.state[u].Plain
		devices = append(devices, &naiveDevice{wide(p[:m.Dim]), float64(p[stride])})
	}
	return table, devices
}

// The fleet draws the samples, and both learn from them.
func TestTheFleetAgreesWithANaiveProgram(t *testing.T) {
	for name, set := range map[string]func(m *methods.PFedRec, o *Options){
		"rows of 5":  func(m *methods.PFedRec, _ *Options) { m.Dim = 5 },
		"rows of 32": func(m *methods.PFedRec, _ *Options) { m.Dim = 32 },
		"drop-outs and stragglers": func(m *methods.PFedRec, o *Options) {
			m.Dim, o.Dropout, o.Straggle = 8, 0.3, 0.3
		},
		"a cohort": func(m *methods.PFedRec, o *Options) {
			m.Dim, o.Cohort = 8,
				round.Cohort{Kind: "count", Count: 11}
		},
		"the oracle": func(m *methods.PFedRec, o *Options) { m.Dim, o.Plain = 8, true },
		// At the paper's rate a batch of one is chaos: rounding decides.
		"one at a time": func(m *methods.PFedRec, o *Options) { m.Dim, m.Eta, o.Batch = 8, 1, 1 },
	} {
		m, o := pfedrec(t), defaults()
		o.Rounds, o.Batch = 4, 16
		set(m, &o)
		r := start(t, m, small(t, "paper"), o, 2)
		table, devices := naiveStart(r)
		probe := newProbe(t, r)
		c := naiveConfig{lr: 0.1, itemLR: 0.1 * float64(r.engine.Plan.Items) * float64(m.Eta), batch: o.Batch}
		for at := range o.Rounds {
			cohort := o.Cohort.Draw(1, at, len(devices), nil)
			samples := func(u int) []naiveSample {
				if !slices.Contains(cohort, uint32(u)) || r.fleet.isLost(u, at, rng.Dropout, o.Dropout) {
					return nil
				}
				return probe.samples(u, at)
			}
			late := func(u int) bool { return r.fleet.isLost(u, at, rng.Straggle, o.Straggle) }
			want := naiveRound(table, devices, samples, late, c)
			if e := step(t, r); e.Samples != want {
				t.Errorf("%s, round %d: %d samples count, want %d", name, at+1, e.Samples, want)
			}
			agrees(t, fmt.Sprintf("%s, round %d", name, at+1), r, table, devices)
		}
	}
}

// probe draws what the fleet draws.
type probe struct {
	mu     sync.Mutex
	worker *local.Worker
	split  *data.Split
	part   data.Part
}

func newProbe(t *testing.T, r *Run) *probe {
	t.Helper()
	o := r.fleet.plan.Options
	o.Plain = true
	p, err := local.NewPlan(r.engine.Plan.Method, o)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &probe{worker: local.NewWorker(mem, 0), split: r.fleet.split}
}

func (p *probe) samples(u, at int) (out []naiveSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.split.User(u, &p.part)
	w := p.worker.ResolveSamples(new(local.State), &local.Task{
		Device: uint32(u), Round: at, Train: p.part.Train,
		Hide: p.split.Hidden(&p.part),
	})
	for x, item := range w.Samples.Item {
		out = append(out, naiveSample{item, float64(w.Samples.Y[x])})
	}
	return out
}

func agrees(t *testing.T, when string, r *Run, table [][]float64, devices []*naiveDevice) {
	t.Helper()
	off := func(got float32, want float64) bool {
		return !(math.Abs(float64(got)-want) <= 1e-3*math.Max(1, math.Abs(want)))
	}
	stride := len(r.engine.Value[0]) / r.engine.Plan.Items
	for i := range table {
		for k, want := range table[i] {
			if got := r.engine.Value[0][i*stride+k]; off(got, want) {
				t.Fatalf("%s: item %d place %d is %g, the naive program has %g", when, i, k, got, want)
			}
		}
	}
	for u, d := range devices {
		p := r.fleet.state[u].Plain
		for k, want := range d.w {
			if off(p[k], want) {
				t.Fatalf("%s: user %d place %d is %g, the naive program has %g", when, u, k, p[k], want)
			}
		}
		if off(p[stride], d.b) {
			t.Fatalf("%s: the bias of user %d is %g, the naive program has %g", when, u, p[stride], d.b)
		}
	}
}

// benchSplit is ML-100K where it is, and else a world of about its size.
func benchSplit(b *testing.B) *data.Split {
	b.Helper()
	var src data.Source
	if dir := os.Getenv("TACIT_DATA"); dir != "" {
		s, err := data.Open(os.DirFS(dir), "ml-100k", data.Options{})
		if err != nil {
			b.Fatal(err)
		}
		src = s
	} else {
		cfg, err := data.ParseWorld("users=943,items=1682,mean-rows=106")
		if err != nil {
			b.Fatal(err)
		}
		w, err := data.NewWorld(cfg)
		if err != nil {
			b.Fatal(err)
		}
		src = w.Generate()
	}
	p, err := data.ProtocolNamed("paper")
	if err != nil {
		b.Fatal(err)
	}
	s, err := data.NewSplit(src, p, 1)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchRun(b *testing.B) *Run {
	b.Helper()
	o := defaults()
	o.Rounds, o.EvalEvery = 1_000_000, 1_000_000 // training only
	r, err := New(pfedrec(b), benchSplit(b), o, 1, 2)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkRound is a round of PFedRec with the paper's settings on two workers.
func BenchmarkRound(b *testing.B) {
	r := benchRun(b)
	step(b, r) // grows what grows
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		e, err := r.Step(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		n += e.Samples
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}

// BenchmarkNaiveRound is the same round by the naive program, on two goroutines.
func BenchmarkNaiveRound(b *testing.B) {
	r := benchRun(b)
	table, devices := naiveStart(r)
	split, c := r.fleet.split, naiveConfig{lr: 0.1, itemLR: 0.1 * float64(r.engine.Plan.Items) * 80, batch: 256}
	b.ReportAllocs()
	n, at := 0, uint64(0)
	for b.Loop() {
		at++
		n += naiveRound(table, devices, func(u int) []naiveSample {
			var p data.Part
			split.User(u, &p)
			return naiveDraw(split.Items(), p.Train, p.Held(), rand.New(rand.NewPCG(at, uint64(u))))
		}, func(int) bool { return false }, c)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}
