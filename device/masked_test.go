package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

func (f *fake) maskRound() secagg.Round {
	p, err := secagg.Plan(f.devices, f.numbers(), f.bound.Max, secagg.Risk{Dropped: 0.3, Active: f.active})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.kind != pb.Kind_TRAIN {
		p.MinDevices = p.Devices
	}
	return secagg.Round{
		Params: p, Model: sha256.Sum256(f.signed.Body),
		Number: uint64(f.round)<<16 | uint64(f.attempt), Seed: sha256.Sum256([]byte(fmt.Sprint(f.round, f.attempt))),
	}
}

// begin starts an attempt.
func (f *fake) begin() {
	var err error
	if f.hub, err = secagg.NewServer(f.maskRound()); err != nil {
		f.t.Fatal(err)
	}
	f.hubStep, f.summed = 0, false
	for i := range f.came {
		f.came[i] = map[uint32]bool{}
	}
}

// again gives an attempt up and begins the next one.
func (f *fake) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempt++
	f.begin()
}

func (f *fake) step() {
	if f.hubStep == wire.StepReveal {
		sum, err := f.hub.Sum(1)
		if err != nil {
			f.t.Error(err)
			return
		}
		for i, x := range sum {
			f.sum[i] += int64(x)
		}
		f.sums = append(f.sums, slices.Clone(f.sum))
		clear(f.sum)
		f.summed = true
		return
	}
	if err := f.hub.Next(); err != nil {
		f.t.Error(err)
	}
	if f.hubStep++; f.hubStep == wire.StepConfirm && !f.active {
		f.hubStep++
	}
}

func (c *conn) Mask(_ context.Context, r *pb.MaskRequest) (out *pb.MaskResponse, err error) {
	return out, c.do(fmt.Sprintf("mask %d", r.Step), func() (err error) {
		out, err = c.f.mask(c.f.seats[c.key], c.key, r)
		return err
	})
}

func (f *fake) mask(seat uint32, key string, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	state := func(s pb.MaskResponse_State) (*pb.MaskResponse, error) {
		return &pb.MaskResponse{State: s, AfterMs: 1}, nil
	}
	switch {
	case r.Attempt != f.attempt:
		return state(pb.MaskResponse_ENDED)
	case f.came[r.Step][seat] && len(r.Message) > 0:
		return state(pb.MaskResponse_ACCEPTED)
	case len(r.Message) == 0 && f.summed:
		return state(pb.MaskResponse_SUMMED)
	case len(r.Message) == 0 && f.came[r.Step][seat] || int(r.Step) > f.hubStep:
		return state(pb.MaskResponse_NOT_YET)
	case len(r.Message) == 0:
		return f.maskAnswer(seat, int(r.Step))
	}
	part := f.parts[key]
	if r.Offset == 0 {
		part = nil
	}
	part = append(part, r.Message...)
	f.parts[key] = part
	if uint64(len(part)) < r.Bytes {
		return &pb.MaskResponse{State: pb.MaskResponse_PART, Next: uint64(len(part))}, nil
	}
	if err := f.take(int(r.Step), part); err != nil {
		f.t.Error(err)
		return nil, refusal("malformed")
	}
	f.came[r.Step][seat] = true
	if len(f.came[r.Step]) == f.devices {
		f.step()
	}
	return state(pb.MaskResponse_ACCEPTED)
}

func (f *fake) take(step int, b []byte) error {
	read := func(m encoding.BinaryUnmarshaler, do func() error) error {
		return errors.Join(m.UnmarshalBinary(b), do())
	}
	switch step {
	case wire.StepAdvert:
		m := &secagg.Advert{}
		return read(m, func() error { return f.hub.Advert(m) })
	case wire.StepDeal:
		m := &secagg.ShareBundle{}
		return read(m, func() error { return f.hub.ShareKeys(m) })
	case wire.StepUpload:
		m := &secagg.Upload{}
		return read(m, func() error { return f.hub.Upload(m) })
	case wire.StepConfirm:
		m := &secagg.ShareBundle{}
		return read(m, func() error { return f.hub.Confirm(m) })
	}
	m := &secagg.Reveal{}
	return read(m, func() error { return f.hub.Reveal(m) })
}

