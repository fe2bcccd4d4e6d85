package masked

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	rng "math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// group is the devices of one masked sum, in one attempt.
type group struct {
	task      *pb.Task
	devices   []uint32
	index     map[uint32]uint32 // by device ID: the number that the protocol has for it
	round     secagg.Round
	ends      time.Time
	pollEvery time.Duration
	hold      time.Duration
	arrived   chan struct{} // a message was accepted

	mu       sync.Mutex
	turned   chan struct{} // closed when a step begins or the attempt ends
	server   *secagg.Server
	step     int            // whose messages are accepted
	next     map[uint32]int // by device ID that has begun: the first step that it has not done
	fresh    bool           // a message arrived since the step began or was extended
	extended int            // times that a step was extended
	ended    bool
	summed   bool              // the sum is on disk
	liars    map[uint32]string // by device ID: why it is excluded
}

// stepSum follows the last step on the wire: the coordinator removes the masks and accepts no
// message.
const stepSum = wire.StepReveal + 1

// steps in which devices send something.
var steps = []int{wire.StepAdvert, wire.StepShareKeys, wire.StepUpload, wire.StepReveal}

func newGroup(config *AttemptConfig, ids []uint32) (*group, error) {
	task := config.Task
	params, err := secagg.Plan(len(ids), int(task.Length), task.Bound.Max, privacy.MaskingRisk)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPlan, err)
	}
	params.MinDevices = max(params.MinDevices, config.MinDevices)
	if config.GroupSize > 0 && task.Bound.PerSlot {
		params.Bits = max(params.Bits, min(config.MinBits, params.Bits+config.extraBits()))
	}
	g := &group{
		task: task, devices: ids, index: map[uint32]uint32{}, next: map[uint32]int{}, liars: map[uint32]string{},
		arrived: make(chan struct{}, 1), turned: make(chan struct{}),
		round: secagg.Round{
			Params: params, Model: config.Model,
			Number: uint64(task.Round)<<32 | uint64(task.Attempt),
		},
		ends: config.Now().Add(time.Duration(len(steps))*config.StepTime +
			maxExtensions*config.StepTime/2),
		pollEvery: config.PollEvery, hold: config.Hold,
	}
	for i, id := range ids {
		g.index[id] = uint32(i)
	}
	rand.Read(g.round.Seed[:])
	g.server, err = secagg.NewServer(g.round)
	return g, err
}

// taskFor is the task of a device that has not begun, while it may, or has not finished. Devices stay until
// the last step may have ended, since one that gives up earlier can end the attempt.
func (g *group) taskFor(id uint32, now time.Time) *pb.Task {
	g.mu.Lock()
	next, begun := g.next[id]
	open := !g.ended && !g.summed && (g.step == wire.StepAdvert || begun && next > wire.StepAdvert)
	g.mu.Unlock()
	if !open {
		return nil
	}
	t := TaskFor(g.task, g.ends, now)
	t.Masking = wire.EncodeMasking(&g.round, int(g.index[id]))
	return t
}

func (g *group) progress() (done, expected int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, next := range g.next {
		if next > wire.StepUpload {
			done++
		}
	}
	return done, len(g.devices)
}

// run runs the protocol.
func (g *group) run(ctx context.Context, config *AttemptConfig) (*Sum, error) {
	for _, step := range steps {
		if err := g.wait(ctx, step, config); err != nil {
			return nil, err
		}
		if step == wire.StepReveal {
			break
		}
		if err := g.advance(); err != nil {
			return nil, err
		}
		if step == wire.StepUpload { // devices get the lists when the next step begins
			if err := config.BeforeReveal(); err != nil {
				return nil, err
			}
		}
	}
	return g.unmask(config)
}

func (g *group) advance() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.noteViolations()
	return g.server.Next()
}

// noteViolations notes the devices that the protocol's server names.
func (g *group) noteViolations() {
	for _, v := range g.server.Violations() {
		g.liars[g.devices[v.Device]] = v.Reason
	}
}

// maxExtensions of half a step's time may be added to the steps of an attempt.
const maxExtensions = 4

