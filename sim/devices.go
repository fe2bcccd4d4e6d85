package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// devices simulates the devices of a split. It assigns them to a fixed number of shards. One
// goroutine trains the devices of a shard in a fixed order and adds their deltas to the sums
// of the shard; the sums are added in the order of the shards. So the number of workers
// changes no bit.
type devices struct {
	plan  *local.Plan
	mem   *local.Memory
	late  func(round, user int) bool // if set, which further devices miss the deadline
	split *data.Split
	opt   Options
	state []local.State
	lanes []*lane
	load  []int32       // train rows by user; nil if unknown
	deal  [][]uint32    // users by shard, for the current cohort
	whole bool          // deal is for all devices
	named []uint32      // the cohort by user, if some users are held out
	count []uint32      // by shard and item: devices that touched it
	loss  bool          // the round reports its training loss
	eval  *eval         // set if devices are evaluated right after training
	extra time.Duration // evaluation within the round, without that of the lanes
	tuned []overlay     // by user; only if devices are scored with each other's tables
	out   []bool        // by user: held out of training; nil if nobody is
	in    []uint32      // the users that take part; nil if all do

	masked   *masked        // nil if sums are not masked
	central  method.Central // nil for a federation
	pooled   *pooled
	integers []int64         // the round's sum, if devices send integers
	sum      round.Aggregate // the round's sums, if devices send floats
}

var _ round.Devices = (*devices)(nil)

// lane is the memory of one goroutine.
type lane struct {
	*local.Worker
	part    data.Part
	task    local.Task
	rep     round.Report
	evalled time.Duration
	scores
	block  block
	other  []float32 // scores with another device's table
	rating []float32 // by item, of one user; for a Central method
}

// newFleet returns a device for every user of the split.
func newFleet(m method.Method, split *data.Split, opt Options, seed uint64, jobs int) (*devices, error) {
	plan, err := planOf(m, split, &opt, seed)
	if err != nil {
		return nil, err
	}
	f := &devices{plan: plan, split: split, opt: opt}
	f.holdOut()
	total := 0
	if _, in := split.Source.(*data.Set); in {
		f.load = make([]int32, split.Users())
		var p data.Part
		for u := range f.load {
			split.User(u, &p)
			f.load[u] = int32(len(p.Train))
			total += len(p.Train)
		}
	}
	shards := shardCount(plan.MaxSamples(total), split.Items(), plan)
	jobs = max(1, min(jobs, shards))
	if f.mem, err = local.NewMemory(plan, shards, jobs); err != nil {
		return nil, err
	}
	f.state = make([]local.State, split.Users())
	n := plan.PlainSize()
	plain := make([]float32, n*len(f.state))
	for u := range f.state {
		f.state[u] = f.mem.NewState(plain[u*n : (u+1)*n : (u+1)*n])
	}
	for j := range jobs {
		f.lanes = append(f.lanes, &lane{Worker: local.NewWorker(f.mem, j), scores: newScores(split)})
	}
	if plan.Serves(method.ServeOther) {
		if f.in != nil {
			return nil, fmt.Errorf("infer=random requires all users to take part in training, and some "+
				"are held out (protocol %s, new-users %g)", split.Name, split.NewUserShare)
		}
		if !opt.Cohort.All() || !plan.HasHead() {
			return nil, errors.New("infer=random requires cohort=all and a score function " +
				"without hidden layers: omit infer=random or layers")
		}
		f.tuned = make([]overlay, split.Users())
	}
	if f.central, _ = method.As[method.Central](plan.Method); f.central != nil {
		if f.pooled, err = newPooled(f, total); err != nil {
			return nil, err
		}
	}
	if opt.Mean == "row" {
		f.count = make([]uint32, shards*split.Items())
		for _, l := range f.lanes {
			l.CountTouched(f.count)
		}
	}
	return f, nil
}

func planOf(m method.Method, split *data.Split, opt *Options, seed uint64) (*local.Plan, error) {
	features, err := split.Features()
	if err != nil {
		return nil, err
	}
	cover, err := opt.DP.Covers()
	if err != nil && opt.DP.On() {
		return nil, err
	}
	o, err := opt.Local(split.Items(), split.Users(), seed)
	if err != nil {
		return nil, err
	}
	if !opt.integers() {
		o.Bits = 0
	}
	o.Features, o.Cover, o.Integers, o.Plain = features, cover, opt.integers(), opt.Plain
	o.SumDevices = max(1, int(math.Ceil(opt.Cohort.Expected(split.Users()))))
	o.Dense = opt.Noise.On() || cover.Kind == "dense" || opt.bare()
	o.Sparse = opt.Encode == "sparse"
	return local.NewPlan(m, o)
}

