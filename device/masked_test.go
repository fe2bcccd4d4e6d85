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
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

func (f *fakeCoordinator) maskRound() secagg.Round {
	risk := privacy.MaskingRisk
	risk.Active = f.active
	p, err := secagg.Plan(f.devices, f.numbers(), f.bound.Max, risk)
	if err != nil {
		f.t.Fatal(err)
	}
	if p.MinDevices = max(p.MinDevices, min(p.Devices, privacy.MinMaskedSum)); f.kind != pb.Kind_TRAIN {
		p.MinDevices = p.Devices
	}
	return secagg.Round{
		Params: p, Model: sha256.Sum256(f.signed.Body),
		Number: uint64(f.round)<<16 | uint64(f.attempt), Seed: sha256.Sum256([]byte(fmt.Sprint(f.round, f.attempt))),
	}
}

// begin starts an attempt.
func (f *fakeCoordinator) begin() {
	var err error
	if f.server, err = secagg.NewServer(f.maskRound()); err != nil {
		f.t.Fatal(err)
	}
	f.serverStep, f.summed = 0, false
	for i := range f.arrived {
		f.arrived[i] = map[uint32]bool{}
	}
}

// retry abandons an attempt and starts the next one.
func (f *fakeCoordinator) retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempt++
	f.begin()
}