// wait accepts a step's messages until all devices that may send one have, or the time is up.
func (g *group) wait(ctx context.Context, step int, config *AttemptConfig) error {
	g.mu.Lock()
	g.step, g.fresh = step, false
	g.turn()
	g.mu.Unlock()
	timeout, stop := config.Timer(config.StepTime)
	defer func() { stop() }()
	for !g.complete(step) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			if !g.extend(step) {
				return nil
			}
			stop()
			timeout, stop = config.Timer(config.StepTime / 2)
		case <-g.arrived:
		}
	}
	return nil
}

// extend reports whether a step whose time is up takes longer: the attempt would fail, and messages
// are still arriving. Another attempt would cost all devices more.
func (g *group) extend(step int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := 0
	for _, next := range g.next {
		if next > step {
			done++
		}
	}
	if done >= g.round.MinDevices || !g.fresh || g.extended == maxExtensions {
		return false
	}
	g.fresh = false
	g.extended++
	return true
}

// complete reports whether every device that did the step before has done this one.
func (g *group) complete(step int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if step == wire.StepAdvert {
		return len(g.next)+len(g.liars) == len(g.devices)
	}
	for _, next := range g.next {
		if next == step {
			return false
		}
	}
	return true
}

// unmask computes the sum. That takes a while, and devices that ask meanwhile must not wait for it:
// from here on, nothing else uses the protocol's server.
func (g *group) unmask(config *AttemptConfig) (*Sum, error) {
	g.mu.Lock()
	g.step = stepSum
	g.mu.Unlock()
	if err := config.BeforeSum(); err != nil {
		return nil, err
	}
	lists, err := g.server.Lists()
	if err != nil {
		return nil, err
	}
	values, err := g.server.Sum(runtime.GOMAXPROCS(0))
	g.mu.Lock()
	g.noteViolations()
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &Sum{Values: values}
	for id, index := range g.index {
		if lists.Survivors.Has(index) {
			out.Devices = append(out.Devices, id)
		}
	}
	return out, nil
}

// turn wakes the devices whose calls are held.
func (g *group) turn() {
	close(g.turned)
	g.turned = make(chan struct{})
}

// holds reports whether the answer to a message waits for what the device needs next. Uploads are
// large, and their memory is not held.
func holds(step int, message []byte) bool { return len(message) == 0 || step != wire.StepUpload }

// mask accepts a device's message, or answers with what it needs for a step. It holds the call while
// that does not exist yet: a device that asks again and again costs more than one that waits.
func (g *group) mask(ctx context.Context, id uint32, step int, message []byte) (*pb.MaskResponse, error) {
	g.mu.Lock()
	first, err := g.answer(id, step, message)
	g.mu.Unlock()
	accepted := first.GetState() == pb.MaskResponse_ACCEPTED
	if err != nil || !holds(step, message) || !accepted && first.State != pb.MaskResponse_NOT_YET {
		return first, err
	}
	if accepted && step != wire.StepReveal {
		step++ // after its advert a device needs the roster, after its shares those of the others
	}
	held := time.NewTimer(g.hold)
	defer held.Stop()
	for {
		g.mu.Lock()
		now, err := g.answer(id, step, nil)
		turned := g.turned
		g.mu.Unlock()
		switch {
		case err == nil && accepted && now.State == pb.MaskResponse_ENDED:
			return first, nil // the message was in time
		case err != nil || now.State != pb.MaskResponse_NOT_YET:
			return now, err
		}
		select {
		case <-ctx.Done():
			return first, nil
		case <-held.C:
			return first, nil
		case <-turned:
			g.spread(ctx)
		}
	}
}

// atOnce is the time within which a small group may be answered.
const atOnce = 50 * time.Millisecond

