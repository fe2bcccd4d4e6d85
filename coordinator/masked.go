package coordinator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// vault is a group of devices with a masked sum, in one attempt at a round or a readout. Nothing of an
// attempt that does not end is of any use to anybody, so it is kept in memory.
type vault struct {
	hall // for its cohort, its task and its sum
	hub  *secagg.Server
	r    secagg.Round
	id   map[uint32]uint32 // by seat

	vmu   sync.Mutex
	stage int            // the step whose messages are taken
	since time.Time      // when it began
	pace  time.Duration  // devices ask no more often
	came  map[uint32]int // by seat: the first step that it has not done
	over  bool
	done  bool // the sum is on disk
	ready chan struct{}
}

// stepSum follows the last step on the wire: the coordinator removes the masks and accepts no message.
const stepSum = wire.StepReveal + 1

// maxAttempts in a row that end for want of devices: then the round waits for a while. It
// is not given up, for a round that is kept back is paid for.
const maxAttempts = 3

func sumLog(c *Coordinator, task *pb.Task) string { return c.logOf(task) + ".sum" }

// kept is what is on disk of a masked sum.
type keptSum struct {
	Attempt uint32   `json:"attempt,omitempty"`
	Seats   []uint32 `json:"seats"`
	Sum     []int32  `json:"sum"`
}

// maskedRound plays attempts until one has a sum.
func (f *fleet) maskedRound(ctx context.Context, t int, cohort []uint32) ([]int64, round.Report, error) {
	numbers := f.plan.UpdateLength(t) + 1
	task := f.newTask(pb.Kind_TRAIN, t, numbers, f.maskedBound(t))
	kept, err := f.keptSum(task)
	if err != nil {
		return nil, round.Report{}, err
	}
	if kept != nil {
		sum, rep := f.summed(task, cohort, kept)
		return sum, rep, nil
	}
	// too few were asked: nobody masks anything
	if len(cohort) < max(1, f.quorum(pb.Kind_TRAIN)) || f.settings.Cohort.ByCheckIn() && len(cohort) < fewestMasked {
		sum, rep := f.summed(task, cohort, &keptSum{Sum: make([]int32, numbers)})
		return sum, rep, nil
	}
	did := newTurnout()
	for tried := 1; ; tried++ {
		in := cohort
		if f.settings.Cohort.ByCheckIn() {
			var err error
			if in, err = f.gathered(ctx, cohort, did); err != nil {
				return nil, round.Report{}, err
			}
			if in == nil {
				f.tire(did, nil)
				sum, rep := f.summed(task, nil, &keptSum{Sum: make([]int32, numbers)})
				return sum, rep, nil
			}
		}
		task.Attempt = f.nextAttempt()
		began := f.now()
		kept, err := f.attempt(ctx, task, in, func(s *keptSum) error { return f.keepSum(task, s) })
		f.notice(did, ended(err))
		if ended(err) {
			f.tally("attempts_ended", 1)
			if err := f.again(ctx, t, tried); err != nil {
				return nil, round.Report{}, err
			}
			continue
		}
		if err != nil {
			return nil, round.Report{}, err
		}
		f.hasten(f.now().Sub(began))
		f.tire(did, kept.Seats)
		sum, rep := f.summed(task, in, kept)
		return sum, rep, nil
	}
}

// maskedBound is that of a masked round's task. Without a promise devices add no noise, and
// the bound is the reach of each slot.
func (f *fleet) maskedBound(t int) *pb.Bound {
	g := f.engine.Stack
	if g == nil {
		return wire.EncodeBound(f.bound, 0, 0, f.bound.MaxInteger)
	}
	noise, bit := int64(0), int64(0)
	if g.Drawn {
		if noise = g.NoiseShare(t); g.Adaptive != "off" {
			bit = g.CountNoiseShare(t)
		}
	}
	return wire.EncodeBound(f.bound, noise, bit, g.MaxInteger(t))
}

// nextAttempt is never the same again, also after a start.
func (c *Coordinator) nextAttempt() uint32 {
	c.attempts++
	return uint32(c.st.Epoch())<<16 | c.attempts&0xffff
}

