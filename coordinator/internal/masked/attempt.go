// Package masked runs the server's side of masked sums: attempts at one over groups of devices, the
// waiting room before a round whose devices choose when to check in, and how long steps wait. It
// never sees a single device's update. Its one convention: devices learn that they are in a sum after
// the caller has it on disk.
package masked

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// AttemptConfig describes one attempt at a masked sum.
type AttemptConfig struct {
	Task   *pb.Task
	Cohort []uint32
	Model  [32]byte // hash of the manifest that all devices must have

	Seed       uint64 // of the division into groups
	GroupSize  int    // devices of a group; 0 for a single group
	MinDevices int    // in a group's sum
	MinBits    int    // of a number of a group's sum: extra room in which lies are detected
	// Levels is set if slots declare their levels. Then extraBits is the room, if it is less than MinBits leaves.
	Levels bool

	Sensitivity float64 // the norm of one honest device's update; unused if the bound is per slot

	StepTime  time.Duration // that a step waits for messages
	PollEvery time.Duration // devices ask no more often
	Hold      time.Duration // a call waits this long for what the device needs
	Now       func() time.Time
	Timer     func(time.Duration) (<-chan time.Time, func() bool)

	// BitsExceed reports whether the last number of a group's sum is more than its devices can make
	// it. Then it counts as zero.
	BitsExceed   func(*Sum) bool
	BeforeReveal func() error                  // runs once, before devices reveal anything
	BeforeSum    func() error                  // runs before masks are removed
	Count        func(counter string, n int64) // counts discarded groups
}

// Attempt is one attempt at a masked sum: the cohort in groups, drawn anew each time, with a sum
// for each group. Nobody can check what a device puts under its masks, but the sum of its group
// can be checked: a sum that honest devices could not make is discarded. So a lying device
// moves the model by no more than its group may. An attempt is kept in memory only, since an
// unfinished one is of no use.
type Attempt struct {
	config   AttemptConfig
	groups   []*group
	of       map[uint32]*group // by device ID
	revealed atomic.Bool       // devices were asked to reveal shares
}

// Sum is a masked sum and the devices that are in it, as it is on disk. Before devices are asked to
// reveal shares, a Sum with Revealing set is on disk: if nothing follows it, the round has no sum
// and no other attempt, because two sums over different devices would reveal one device's update.
type Sum struct {
	Attempt   uint32   `json:"attempt,omitempty"`
	Revealing bool     `json:"revealing,omitempty"`
	Devices   []uint32 `json:"seats"`
	Values    []int32  `json:"sum"`
}

// Write appends a sum to a log.
func (s *Sum) Write(st *store.Store, log string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return st.Append(log, b)
}

