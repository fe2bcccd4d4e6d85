package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
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

// naiveRound visits all devices on two goroutines and averages what they send.
func naiveRound(table [][]float64, devices []*naiveDevice, samples func(u int) []naiveSample, c naiveConfig) (trained int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	sum := map[uint32][]float64{}
	for g := range 2 {
		wg.Go(func() {
			for u := g; u < len(devices); u += 2 {
				s := samples(u)
				update := naiveVisit(table, devices[u], s, c)
				mu.Lock()
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
			table[i][k] += r[k] / float64(len(devices))
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
	m := r.Engine.Method.(*methods.PFedRec)
	stride := len(r.Engine.Value[0]) / r.Engine.Items
	wide := func(xs []float32) (out []float64) {
		for _, x := range xs {
			out = append(out, float64(x))
		}
		return out
	}
	for i := range r.Engine.Items {
		table = append(table, wide(r.Engine.Value[0][i*stride:i*stride+m.Dim]))
	}
	for u := range r.Fleet.state {
		p := r.Fleet.state[u].Plain
		devices = append(devices, &naiveDevice{wide(p[:m.Dim]), float64(p[stride])})
	}
	return table, devices
}

// The fleet draws the samples, and both learn from them.
func TestTheFleetAgreesWithANaiveProgram(t *testing.T) {
	for _, dim := range []int{5, 32} {
		m := pfedrec(t)
		m.Dim = dim
		o := defaults()
		o.Rounds, o.Batch = 4, 16
		r := start(t, m, small(t, "paper"), o, 2)
		table, devices := naiveStart(r)
		probe := newProbe(t, r)
		c := naiveConfig{lr: 0.1, itemLR: 0.1 * float64(r.Engine.Items) * 80, batch: 16}
		for round := range o.Rounds {
			naiveRound(table, devices, func(u int) []naiveSample { return probe.samples(u, round) }, c)
			step(t, r)
			agrees(t, r, table, devices, round)
		}
	}
}

// probe draws what the fleet draws.
type probe struct {
	mu     sync.Mutex
	worker *device.Worker
	split  *data.Split
	part   data.Part
}

func newProbe(t *testing.T, r *Run) *probe {
	t.Helper()
	o := r.Fleet.Plan.Options
	o.Plain = true
	p, err := device.NewPlan(r.Engine.Method, o)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := device.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &probe{worker: device.NewWorker(mem, 0), split: r.Fleet.split}
}

func (p *probe) samples(u, round int) (out []naiveSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.split.User(u, &p.part)
	w := p.worker.Open(new(device.State), &device.Task{Device: uint32(u), Round: round, Train: p.part.Train, Hide: p.split.Hidden(&p.part)})
	for x, item := range w.Samples.Item {
		out = append(out, naiveSample{item, float64(w.Samples.Y[x])})
	}
	return out
}

func agrees(t *testing.T, r *Run, table [][]float64, devices []*naiveDevice, round int) {
	t.Helper()
	off := func(got float32, want float64) bool {
		return !(math.Abs(float64(got)-want) <= 1e-3*math.Max(1, math.Abs(want)))
	}
	stride := len(r.Engine.Value[0]) / r.Engine.Items
	for i := range table {
		for k, want := range table[i] {
			if got := r.Engine.Value[0][i*stride+k]; off(got, want) {
				t.Fatalf("round %d: item %d place %d is %g, the naive program has %g", round+1, i, k, got, want)
			}
		}
	}
	for u, d := range devices {
		p := r.Fleet.state[u].Plain
		for k, want := range d.w {
			if off(p[k], want) {
				t.Fatalf("round %d: user %d place %d is %g, the naive program has %g", round+1, u, k, p[k], want)
			}
		}
		if off(p[stride], d.b) {
			t.Fatalf("round %d: the bias of user %d is %g, the naive program has %g", round+1, u, p[stride], d.b)
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
		src = w.Load()
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
	split, c := r.Fleet.split, naiveConfig{lr: 0.1, itemLR: 0.1 * float64(r.Engine.Items) * 80, batch: 256}
	b.ReportAllocs()
	n, round := 0, uint64(0)
	for b.Loop() {
		round++
		n += naiveRound(table, devices, func(u int) []naiveSample {
			var p data.Part
			split.User(u, &p)
			return naiveDraw(split.Items(), p.Train, p.Held(), rand.New(rand.NewPCG(round, uint64(u))))
		}, c)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "samples/s")
}
