package coordinator

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// buckets is an attempt at a masked round: its cohort in groups, drawn anew each time,
// with a sum of its own for each. What a device puts under its masks nobody can check; the
// sum of its group can be: one that is longer than so many honest devices could make it is
// thrown away. So a liar moves the model by no more than its group may.
type buckets struct {
	all []*vault
	of  map[uint32]*vault // by seat
}

// newBuckets deals a cohort.
func (c *Coordinator) newBuckets(task *pb.Task, cohort []uint32) (*buckets, error) {
	n := 1
	if size := max(c.settings.Bucket, c.quorum(task.Kind)); c.settings.Bucket > 0 {
		n = max(1, len(cohort)/size)
	}
	deck := slices.Clone(cohort)
	r := rng.New(c.cohortSeed(), rng.Shuffle, uint64(task.Round), uint64(task.Attempt))
	r.Shuffle(deck)
	b := &buckets{of: map[uint32]*vault{}}
	for k := range n {
		seats := slices.Clone(deck[k*len(deck)/n : (k+1)*len(deck)/n])
		slices.Sort(seats)
		v, err := c.newVault(task, seats)
		if err != nil {
			return nil, err
		}
		v.pace = max(50*time.Millisecond, time.Duration(float64(len(cohort))/c.opt.Rate*float64(time.Second)))
		b.all = append(b.all, v)
		for _, seat := range seats {
			b.of[seat] = v
		}
	}
	return b, nil
}

func (b *buckets) tasked(seat uint32, now time.Time) *pb.Task {
	if v := b.of[seat]; v != nil {
		return v.tasked(seat, now)
	}
	return nil
}

func (b *buckets) progress() (done, of int) {
	for _, v := range b.all {
		d, n := v.progress()
		done, of = done+d, of+n
	}
	return done, of
}

// is reports whether it is the attempt of a request.
func (b *buckets) is(r *pb.MaskRequest) bool {
	t := &b.all[0].hall.task
	return string(r.Run) == string(t.Run) && r.Round == t.Round && r.Attempt == t.Attempt
}

// ended reports whether an attempt is over for what devices did or did not do. Nothing of
// that ends a coordinator.
func ended(err error) bool {
	return errors.Is(err, secagg.ErrTooFew) || errors.Is(err, secagg.ErrNoSum)
}

// attempt plays the protocol once with whoever is there, all groups at a time. Groups
// without enough devices, groups in which messages do not fit together, and groups whose
// sum cannot be, are left out. Only when keep has returned are devices told that they are in
// the sum.
func (c *Coordinator) attempt(ctx context.Context, task *pb.Task, cohort []uint32,
	keep func(*keptSum) error,
) (*keptSum, error) {
	b, err := c.newBuckets(task, cohort)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.place, c.masked = b, b // it answers who asks for the sum, also when the round is over
	c.mu.Unlock()
	defer func() {
		c.uploads.clear()
		for _, v := range b.all {
			v.end()
		}
	}()
	sums, errs := make([]*keptSum, len(b.all)), make([]error, len(b.all))
	var wg sync.WaitGroup
	for i, v := range b.all {
		wg.Go(func() { sums[i], errs[i] = c.play(ctx, v) })
	}
	wg.Wait()
	out, over := &keptSum{Attempt: task.Attempt, Sum: make([]int32, task.Length)}, false
	for i, sum := range sums {
		switch {
		case errs[i] != nil && !ended(errs[i]):
			return nil, errs[i]
		case errs[i] != nil:
			if err = errs[i]; errors.Is(err, secagg.ErrNoSum) {
				c.tally("buckets_without_sum", 1)
			}
		case c.longer(sum, task):
			c.tally("buckets_over_bound", 1)
			sums[i], over = nil, true
		default:
			for k, x := range sum.Sum {
				out.Sum[k] += x
			}
			out.Seats = append(out.Seats, sum.Seats...)
		}
	}
	// Without a promise a sum that was opened is not made again: two over other devices would tell
	// what the difference has sent.
	if opened := over && c.engine.Stack == nil; len(out.Seats) == 0 && err != nil && !opened {
		return nil, err
	}
	slices.Sort(out.Seats)
	if err := keep(out); err != nil {
		return nil, err
	}
	for i, v := range b.all {
		v.vmu.Lock()
		v.done = sums[i] != nil
		v.vmu.Unlock()
	}
	return out, nil
}

// longer reports whether a group's sum is longer than its devices could make it, each
// within the bound, with the noise that they may have added: a chance below 1e-9.
//
// The numbers of a readout have no noise: each is from 0 to the largest of a device.
func (c *Coordinator) longer(s *keptSum, task *pb.Task) bool {
	if task.Kind != pb.Kind_TRAIN {
		most := int64(len(s.Seats)) * task.Bound.Max
		return slices.ContainsFunc(s.Sum, func(x int32) bool { return x < 0 || int64(x) > most })
	}
	if task.Bound.PerSlot {
		return beyond(s, task.Bound.Max)
	}
	n, numbers := float64(len(s.Seats)), len(s.Sum)-1
	most := n * c.bound.Sensitivity(numbers)
	if noise := float64(task.Bound.Noise); noise > 0 {
		most += math.Sqrt(n) * noise * (math.Sqrt(float64(numbers)) + 7)
	}
	square := 0.0
	for _, x := range s.Sum[:numbers] {
		square += float64(x) * float64(x)
	}
	return math.Sqrt(square) > most*(1+1e-9)
}

// beyond reports whether a number of a group's sum without a promise is larger than its devices
// could make it. The last one counts those of them who had something to learn from.
func beyond(s *keptSum, most int64) bool {
	n, last := int64(len(s.Seats)), len(s.Sum)-1
	came := int64(s.Sum[last])
	if came < 0 || came > n || came == 0 && slices.ContainsFunc(s.Sum, func(x int32) bool { return x != 0 }) {
		return true
	}
	return slices.ContainsFunc(s.Sum[:last], func(x int32) bool { return int64(x) > n*most || int64(x) < -n*most })
}

// play has one group play the protocol.
func (c *Coordinator) play(ctx context.Context, v *vault) (*keptSum, error) {
	for _, step := range []int{wire.StepAdvert, wire.StepDeal, wire.StepUpload, wire.StepReveal} {
		up, stop := c.timer(c.stepTime())
		err := v.wait(ctx, step, up)
		stop()
		if err != nil {
			return nil, err
		}
		if step == wire.StepReveal {
			break
		}
		if step == wire.StepUpload { // who opens its part next may be in no other sum of a count
			if err := c.usedUp(&v.task); err != nil {
				return nil, err
			}
		}
		v.vmu.Lock()
		err = v.hub.Next()
		v.vmu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	// It takes a while, and devices that come meanwhile must not wait for it: from here on
	// nobody else touches the protocol's server.
	v.vmu.Lock()
	v.stage = stepSum
	v.vmu.Unlock()
	if err := c.point("unmasking"); err != nil {
		return nil, err
	}
	lists, err := v.hub.Lists()
	if err != nil {
		return nil, err
	}
	sum, err := v.hub.Sum(runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	out := &keptSum{Sum: sum}
	for seat, id := range v.id {
		if lists.Survivors.Has(id) {
			out.Seats = append(out.Seats, seat)
		}
	}
	return out, nil
}

// end closes an attempt that has no sum.
func (v *vault) end() {
	v.vmu.Lock()
	defer v.vmu.Unlock()
	v.over = !v.done
}
