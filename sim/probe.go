package sim

import (
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// Probe computes the training loss of some devices at any values of the shared slots. It has
// its own memory and does not change the run.
type Probe struct {
	Slots []int // the shared slots whose values may be set
	plan  *local.Plan
	mem   *local.Memory
	split *data.Split
	round int
	loss  method.Loss
	back  method.Learner
	users []int
	most  int // largest number of samples per device
	state []local.State
	lanes []*probeLane
	sums  []float64
	ns    []int
}

type probeLane struct {
	*local.Worker
	part data.Part
	z    []float32
}

// NewProbe returns a probe of the run's current model. loss is the method's loss; at most the
// given number of each device's samples counts, drawn as in the last round. If the method has
// no such loss, NewProbe returns nil and the reason.
func (r *Run) NewProbe(loss method.Loss, users []int, samples, jobs int) (*Probe, string) {
	f := r.fleet
	learner, learns := f.plan.Method.(method.Learner)
	_, ready := method.As[method.Ready](f.plan.Method)
	switch {
	case f.plan.Central():
		return nil, "the method is trained in one place: devices have no loss"
	case !learns || f.plan.Visit.HistoryOnly:
		return nil, "the method solves its problem in closed form: it has no loss"
	case ready:
		return nil, "the method recomputes device values at every point: the loss is not a fixed function"
	}
	opt := f.plan.Options
	opt.Plain = true
	plan, err := local.NewPlan(f.plan.Method, opt)
	if err != nil {
		return nil, err.Error()
	}
	jobs = max(1, min(jobs, len(users)))
	mem, err := local.NewMemory(plan, 1, jobs)
	if err != nil {
		return nil, err.Error()
	}
	p := &Probe{
		plan: plan, mem: mem, split: f.split, round: max(0, r.engine.Next-1), loss: loss, back: learner,
		users: users, most: samples, sums: make([]float64, len(users)), ns: make([]int, len(users)),
	}
	for i, s := range plan.Slots {
		if copy(mem.Value(i), r.engine.Value[i]); s.Scope == method.Shared && s.Copied() {
			p.Slots = append(p.Slots, i)
		}
	}
	if len(p.Slots) == 0 {
		return nil, "the method has no shared parameters"
	}
	for _, u := range users {
		p.state = append(p.state, cloneState(&f.state[u]))
	}
	for j := range jobs {
		p.lanes = append(p.lanes, &probeLane{Worker: local.NewWorker(mem, j), z: make([]float32, plan.Batch)})
	}
	return p, ""
}

func cloneState(s *local.State) local.State {
	out := local.State{Plain: slices.Clone(s.Plain), Visits: s.Visits, Tables: make([]rows.Overlay, len(s.Tables))}
	for k := range s.Tables {
		out.Tables[k] = s.Tables[k].Clone()
	}
	return out
}

// Slot returns entry k of Slots, Value its numbers, which may be written; Flat reports whether
// it is a bias, and Devices counts devices and samples.
func (p *Probe) Slot(k int) method.Slot    { return p.plan.Slots[p.Slots[k]] }
func (p *Probe) Value(k int) []float32     { return p.mem.Value(p.Slots[k]) }
func (p *Probe) Flat(k int) bool           { return strings.Contains(p.Slot(k).Name, "bias") }
func (p *Probe) Devices() (n, samples int) { return len(p.users), sum(p.ns) }

func sum(xs []int) (s int) {
	for _, x := range xs {
		s += x
	}
	return s
}

// Loss is the mean loss per sample at the current values. It has the same bits for any number
// of workers.
func (p *Probe) Loss() float64 {
	each(p.lanes, len(p.users), func(l *probeLane, i int) {
		p.sums[i], p.ns[i] = 0, 0
		p.samples(l, i, func(w *method.Work, b *method.Batch, z []float32) {
			p.sums[i] += p.loss.Sum(b, z)
			p.ns[i] += b.N
		})
	})
	total := 0.0
	for _, s := range p.sums {
		total += s
	}
	return total / float64(max(1, sum(p.ns)))
}

// Gradient is the gradient of Loss, by slot.
func (p *Probe) Gradient() [][]float32 {
	p.Loss() // counts the samples
	scale := 1 / float32(max(1, sum(p.ns)))
	out := make([][]float32, len(p.Slots))
	for k := range out {
		out[k] = make([]float32, len(p.Value(k)))
	}
	for i := range p.users {
		l := p.lanes[0]
		p.samples(l, i, func(w *method.Work, b *method.Batch, z []float32) {
			w.ClearGrads(b)
			p.loss.Grad(&w.Scratch, b, scale, z)
			p.back.Back(w, b, z)
			for k, slot := range p.Slots {
				v := &w.View[slot]
				if !v.Slot.PerItem {
					for x, g := range v.Grad {
						out[k][x] += g
					}
					continue
				}
				item := map[uint32]uint32{} // by position
				for x, pos := range b.Pos {
					item[pos] = b.Item[x]
				}
				for _, pos := range b.Rows {
					row := out[k][int(item[pos])*v.Stride:][:v.Stride]
					for x, g := range v.GradRow(pos) {
						row[x] += g
					}
				}
			}
		})
	}
	return out
}

// samples calls do for each batch of a device, with its logits.
func (p *Probe) samples(l *probeLane, i int, do func(w *method.Work, b *method.Batch, z []float32)) {
	u := p.users[i]
	p.split.User(u, &l.part)
	task := local.Task{
		Device: uint32(u), Round: p.round, Train: l.part.Train, Rating: l.part.Rating,
		Hide: p.split.Hidden(&l.part),
	}
	w := l.ResolveSamples(&p.state[i], &task)
	if w == nil {
		return
	}
	w.WantLoss = true
	n := min(p.most, len(w.Samples.Item))
	for lo := 0; lo < n; lo += w.BatchSize {
		b := w.Batch(lo, min(lo+w.BatchSize, n))
		z := l.z[:b.N]
		p.plan.Method.Logits(w, b, z)
		do(w, b, z)
	}
}