// holdOut lists the users that take part in training.
func (f *devices) holdOut() {
	f.out = f.split.HeldOut()
	for u, out := range f.out {
		// A method that is trained in one place has the train rows of all users.
		if !out || f.plan.Central() {
			f.in = append(f.in, uint32(u))
		}
	}
	for u, apart := range f.split.NewUsers() {
		if !apart {
			f.in = append(f.in, uint32(u))
		}
	}
}

// shardCount depends on the data and never on the machine: a power of two near samples per
// round / (16 items), from 16 to 64, and fewer if the sums of the shards would exceed half a
// gigabyte.
func shardCount(samples, items int, p *local.Plan) int {
	want := samples / (16 * items)
	s := 1 << max(0, bits.Len(uint(want*2/3))) // roughly the nearest power of two
	s = min(max(s, 16), 64)
	row, lists := 0, 0
	for _, slot := range p.Slots {
		if slot.PerItem && slot.Scope == method.Shared && slot.Upload != method.Broadcast {
			row += 4 * vec.Pad(slot.Dim)
		}
		if slot.Sparse && !p.Integers {
			lists += 4 * vec.Pad(slot.Dim)
		}
	}
	for s > 2 && s*(row*items+lists) > 512<<20 {
		s /= 2
	}
	return s
}

// Count is the number of devices that take part. If some are held out, the engine numbers the
// others from 0.
func (f *devices) Count() int {
	if f.in != nil {
		return len(f.in)
	}
	return len(f.state)
}

// Round implements round.Devices.
func (f *devices) Round(_ context.Context, task round.Task) (round.Aggregate, round.Report, error) {
	t, cohort := task.Round, task.Cohort
	if f.in != nil {
		f.named = f.named[:0]
		for _, k := range cohort {
			f.named = append(f.named, f.in[k])
		}
		cohort = f.named
	}
	f.assign(cohort)
	clear(f.count)
	if task.Bound != nil {
		f.mem.SetBound(*task.Bound)
	}
	if f.masked != nil {
		f.masked.begin(t, cohort)
	}
	for _, l := range f.lanes {
		l.rep, l.evalled = round.Report{}, 0
	}
	if f.central != nil {
		return round.Aggregate{}, f.pass(f.central, t), nil
	}
	f.each(len(f.deal), func(l *lane, shard int) {
		for i, u := range f.deal[shard] {
			f.train(l, int(u), t, shard, f.loss && shard == 0 && i < lossDevices)
		}
	})
	rep := f.report()
	if f.masked != nil {
		if err := f.masked.end(t, len(f.lanes), f.plan.Seed, &rep, f.modelHash()); err != nil {
			return round.Aggregate{}, rep, err
		}
	}
	if task.Bound != nil {
		return f.integerSum(t), rep, nil
	}
	return f.floatSum(task.Phase), rep, nil
}

// report adds up the reports of the lanes.
func (f *devices) report() (rep round.Report) {
	for _, l := range f.lanes {
		rep.Devices += l.rep.Devices
		rep.Dropped += l.rep.Dropped
		rep.Late += l.rep.Late
		rep.Idle += l.rep.Idle
		rep.Samples += l.rep.Samples
		rep.Bytes += l.rep.Bytes
		rep.Truncated += l.rep.Truncated
		rep.Loss += l.rep.Loss // only the lane of the first shard has one
		rep.LossN += l.rep.LossN
		f.extra += l.evalled / time.Duration(len(f.lanes))
	}
	return rep
}

// integerSum takes the sum of the round's encoded updates.
func (f *devices) integerSum(t int) round.Aggregate {
	n := f.plan.UpdateLength(t) + 1
	f.integers = slices.Grow(f.integers[:0], n)[:n]
	clear(f.integers)
	if f.masked == nil {
		f.mem.TakeSum(f.integers)
	} else {
		for i, x := range f.masked.sum {
			f.integers[i] = int64(x)
		}
	}
	return round.Aggregate{Integers: f.integers}
}

// floatSum takes the sums of the shards, in parallel over the numbers of a slot.
func (f *devices) floatSum(phase int) round.Aggregate {
	const piece = 8192
	sends := f.plan.SentSlots()
	if f.sum.Sums == nil {
		f.sum.Sums = make([][]float32, len(f.plan.Slots))
		f.sum.Shrunk = make([]float64, len(f.plan.Slots))
		for _, slot := range sends {
			f.sum.Sums[slot] = make([]float32, len(f.mem.Value(slot)))
		}
	}
	for _, slot := range sends {
		dst := f.sum.Sums[slot]
		clear(dst)
		f.sum.Shrunk[slot] = 0
		if f.plan.IsSent(phase, slot) {
			f.each((len(dst)+piece-1)/piece, func(_ *lane, i int) {
				f.mem.CollectSums(slot, i*piece, min((i+1)*piece, len(dst)), dst)
			})
			f.sum.Shrunk[slot] = f.mem.TakeShrinkage(slot)
		}
	}
	f.mem.ForgetTouched()
	f.sum.Touched = f.touched()
	return f.sum
}