// ReadSum reads the last record of a log; nil if the log is empty.
func ReadSum(st *store.Store, log string) (s *Sum, err error) {
	err = st.Replay(log, func(b []byte) error {
		s = &Sum{}
		return json.Unmarshal(b, s)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// ErrNotInCohort says that a device has no part in a round.
var ErrNotInCohort = errors.New("this device is not in the round's cohort")

// ErrNoPlan says that secure aggregation cannot mask this sum.
var ErrNoPlan = errors.New("no masked sum is possible")

// Failed reports whether an attempt failed because of what devices did or did not do. Another
// attempt may succeed.
func Failed(err error) bool {
	return errors.Is(err, secagg.ErrTooFew) || errors.Is(err, secagg.ErrNoSum)
}

// NewAttempt divides the cohort into groups.
func NewAttempt(config AttemptConfig) (*Attempt, error) {
	n := 1
	if config.GroupSize > 0 {
		n = max(1, len(config.Cohort)/max(config.GroupSize, config.MinDevices))
	}
	shuffled := slices.Clone(config.Cohort)
	random := rng.New(config.Seed, rng.Shuffle, uint64(config.Task.Round), uint64(config.Task.Attempt))
	random.Shuffle(shuffled)
	a := &Attempt{config: config, of: map[uint32]*group{}}
	a.config.BeforeReveal = sync.OnceValue(func() error {
		a.revealed.Store(true)
		return config.BeforeReveal()
	})
	for k := range n {
		ids := slices.Clone(shuffled[k*len(shuffled)/n : (k+1)*len(shuffled)/n])
		slices.Sort(ids)
		g, err := newGroup(&a.config, ids)
		if err != nil {
			return nil, err
		}
		a.groups = append(a.groups, g)
		for _, id := range ids {
			a.of[id] = g
		}
	}
	return a, nil
}

// Task is the attempt's task, for a device that has not finished it.
func (a *Attempt) Task(id uint32, now time.Time) *pb.Task {
	if g := a.of[id]; g != nil {
		return g.taskFor(id, now)
	}
	return nil
}

// Progress is the number of devices that uploaded their masked update, and of all.
func (a *Attempt) Progress() (done, expected int) {
	for _, g := range a.groups {
		d, n := g.progress()
		done += d
		expected += n
	}
	return done, expected
}

// Revealed reports whether devices were asked to reveal shares. Then they join no other attempt at
// the round.
func (a *Attempt) Revealed() bool { return a.revealed.Load() }

// Liars lists the devices that broke the protocol in a way that the coordinator can prove from their
// own messages, with the reasons.
func (a *Attempt) Liars() map[uint32]string {
	all := map[uint32]string{}
	for _, g := range a.groups {
		g.mu.Lock()
		maps.Copy(all, g.liars)
		g.mu.Unlock()
	}
	return all
}

// Kind is that of the task.
func (a *Attempt) Kind() pb.Kind { return a.config.Task.Kind }

// Matches reports whether a request belongs to the attempt.
func (a *Attempt) Matches(r *pb.MaskRequest) bool {
	return a.sameRound(r) && r.Attempt == a.config.Task.Attempt
}

func (a *Attempt) sameRound(r *pb.MaskRequest) bool {
	return string(r.Run) == string(a.config.Task.Run) && r.Round == a.config.Task.Round
}

// Contains reports whether a device is in a group.
func (a *Attempt) Contains(id uint32) bool { return a.of[id] != nil }

// IsLate reports whether a message of one of the devices arrived when its step, or an earlier
// attempt at the round, had ended.
func (a *Attempt) IsLate(id uint32, r *pb.MaskRequest, state pb.MaskResponse_State) bool {
	return state == pb.MaskResponse_ENDED && len(r.Message) > 0 && a.Contains(id) && a.sameRound(r)
}

// MaxBytes is the largest size of a message.
func (a *Attempt) MaxBytes() uint64 { return a.config.Task.Length*5 + 4096 }

// Mask accepts a device's message, or answers with what it needs for a step. It holds the call for a
// while if that does not exist yet.
func (a *Attempt) Mask(ctx context.Context, id uint32, step int, message []byte) (*pb.MaskResponse, error) {
	g := a.of[id]
	if g == nil {
		return nil, ErrNotInCohort
	}
	return g.mask(ctx, id, step, message)
}

// Run runs the protocol once, all groups at the same time. A group is left out if too few of its
// devices stay, if messages contradict each other, or if its sum exceeds what honest devices could
// make. Run calls keep with the sum; devices learn that they are in it when keep has returned.
func (a *Attempt) Run(ctx context.Context, keep func(*Sum) error) (*Sum, error) {
	defer a.end()
	sums := make([]*Sum, len(a.groups))
	errs := make([]error, len(a.groups))
	var wg sync.WaitGroup
	for i, g := range a.groups {
		wg.Go(func() { sums[i], errs[i] = g.run(ctx, &a.config) })
	}
	wg.Wait()
	out, err := a.combine(sums, errs)
	if err != nil {
		return nil, err
	}
	if err := keep(out); err != nil {
		return nil, err
	}
	for i, g := range a.groups {
		g.setSummed(sums[i] != nil)
	}
	return out, nil
}

// combine adds up the valid sums of the groups, and removes the others from sums.
func (a *Attempt) combine(sums []*Sum, errs []error) (*Sum, error) {
	out := &Sum{Attempt: a.config.Task.Attempt, Values: make([]int32, a.config.Task.Length)}
	var failed error
	for i, sum := range sums {
		switch err := errs[i]; {
		case err != nil && !Failed(err):
			return nil, err
		case err != nil:
			failed = err
			if errors.Is(err, secagg.ErrNoSum) {
				a.config.Count("groups_without_sum", 1)
			}
		case exceeds(sum, a.config.Task, a.config.Sensitivity):
			a.config.Count("groups_over_bound", 1)
			sums[i] = nil
		default:
			if len(a.groups) > 1 && a.config.BitsExceed(sum) {
				a.config.Count("clip_bits_ignored", 1)
				sum.Values[len(sum.Values)-1] = 0
			}
			for k, x := range sum.Values {
				out.Values[k] += x
			}
			out.Devices = append(out.Devices, sum.Devices...)
		}
	}
	if len(out.Devices) == 0 && failed != nil {
		return nil, failed
	}
	slices.Sort(out.Devices)
	return out, nil
}

func (a *Attempt) end() {
	for _, g := range a.groups {
		g.end()
	}
}

// Observe adds the attempt to the attendance of its round.
func (a *Attempt) Observe(t *Attendance, failed bool) {
	for _, g := range a.groups {
		g.observe(t, failed)
	}
}

// extraBits is the largest room for lies in a number of a group's sum. With levels a random number is within
// the honest range with a probability of 1/4, and a vector of n random numbers with 4^-n.
func (c *AttemptConfig) extraBits() int {
	if c.Levels {
		return 2
	}
	return secagg.MaxBits
}

// exceeds reports whether a group's sum is larger than its devices could make it, each within the
// bound and with the noise that it may have added. An honest sum exceeds it with a probability
// below 1e-9.
func exceeds(s *Sum, task *pb.Task, sensitivity float64) bool {
	if task.Kind != pb.Kind_TRAIN { // without noise: each number is from 0 to the largest of a device
		limit := int64(len(s.Devices)) * task.Bound.Max
		return slices.ContainsFunc(s.Values, func(x int32) bool { return x < 0 || int64(x) > limit })
	}
	if task.Bound.PerSlot {
		return exceedsPerSlot(s, task.Bound.Max)
	}
	n := float64(len(s.Devices))
	values := s.Values[:len(s.Values)-1]
	limit := n * sensitivity
	if noise := float64(task.Bound.Noise); noise > 0 {
		limit += math.Sqrt(n) * noise * (math.Sqrt(float64(len(values))) + 7)
	}
	square := 0.0
	for _, x := range values {
		square += float64(x) * float64(x)
	}
	return math.Sqrt(square) > limit*(1+1e-9)
}

// exceedsPerSlot checks each number of a sum without noise. The last one counts the devices that
// have training data.
func exceedsPerSlot(s *Sum, limit int64) bool {
	n := int64(len(s.Devices))
	last := len(s.Values) - 1
	trained := int64(s.Values[last])
	switch {
	case trained < 0 || trained > n:
		return true
	case trained == 0:
		return slices.ContainsFunc(s.Values, func(x int32) bool { return x != 0 })
	}
	return slices.ContainsFunc(s.Values[:last], func(x int32) bool {
		return int64(x) > n*limit || int64(x) < -n*limit
	})
}

// TaskFor is a task as one device receives it.
func TaskFor(t *pb.Task, ends, now time.Time) *pb.Task {
	return &pb.Task{
		Kind: t.Kind, Run: t.Run, Round: t.Round, Attempt: t.Attempt, Bound: t.Bound, ModelVersion: t.ModelVersion,
		Length: t.Length, RemainingMs: uint32(max(1, ends.Sub(now).Milliseconds())),
	}
}