func (f *fake) maskAnswer(seat uint32, step int) (*pb.MaskResponse, error) {
	var m encoding.BinaryMarshaler
	var err error
	switch {
	case step == wire.StepDeal:
		m, err = f.hub.Roster(seat)
	case step == wire.StepUpload:
		m, err = f.hub.Inbox(seat)
	case step == wire.StepReveal && f.active:
		m, err = f.hub.Echo(seat)
	default:
		m, err = f.hub.Lists()
	}
	if err != nil {
		return nil, err
	}
	b, err := m.MarshalBinary()
	return &pb.MaskResponse{State: pb.MaskResponse_ANSWER, Message: b}, err
}

// together lets devices step at a time, each until its step is done.
func together(t *testing.T, rigs []*rig, stop func() bool) {
	t.Helper()
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() {
			d := r.open()
			for range 50 {
				if _, err := d.Step(context.Background()); err != nil || stop() {
					return
				}
			}
		})
	}
	wg.Wait()
}

func newMasked(t *testing.T, n int, active bool) (*fake, []*rig) {
	f := newFake(t, "pfedrec", n, "dim", "4")
	f.about.Masked, f.masking, f.active, f.about.Policy = true, true, active, "epsilon=2"
	f.bound.Levels, f.bound.Clip, f.bound.Max = 1<<20, 16, 1<<20+1
	f.publish()
	f.begin()
	var rigs []*rig
	for i := range n {
		rigs = append(rigs, f.rig(i))
	}
	return f, rigs
}

// plain is what the same devices send without masks.
func plainSum(t *testing.T, n int) []int64 {
	f := newFake(t, "pfedrec", n, "dim", "4")
	f.bound.Levels, f.bound.Clip, f.bound.Max = 1<<20, 16, 1<<20+1
	f.publish()
	for i := range n {
		if _, err := f.rig(i).open().Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return f.sums[0]
}

func TestAMaskedSumIsThePlainOne(t *testing.T) {
	want := plainSum(t, 6)
	for _, active := range []bool{false, true} {
		f, rigs := newMasked(t, 6, active)
		together(t, rigs, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.summed })
		if len(f.sums) != 1 || !slices.Equal(f.sums[0], want) {
			t.Errorf("active %v: the masked sum is not the plain one", active)
		}
		for i, r := range rigs {
			a, err := r.open().About()
			if err != nil || len(a.Log) != 1 || a.Log[0].State != counted || !a.Log[0].Masked {
				t.Errorf("active %v: device %d logs %+v, %v", active, i, a, err)
			}
		}
	}
}

// A device that is killed at any boundary of an attempt is one that left. The next
// attempt has it with the same vector.
func TestAKilledDeviceIsInTheNextAttempt(t *testing.T) {
	want := plainSum(t, 6)
	boundaries, times := 0, 3
	if testing.Short() {
		times = 1
	}
	for _, name := range []string{
		"before save", "after save", "before mask 0", "after mask 0", "before mask 1",
		"after mask 1", "before mask 2", "after mask 2", "before mask 4", "after mask 4",
	} {
		for n := 1; n <= times; n++ {
			if killedOnce(t, name, n, want) {
				boundaries++
			}
		}
	}
	if boundaries < 6*times {
		t.Errorf("only %d boundaries were found", boundaries)
	}
}

// killedOnce kills one of six devices in the first attempt, and lets all finish in the
// second.
func killedOnce(t *testing.T, name string, n int, want []int64) bool {
	f, rigs := newMasked(t, 6, false)
	killed := crashOn(rigs[2], name, n)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i, r := range rigs {
		wg.Go(func() {
			d, err := r.tryOpen()
			for err == nil && ctx.Err() == nil && !f.isSummed() {
				_, err = d.Step(ctx)
			}
			if i == 2 && killed() { // the others would wait for it
				r.dead = func(string) error { return nil }
				cancel()
			}
		})
	}
	wg.Wait()
	if !f.isSummed() {
		f.again()
		together(t, rigs, f.isSummed)
	}
	if len(f.sums) != 1 || !slices.Equal(f.sums[0], want) {
		t.Fatalf("killed at %q, time %d: the sum is not that of the same vectors", name, n)
	}
	return killed()
}