// spread delays the answer to a held call, so that the devices of a large group do not all send their
// next message at once.
func (g *group) spread(ctx context.Context) {
	wait := time.Duration(rng.Float64() * float64(g.pollEvery-atOnce))
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// answer is the answer to a call at this moment.
func (g *group) answer(id uint32, step int, message []byte) (*pb.MaskResponse, error) {
	next, begun := g.next[id]
	switch {
	case g.summed && next > wire.StepUpload:
		return &pb.MaskResponse{State: pb.MaskResponse_SUMMED}, nil
	case g.ended || g.summed || g.liars[id] != "":
		return &pb.MaskResponse{State: pb.MaskResponse_ENDED}, nil
	case step == next && (begun || step == wire.StepAdvert) && step < g.step: // the device missed the step
		return &pb.MaskResponse{State: pb.MaskResponse_ENDED}, nil
	case len(message) == 0 && (step > g.step || g.step == stepSum || next > wire.StepReveal):
		return &pb.MaskResponse{
			State: pb.MaskResponse_NOT_YET, AfterMs: uint32(g.pollEvery.Milliseconds()),
		}, nil
	case len(message) == 0:
		b, err := g.needs(g.index[id], step)
		return &pb.MaskResponse{State: pb.MaskResponse_ANSWER, Message: b}, err
	case step < next: // sent again
		return &pb.MaskResponse{State: pb.MaskResponse_ACCEPTED}, nil
	case step != g.step || step == stepSum:
		return nil, fmt.Errorf("message of step %d: the round is at step %d", step, g.step)
	}
	if err := g.accept(step, g.index[id], message); err != nil {
		var v *secagg.Violation
		if errors.As(err, &v) { // nobody waits for it
			g.liars[id] = v.Reason
			delete(g.next, id)
			g.wake()
		}
		return nil, err
	}
	g.next[id], g.fresh = step+1, true
	if step == wire.StepUpload { // the next step is of rounds against a malicious server, which do not exist yet
		g.next[id] = wire.StepReveal
	}
	g.wake()
	return &pb.MaskResponse{State: pb.MaskResponse_ACCEPTED}, nil
}

// wake lets the step look again whether it has all messages.
func (g *group) wake() {
	select {
	case g.arrived <- struct{}{}:
	default:
	}
}

// accept gives a message to the protocol's server if it is the sender's own.
func (g *group) accept(step int, index uint32, b []byte) error {
	switch step {
	case wire.StepAdvert:
		return deliver(b, index, func(m *secagg.Advert) uint32 { return m.From }, g.server.Advert)
	case wire.StepShareKeys:
		return deliver(b, index, func(m *secagg.ShareBundle) uint32 { return m.Self }, g.server.ShareKeys)
	case wire.StepUpload:
		return deliver(b, index, func(m *secagg.Upload) uint32 { return m.From }, g.server.Upload)
	case wire.StepReveal:
		return deliver(b, index, func(m *secagg.Reveal) uint32 { return m.From }, g.server.Reveal)
	}
	return fmt.Errorf("step %d is unknown", step)
}

type message[T any] interface {
	*T
	UnmarshalBinary([]byte) error
}

func deliver[T any, M message[T]](b []byte, index uint32, from func(M) uint32, to func(M) error) error {
	m := M(new(T))
	if err := m.UnmarshalBinary(b); err != nil {
		return &secagg.Violation{Device: index, Reason: "sent a malformed message: " + err.Error()}
	}
	if sender := from(m); sender != index {
		return &secagg.Violation{Device: index, Reason: "sent a message in the name of another device"}
	}
	return to(m)
}

// needs is what a device must know for a step.
func (g *group) needs(index uint32, step int) ([]byte, error) {
	switch step {
	case wire.StepShareKeys:
		return marshal(g.server.Roster(index))
	case wire.StepUpload:
		return marshal(g.server.Inbox(index))
	case wire.StepReveal:
		return marshal(g.server.Lists())
	}
	return nil, fmt.Errorf("step %d needs no answer", step)
}

func marshal[M interface{ MarshalBinary() ([]byte, error) }](m M, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return m.MarshalBinary()
}

func (g *group) setSummed(summed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.summed = summed
	g.turn()
}

// end ends an attempt that has no sum.
func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = !g.summed
	g.turn()
}

func (g *group) observe(t *Attendance, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.next {
		t.begun[id] = true
	}
	if !failed {
		return
	}
	for _, id := range g.devices {
		next, begun := g.next[id]
		if !begun || next <= min(g.step, wire.StepReveal) {
			t.left[id]++
		}
	}
}