// touched returns the number of devices that touched each item in the last round.
func (f *devices) touched() []uint32 {
	if f.count == nil {
		return nil
	}
	n := f.split.Items()
	for s := 1; s < f.mem.Shards; s++ {
		for i, c := range f.count[s*n : (s+1)*n] {
			f.count[i] += c
		}
	}
	return f.count[:n]
}

// evalTime returns the time that the last round spent on evaluation.
func (f *devices) evalTime() time.Duration {
	d := f.extra
	f.extra = 0
	return d
}

// each calls do for every index below n, concurrently in all lanes.
func (f *devices) each(n int, do func(l *lane, i int)) { each(f.lanes, n, do) }

func each[L any](lanes []L, n int, do func(l L, i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, l := range lanes {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(l, i)
			}
		})
	}
	wg.Wait()
}

// lossDevices is the number of devices of the first shard that report their training loss in
// evaluated rounds. Computing the loss costs time, so few devices do it.
const lossDevices = 8

func (f *devices) train(l *lane, u, t, shard int, loss bool) {
	if f.isLost(u, t, rng.Dropout, f.opt.Dropout) {
		l.rep.Dropped++
		if f.tuned != nil { // checkpoints hold no tuned rows of earlier rounds
			f.tuned[u] = overlay{shrunk: 1}
		}
		return
	}
	f.open(l, u, t)
	to := shard
	late := f.isLost(u, t, rng.Straggle, f.opt.Straggle) || f.late != nil && f.late(t, u)
	if late {
		to = local.NotCounted
	}
	out := l.Visit(&f.state[u], &l.task, to, loss)
	switch {
	case out.Samples == 0 && !(late && f.plan.Integers): // no training data
		l.rep.Idle++
		if f.masked != nil { // nobody may learn that it sends zeros
			f.masked.add(f.mem, l.ID(), uint32(u), t, f.plan.Seed, false)
		}
	case late:
		l.rep.Late++
		if f.masked != nil {
			f.masked.left[f.masked.at[uint32(u)]] = 2
		}
	default:
		if f.masked != nil {
			f.masked.add(f.mem, l.ID(), uint32(u), t, f.plan.Seed, true)
		}
		l.rep.Devices++
		l.rep.Samples += out.Samples
		l.rep.Bytes += out.Bytes
		l.rep.Truncated += out.Truncated
	}
	if loss {
		l.rep.Loss += out.Loss
		l.rep.LossN += out.LossN
	}
	if f.tuned != nil {
		o := &f.tuned[u]
		o.ids, o.rows, o.shrunk = l.TunedRows(f.otherTableSlot(), o.ids[:0], o.rows[:0])
	}
	if f.eval != nil {
		start := time.Now()
		f.eval.visited(l, u)
		l.evalled += time.Since(start)
	}
}

// open loads user u into the lane's task.
func (f *devices) open(l *lane, u, t int) {
	f.split.User(u, &l.part)
	l.task = local.Task{
		Device: uint32(u), Round: t, Train: l.part.Train, Rating: l.part.Rating, Rows: l.part.Rows,
		Hide: f.split.Hidden(&l.part),
	}
}

func (f *devices) isLost(u, t int, why uint64, share float64) bool {
	if share == 0 {
		return false
	}
	r := rng.New(f.plan.Seed, why, uint64(t), uint64(u))
	return r.Float64() < share
}

// assign assigns the cohort to the shards: the device with the most work first, each to the
// shard with the least.
func (f *devices) assign(cohort []uint32) {
	if f.whole && len(cohort) == f.Count() {
		return
	}
	f.whole = len(cohort) == f.Count()
	if f.deal == nil {
		f.deal = make([][]uint32, f.mem.Shards)
	}
	for s := range f.deal {
		f.deal[s] = f.deal[s][:0]
	}
	if f.load == nil {
		for i, u := range cohort {
			s := i * len(f.deal) / len(cohort)
			f.deal[s] = append(f.deal[s], u)
		}
		return
	}
	order := slices.Clone(cohort)
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(f.load[b], f.load[a]) })
	weight := make([]int, len(f.deal))
	for _, u := range order {
		light := 0
		for s, w := range weight {
			if w < weight[light] {
				light = s
			}
		}
		f.deal[light] = append(f.deal[light], u)
		weight[light] += 100 + f.plan.MaxSamples(int(f.load[u]))
	}
	for s := range f.deal {
		slices.Sort(f.deal[s])
	}
}