func (f *fake) isSummed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.summed
}

// A coordinator that may lie gets one sum with a device in it, or none: two sums over
// different devices tell one device's vector.
func TestWhoHasOpenedTakesPartInNoOtherAttempt(t *testing.T) {
	f, rigs := newMasked(t, 5, true)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer func() { cancel(); others.Wait() }() // before the test ends
	for _, r := range rigs[1:] {
		d := r.open()
		others.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.Step(ctx); err != nil {
					return
				}
			}
		})
	}
	killed := false
	rigs[0].dead = func(what string) error {
		if killed = killed || what == "after mask 4" &&
			func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.came[4][0] }(); killed {
			return errDead
		}
		return nil
	}
	d := rigs[0].open()
	for !killed {
		d.Step(context.Background())
	}
	rigs[0].dead = func(string) error { return nil }
	f.again()
	f.mu.Lock()
	f.summed = false
	f.mu.Unlock()
	out, err := rigs[0].open().Step(context.Background())
	if err != nil || out.State != closed {
		t.Errorf("a second attempt ends as %+v, %v; want it closed", out, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.came[0][0] {
		t.Error("it has sent a key in the second attempt")
	}
}

// The keys of an attempt die with the process: to begin it again with others would spoil
// the masks of its neighbours.
func TestAnAttemptIsNotBegunTwice(t *testing.T) {
	f, rigs := newMasked(t, 3, false)
	f.insists = true
	crashOn(rigs[0], "after mask 0", 1)
	if _, err := rigs[0].open().Step(t.Context()); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	calls := 0
	rigs[0].dead = func(what string) error {
		if strings.HasPrefix(what, "before mask") {
			calls++
		}
		return nil
	}
	out, err := rigs[0].open().Step(t.Context())
	if err != nil || out.Action != "waited" || calls > 0 {
		t.Errorf("%+v, %v, and %d calls", out, err, calls)
	}
	f.again()
	together(t, rigs, f.isSummed)
	if !f.isSummed() {
		t.Error("the next attempt has no sum")
	}
}

func TestAMaskedPlanIsNeverAnsweredWithoutMasks(t *testing.T) {
	f, rigs := newMasked(t, 3, false)
	f.masking = false
	if out, err := rigs[0].open().Step(context.Background()); err != nil || out.Action != "declined" {
		t.Errorf("it sends: %+v, %v", out, err)
	}
	if len(f.digests) > 0 {
		t.Error("a report came")
	}
}

// What a device says of its last round must not let anybody try what was under the masks.
func TestACheckInTellsNoHashOfWhatIsUnderMasks(t *testing.T) {
	f, rigs := start(t, "pfedrec", 2, "dim", "4")
	d := rigs[0].open()
	f.rounds(1, rigs)
	err := d.update(func(r *record) error {
		r.Train.Masked, r.Train.State = true, counted
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	if f.last == nil || len(bytes.Trim(f.last.Digest, "\x00")) > 0 || len(f.last.Digest) != wire.HashBytes {
		t.Errorf("it says %v", f.last)
	}
}

// An owner may forget a device while it plays a masked round.
func TestADeviceThatIsForgottenInAMaskedRoundStops(t *testing.T) {
	_, rigs := start(t, "pfedrec", 2, "dim", "4")
	d := rigs[0].open()
	p := &maskedReport{Device: d, task: &pb.Task{Kind: pb.Kind_TRAIN}}
	if err := p.save(wire.StepReveal, 7); err == nil || d.record.Train != nil {
		t.Errorf("%v, %+v", err, d.record.Train)
	}
}