// keepSum has a round's sum on disk.
func (c *Coordinator) keepSum(task *pb.Task, s *keptSum) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return c.st.Append(sumLog(c, task), text)
}

// summed is a round that has its masked sum.
func (f *fleet) summed(task *pb.Task, cohort []uint32, kept *keptSum) ([]int64, round.Report) {
	sum := make([]int64, task.Length)
	for i, x := range kept.Sum {
		sum[i] = int64(x)
	}
	f.ending = closedRound{
		Round: task.Round, Turns: f.times, Attempt: kept.Attempt, Seats: kept.Seats,
		Digests: make([]uint64, len(kept.Seats)),
	}
	rep := round.Report{Devices: len(kept.Seats), Dropped: len(cohort) - len(kept.Seats)}
	if f.settings.bare() { // the last number counts those who had something to learn from
		rep.Devices = int(kept.Sum[task.Length-1])
		rep.Idle = len(kept.Seats) - rep.Devices
	}
	return sum, rep
}

func (c *Coordinator) keptSum(task *pb.Task) (out *keptSum, err error) {
	err = c.st.Replay(sumLog(c, task), func(b []byte) error {
		out = &keptSum{}
		return json.Unmarshal(b, out)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return out, err
}

// errNoPlan says that so many devices cannot mask so many numbers.
var errNoPlan = errors.New("coord: there is no masked sum of this kind")

// newVault begins an attempt.
func (c *Coordinator) newVault(task *pb.Task, cohort []uint32) (*vault, error) {
	p, err := secagg.Plan(len(cohort), int(task.Length), task.Bound.Max, privacy.MaskingRisk)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPlan, err)
	}
	p.MinDevices = max(p.MinDevices, c.quorum(task.Kind))
	if c.settings.Bucket > 0 && task.Bound.PerSlot { // room beside what honest devices can make: what is there is found
		p.Bits = max(p.Bits, c.settings.Bits)
	}
	v := &vault{id: map[uint32]uint32{}, came: map[uint32]int{}, ready: make(chan struct{}, 1)}
	v.cohort, v.numbers, v.counted = cohort, int(task.Length), map[uint32]uint64{}
	v.hall.task.Kind, v.hall.task.Run, v.hall.task.Round, v.hall.task.Attempt = task.Kind, task.Run, task.Round,
		task.Attempt
	v.hall.task.Bound, v.hall.task.ModelVersion, v.hall.task.Length = task.Bound, task.ModelVersion, task.Length
	for i, seat := range cohort {
		v.id[seat] = uint32(i)
	}
	model := sha256.Sum256(c.models.Signed().Body)
	v.r = secagg.Round{Params: p, Model: model, Number: uint64(task.Round)<<32 | uint64(task.Attempt)}
	rand.Read(v.r.Seed[:])
	if v.hub, err = secagg.NewServer(v.r); err != nil {
		return nil, err
	}
	v.ends = c.now().Add(maskedSteps * c.stepTime())
	return v, nil
}

// maskedSteps are those in which devices send something.
const maskedSteps = 4

// wait lets a step's messages in until all who may send one have, or the time is up.
func (v *vault) wait(ctx context.Context, step int, up <-chan time.Time) error {
	v.vmu.Lock()
	v.stage, v.since = step, time.Now()
	v.vmu.Unlock()
	for {
		if v.full(step) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-up:
			return nil
		case <-v.ready:
		}
	}
}

// pause is when to ask again, in milliseconds: not so often that all of an attempt come
// faster than the rate, and the less often the longer a step takes.
func (v *vault) pause() uint32 {
	return uint32(max(v.pace, time.Since(v.since)/4).Milliseconds())
}

// full reports whether everybody who did the step before has done this one.
func (v *vault) full(step int) bool {
	v.vmu.Lock()
	defer v.vmu.Unlock()
	if step == wire.StepAdvert {
		return len(v.came) == len(v.cohort)
	}
	for _, next := range v.came {
		if next == step {
			return false
		}
	}
	return true
}