func (f *fakeCoordinator) step() {
	if f.serverStep == wire.StepReveal {
		sum, err := f.server.Sum(1)
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
	if err := f.server.Next(); err != nil {
		f.t.Error(err)
	}
	if f.serverStep++; f.serverStep == wire.StepConfirm && !f.active {
		f.serverStep++
	}
}

func (c *conn) Mask(_ context.Context, r *pb.MaskRequest) (out *pb.MaskResponse, err error) {
	return out, c.do(fmt.Sprintf("mask %d", r.Step), func() (err error) {
		out, err = c.f.mask(c.f.ids[c.key], c.key, r)
		return err
	})
}

func (f *fakeCoordinator) mask(id uint32, key string, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	state := func(s pb.MaskResponse_State) (*pb.MaskResponse, error) {
		return &pb.MaskResponse{State: s, AfterMs: 1}, nil
	}
	switch {
	case r.Attempt != f.attempt:
		return state(pb.MaskResponse_ENDED)
	case f.arrived[r.Step][id] && len(r.Message) > 0:
		return state(pb.MaskResponse_ACCEPTED)
	case len(r.Message) == 0 && f.summed:
		return state(pb.MaskResponse_SUMMED)
	case len(r.Message) == 0 && f.arrived[r.Step][id] || int(r.Step) > f.serverStep:
		return state(pb.MaskResponse_NOT_YET)
	case len(r.Message) == 0:
		return f.maskAnswer(id, int(r.Step))
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
	f.arrived[r.Step][id] = true
	if len(f.arrived[r.Step]) == f.devices {
		f.step()
	}
	return state(pb.MaskResponse_ACCEPTED)
}

func (f *fakeCoordinator) take(step int, b []byte) error {
	read := func(m encoding.BinaryUnmarshaler, do func() error) error {
		return errors.Join(m.UnmarshalBinary(b), do())
	}
	switch step {
	case wire.StepAdvert:
		m := &secagg.Advert{}
		return read(m, func() error { return f.server.Advert(m) })
	case wire.StepShareKeys:
		m := &secagg.ShareBundle{}
		return read(m, func() error { return f.server.ShareKeys(m) })
	case wire.StepUpload:
		m := &secagg.Upload{}
		return read(m, func() error { return f.server.Upload(m) })
	case wire.StepConfirm:
		m := &secagg.ShareBundle{}
		return read(m, func() error { return f.server.Confirm(m) })
	}
	m := &secagg.Reveal{}
	return read(m, func() error { return f.server.Reveal(m) })
}

func (f *fakeCoordinator) maskAnswer(id uint32, step int) (*pb.MaskResponse, error) {
	var m encoding.BinaryMarshaler
	var err error
	switch {
	case step == wire.StepShareKeys:
		m, err = f.server.Roster(id)
	case step == wire.StepUpload:
		m, err = f.server.Inbox(id)
	case step == wire.StepReveal && f.active:
		m, err = f.server.Echo(id)
	default:
		m, err = f.server.Lists()
	}
	if err != nil {
		return nil, err
	}
	b, err := m.MarshalBinary()
	return &pb.MaskResponse{State: pb.MaskResponse_ANSWER, Message: b}, err
}

// together lets devices step concurrently, each until its step is done.
func together(t *testing.T, members []*testDevice, stop func() bool) {
	t.Helper()
	var wg sync.WaitGroup
	for _, r := range members {
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

func newMasked(t *testing.T, n int, active bool) (*fakeCoordinator, []*testDevice) {
	f := newFake(t, "pfedrec", n, "dim", "4")
	f.spec.Masked, f.masking, f.active = true, true, active
	f.protect("epsilon=2", "all")
	f.publish()
	f.begin()
	var members []*testDevice
	for i := range n {
		members = append(members, f.device(i))
	}
	return f, members
}

// plainSum returns the sum of the same devices without masks.
func plainSum(t *testing.T, n int) []int64 {
	f := newFake(t, "pfedrec", n, "dim", "4")
	f.protect("epsilon=2", "all")
	f.publish()
	for i := range n {
		if _, err := f.device(i).open().Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return f.sums[0]
}

func TestMaskedSumEqualsPlainSum(t *testing.T) {
	want := plainSum(t, privacy.MinMaskedGroup)
	for _, active := range []bool{false, true} {
		f, members := newMasked(t, privacy.MinMaskedGroup, active)
		together(t, members, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.summed })
		if len(f.sums) != 1 || !slices.Equal(f.sums[0], want) {
			t.Errorf("active %v: the masked sum is not the plain one", active)
		}
		for i, r := range members {
			a, err := r.open().About()
			if err != nil || len(a.Log) != 1 || a.Log[0].State != counted || !a.Log[0].Masked {
				t.Errorf("active %v: device %d logs %+v, %v", active, i, a, err)
			}
		}
	}
}

// A device that is killed at any boundary of an attempt has dropped out. It joins the next attempt with the
// same update, unless shares were revealed in the first one: then the round has no sum.
func TestKilledDeviceJoinsTheNextAttempt(t *testing.T) {
	want := plainSum(t, privacy.MinMaskedGroup)
	boundaries, times := 0, 3
	if testing.Short() {
		times = 1
	}
	for _, name := range []string{
		"before save", "after save", "before mask 0", "after mask 0", "before mask 1",
		"after mask 1", "before mask 2", "after mask 2",
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

// killedOnce kills one of the devices in the first attempt, and lets all finish in the second.
func killedOnce(t *testing.T, name string, n int, want []int64) bool {
	f, members := newMasked(t, privacy.MinMaskedGroup, false)
	killed := crashOn(members[2], name, n)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i, r := range members {
		wg.Go(func() {
			d, err := r.tryOpen()
			for err == nil && ctx.Err() == nil && !f.isSummed() {
				_, err = d.Step(ctx)
			}
			if i == 2 && killed() { // the others would wait for it
				r.crash = func(string) error { return nil }
				cancel()
			}
		})
	}
	wg.Wait()
	if !f.isSummed() {
		if anyRevealed(members) { // TestUnmaskedOnce has the rest
			return killed()
		}
		f.retry()
		together(t, members, f.isSummed)
	}
	if len(f.sums) != 1 || !slices.Equal(f.sums[0], want) {
		t.Fatalf("killed at %q, time %d: the sum is not that of the same vectors", name, n)
	}
	return killed()
}

// anyRevealed reports whether a device has saved that it reveals its shares.
func anyRevealed(members []*testDevice) bool {
	return slices.ContainsFunc(members, func(r *testDevice) bool {
		d := r.open()
		return d.record.Train != nil && d.record.Train.Revealed
	})
}

func (f *fakeCoordinator) isSummed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.summed
}

// A curious coordinator gets at most one sum of a round with a device in it: two sums over different
// devices would reveal one device's update. It claims that the attempt in which all devices revealed
// has no sum, and begins another one without device 0.
func TestUnmaskedOnce(t *testing.T) {
	for _, active := range []bool{false, true} {
		f, members := newMasked(t, privacy.MinMaskedGroup, active)
		together(t, members, f.isSummed)
		if len(f.sums) != 1 {
			t.Fatalf("active %v: the first attempt has %d sums", active, len(f.sums))
		}
		for _, r := range members { // a device that did not hear of the sum, or was lied to
			err := r.open().update(func(r *record) error {
				r.Train.State = pending
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		f.retry()
		for i, r := range members[1:] {
			out, err := r.open().Step(t.Context())
			if err != nil || out.State != closed {
				t.Errorf("active %v: device %d answers a second attempt with %+v, %v; want it closed", active, i+1, out,
					err)
			}
		}
		f.mu.Lock()
		if len(f.arrived[0]) > 0 {
			t.Errorf("active %v: devices %v sent a key in the second attempt", active, f.arrived[0])
		}
		f.mu.Unlock()
	}
}

// The state file says that a device reveals its shares before they leave it: a device that is killed
// in between joins no other attempt.
func TestDeviceThatRevealedJoinsNoOtherAttempt(t *testing.T) {
	for _, active := range []bool{false, true} {
		f, members := newMasked(t, privacy.MinMaskedGroup, active)
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for _, r := range members[1:] {
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
		var d *Device
		members[0].crash = func(what string) error {
			killed = killed || what == "before mask 4" && d.record.Train.Revealed
			if killed {
				return errDead
			}
			return nil
		}
		d = members[0].open()
		for !killed {
			d.Step(context.Background())
		}
		cancel()
		others.Wait()
		members[0].crash = func(string) error { return nil }
		f.mu.Lock()
		if f.arrived[4][0] {
			t.Errorf("active %v: the shares left before the crash", active)
		}
		f.mu.Unlock()
		f.retry()
		out, err := members[0].open().Step(context.Background())
		if err != nil || out.State != closed {
			t.Errorf("active %v: a second attempt ends as %+v, %v; want it closed", active, out, err)
		}
		f.mu.Lock()
		if f.arrived[0][0] {
			t.Errorf("active %v: it has sent a key in the second attempt", active)
		}
		f.mu.Unlock()
	}
}

// The keys of an attempt are lost with the process. Starting the attempt again with other keys would break
// the masks of its neighbours.
func TestDoesNotStartAnAttemptTwice(t *testing.T) {
	f, members := newMasked(t, privacy.MinMaskedGroup, false)
	f.repeats = true
	crashOn(members[0], "after mask 0", 1)
	if _, err := members[0].open().Step(t.Context()); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	calls := 0
	members[0].crash = func(what string) error {
		if strings.HasPrefix(what, "before mask") {
			calls++
		}
		return nil
	}
	out, err := members[0].open().Step(t.Context())
	if err != nil || out.Action != "waited" || calls > 0 {
		t.Errorf("%+v, %v, and %d calls", out, err, calls)
	}
	f.retry()
	together(t, members, f.isSummed)
	if !f.isSummed() {
		t.Error("the next attempt has no sum")
	}
}

func TestNeverReportsUnmaskedUnderAMaskedPlan(t *testing.T) {
	f, members := newMasked(t, privacy.MinMaskedGroup, false)
	f.masking = false
	if out, err := members[0].open().Step(context.Background()); err != nil || out.Action != "declined" {
		t.Errorf("it sends: %+v, %v", out, err)
	}
	if len(f.digests) > 0 {
		t.Error("a report came")
	}
}

// The last report that a device names must not let anyone test guesses of the masked update.
func TestCheckInRevealsNoHashOfAMaskedUpdate(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	d := members[0].open()
	f.rounds(1, members)
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

// An owner may delete a device during a masked round.
func TestForgottenDeviceStopsInAMaskedRound(t *testing.T) {
	_, members := start(t, "pfedrec", 2, "dim", "4")
	d := members[0].open()
	p := &maskedReport{Device: d, task: &pb.Task{Kind: pb.Kind_TRAIN}}
	if err := p.save(wire.StepReveal, 7); err == nil || d.record.Train != nil {
		t.Errorf("%v, %+v", err, d.record.Train)
	}
}