// tasked is the attempt's, for who has not begun or has not finished.
func (v *vault) tasked(seat uint32, now time.Time) *pb.Task {
	v.vmu.Lock()
	next, begun := v.came[seat]
	open := !v.over && !v.done && (v.stage == wire.StepAdvert || begun && next > wire.StepAdvert)
	v.vmu.Unlock()
	if !open {
		return nil
	}
	t := v.hall.tasked(seat, now)
	if t != nil {
		t.Masking = wire.EncodeMasking(&v.r, int(v.id[seat]))
	}
	return t
}

func (v *vault) progress() (done, of int) {
	v.vmu.Lock()
	defer v.vmu.Unlock()
	for _, next := range v.came {
		if next > wire.StepUpload {
			done++
		}
	}
	return done, len(v.cohort)
}

// mask takes a device's message, or gives it what a step needs.
func (v *vault) mask(seat uint32, step int, message []byte) (*pb.MaskResponse, error) {
	v.vmu.Lock()
	defer v.vmu.Unlock()
	id, in := v.id[seat]
	next := v.came[seat]
	_, begun := v.came[seat]
	switch {
	case !in:
		return nil, errNotYour
	case v.done && next > wire.StepUpload:
		return &pb.MaskResponse{State: pb.MaskResponse_SUMMED}, nil
	case v.over || v.done:
		return &pb.MaskResponse{State: pb.MaskResponse_ENDED}, nil
	case step == next && (begun || step == wire.StepAdvert) && step < v.stage:
		return &pb.MaskResponse{State: pb.MaskResponse_ENDED}, nil // it missed the step
	case len(message) == 0 && (step > v.stage || v.stage == stepSum || next > wire.StepReveal):
		return &pb.MaskResponse{State: pb.MaskResponse_NOT_YET, AfterMs: v.pause()}, nil
	case len(message) == 0:
		b, err := v.need(id, step)
		return &pb.MaskResponse{State: pb.MaskResponse_ANSWER, Message: b}, err
	case step < next: // sent again: it was taken
		return &pb.MaskResponse{State: pb.MaskResponse_ACCEPTED}, nil
	case step != v.stage || step == stepSum:
		return nil, fmt.Errorf("step %d while the round is at %d", step, v.stage)
	}
	if err := v.accept(step, id, message); err != nil {
		return nil, err
	}
	v.came[seat] = step + 1
	if step == wire.StepUpload {
		v.came[seat] = wire.StepReveal
	}
	select {
	case v.ready <- struct{}{}:
	default:
	}
	return &pb.MaskResponse{State: pb.MaskResponse_ACCEPTED}, nil
}

// accept gives a message to the server of the protocol, if it is the sender's own: nobody
// speaks for another device.
func (v *vault) accept(step int, id uint32, b []byte) error {
	mail := func(m *secagg.ShareBundle) uint32 { return m.Self }
	switch step {
	case wire.StepAdvert:
		return take(b, id, func(m *secagg.Advert) uint32 { return m.From }, v.hub.Advert)
	case wire.StepDeal:
		return take(b, id, mail, v.hub.ShareKeys)
	case wire.StepUpload:
		return take(b, id, func(m *secagg.Upload) uint32 { return m.From }, v.hub.Upload)
	case wire.StepReveal:
		return take(b, id, func(m *secagg.Reveal) uint32 { return m.From }, v.hub.Reveal)
	}
	return fmt.Errorf("there is no step %d", step)
}

type message[T any] interface {
	*T
	UnmarshalBinary([]byte) error
}

func take[T any, M message[T]](b []byte, id uint32, from func(M) uint32, to func(M) error) error {
	m := M(new(T))
	if err := m.UnmarshalBinary(b); err != nil {
		return err
	}
	if f := from(m); f != id {
		return fmt.Errorf("a message of device %d, brought by device %d", f, id)
	}
	return to(m)
}

// need is what a device must know for a step.
func (v *vault) need(id uint32, step int) ([]byte, error) {
	switch step {
	case wire.StepDeal:
		return give(v.hub.Roster(id))
	case wire.StepUpload:
		return give(v.hub.Inbox(id))
	case wire.StepReveal:
		return give(v.hub.Lists())
	}
	return nil, fmt.Errorf("step %d needs nothing", step)
}

func give[M interface{ MarshalBinary() ([]byte, error) }](m M, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return m.MarshalBinary()
}
