package masked

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

const length = 5

func task() *pb.Task {
	return &pb.Task{
		Kind: pb.Kind_TRAIN, Run: []byte("0123456789abcdef"), Round: 2, Length: length,
		Bound: &pb.Bound{Clip: 1, Levels: 1 << 20, Max: 1 << 20},
	}
}

func cohort(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

func attemptConfig(n int) AttemptConfig {
	t := task()
	t.Attempt = 7
	return AttemptConfig{
		Task: t, Cohort: cohort(n), MinDevices: 3, Hold: 50 * time.Millisecond,
		Sensitivity: 1 << 20, StepTime: time.Minute,
		Now: time.Now,
		Timer: func(d time.Duration) (<-chan time.Time, func() bool) {
			timer := time.NewTimer(d)
			return timer.C, timer.Stop
		},
		BeforeReveal: func() error { return nil },
		BeforeSum:    func() error { return nil },
		BitsExceed:   func(*Sum) bool { return false },
		Count:        func(string, int64) {},
	}
}

func mask(a *Attempt, id uint32, step int, message []byte) (*pb.MaskResponse, error) {
	return a.Mask(context.Background(), id, step, message)
}

func newAttempt(t testing.TB, c AttemptConfig) *Attempt {
	t.Helper()
	a, err := NewAttempt(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// take part runs the protocol of one device.
func takePart(t *testing.T, a *Attempt, id uint32, values []int32) {
	task := a.Task(id, time.Now())
	round, index, err := wire.DecodeMasking(task.Masking)
	if err != nil {
		t.Error(err)
		return
	}
	client, err := secagg.NewClient(round, uint32(index), nil)
	if err != nil {
		t.Error(err)
		return
	}
	send := func(step int, m interface{ MarshalBinary() ([]byte, error) }, err error) {
		if err != nil {
			t.Error(err)
			return
		}
		b, err := m.MarshalBinary()
		if err == nil {
			_, err = mask(a, id, step, b)
		}
		if err != nil {
			t.Error(err)
		}
	}
	receive := func(step int, m interface{ UnmarshalBinary([]byte) error }) {
		for {
			out, err := mask(a, id, step, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if out.State == pb.MaskResponse_ANSWER {
				if err := m.UnmarshalBinary(out.Message); err != nil {
					t.Error(err)
				}
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	send(wire.StepAdvert, client.Advert(), nil)
	roster := &secagg.Roster{}
	receive(wire.StepShareKeys, roster)
	shares, err := client.ShareKeys(roster)
	send(wire.StepShareKeys, shares, err)
	inbox := &secagg.ShareBundle{}
	receive(wire.StepUpload, inbox)
	upload, err := client.Upload(inbox, values)
	send(wire.StepUpload, upload, err)
	lists := &secagg.Lists{}
	receive(wire.StepReveal, lists)
	reveal, err := client.Reveal(lists, nil)
	send(wire.StepReveal, reveal, err)
}

func TestAnAttemptAddsUpMaskedUpdates(t *testing.T) {
	a := newAttempt(t, attemptConfig(5))
	var wg sync.WaitGroup
	for id := range uint32(5) {
		wg.Go(func() {
			values := make([]int32, length)
			values[0], values[1] = int32(id), -2
			takePart(t, a, id, values)
		})
	}
	kept := false
	sum, err := a.Run(context.Background(), func(*Sum) error {
		kept = true
		if out, err := mask(a, 1, wire.StepReveal, nil); err != nil || out.State != pb.MaskResponse_NOT_YET {
			t.Errorf("before the sum is on disk a device hears %v, %v", out, err)
		}
		return nil
	})
	wg.Wait()
	if err != nil || !kept || sum.Values[0] != 10 || sum.Values[1] != -10 || !slices.Equal(sum.Devices, cohort(5)) {
		t.Fatalf("%+v, %v", sum, err)
	}
	if out, err := mask(a, 1, wire.StepReveal, nil); err != nil || out.State != pb.MaskResponse_SUMMED {
		t.Errorf("afterwards a device hears %v, %v", out, err)
	}
	attendance := NewAttendance()
	a.Observe(attendance, false)
	if left := attendance.Uncounted([]uint32{0, 1, 2, 4}); !slices.Equal(left, []uint32{3}) {
		t.Errorf("devices %v are uncounted", left)
	}
}

// An attempt that no device joins fails, and its devices have left it.
func TestAnAttemptWithoutDevicesFails(t *testing.T) {
	c := attemptConfig(5)
	c.Timer = func(time.Duration) (<-chan time.Time, func() bool) {
		now := make(chan time.Time, 1)
		now <- time.Now()
		return now, func() bool { return true }
	}
	a := newAttempt(t, c)
	_, err := a.Run(context.Background(), func(*Sum) error { return nil })
	if !Failed(err) {
		t.Fatalf("the error is %v", err)
	}
	if out, err := mask(a, 1, wire.StepAdvert, nil); err != nil || out.State != pb.MaskResponse_ENDED {
		t.Errorf("afterwards a device hears %v, %v", out, err)
	}
	attendance := NewAttendance()
	a.Observe(attendance, true)
	if attendance.left[4] != 1 || len(attendance.begun) != 0 {
		t.Errorf("%+v", attendance)
	}
}

// A step whose time is up is extended while messages arrive and too few devices have sent theirs. With
// enough devices, or if nothing arrives, it ends.
func TestAStepIsExtendedForSlowDevices(t *testing.T) {
	for _, x := range []struct{ each, want int }{{1, 5}, {0, 0}, {8, 8}} { // per period; in the end
		c := attemptConfig(12)
		c.MinDevices = 8
		periods := 0
		var a *Attempt
		c.Timer = func(d time.Duration) (<-chan time.Time, func() bool) {
			if want := c.StepTime; periods > 0 && d != want/2 || periods == 0 && d != want {
				t.Errorf("period %d lasts %v", periods, d)
			}
			for id := periods * x.each; id < (periods+1)*x.each && id < 12; id++ {
				round, index, err := wire.DecodeMasking(a.Task(uint32(id), time.Now()).Masking)
				if err != nil {
					t.Fatal(err)
				}
				client, err := secagg.NewClient(round, uint32(index), nil)
				if err != nil {
					t.Fatal(err)
				}
				b, err := client.Advert().MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := a.groups[0].answer(uint32(id), wire.StepAdvert, b); err != nil {
					t.Fatal(err)
				}
			}
			periods++
			now := make(chan time.Time, 1)
			now <- time.Now()
			return now, func() bool { return true }
		}
		a = newAttempt(t, c)
		g := a.groups[0]
		if err := g.wait(context.Background(), wire.StepAdvert, &a.config); err != nil {
			t.Fatal(err)
		}
		if len(progressOf(g)) != x.want {
			t.Errorf("%d messages per period: the step ends with %d devices, expected %d", x.each, len(progressOf(g)),
				x.want)
		}
	}
}

func TestGroupsDivideTheCohort(t *testing.T) {
	c := attemptConfig(12)
	c.GroupSize = 4
	a := newAttempt(t, c)
	seen := map[uint32]bool{}
	for _, g := range a.groups {
		if len(g.devices) != 4 || !slices.IsSorted(g.devices) {
			t.Errorf("a group has devices %v", g.devices)
		}
		for _, id := range g.devices {
			seen[id] = true
		}
	}
	if len(a.groups) != 3 || len(seen) != 12 {
		t.Errorf("%d groups of %d devices", len(a.groups), len(seen))
	}
	if _, err := mask(a, 99, 0, nil); !errors.Is(err, ErrNotInCohort) {
		t.Errorf("a device outside of the cohort: %v", err)
	}
}

// A number that the devices of a group cannot make together is found, on either side.
func TestASumBeyondItsDevicesIsFound(t *testing.T) {
	const limit = 1000
	task := &pb.Task{Kind: pb.Kind_TRAIN, Bound: &pb.Bound{PerSlot: true, Max: limit}}
	for _, x := range []struct {
		sum  []int32
		want bool
	}{
		{[]int32{3 * limit, -3 * limit, 3}, false},
		{[]int32{0, 0, 0}, false}, // no device has training data
		{[]int32{3*limit + 1, 0, 3}, true},
		{[]int32{0, -3*limit - 1, 3}, true},
		{[]int32{0, 0, 4}, true},
		{[]int32{1, 0, 0}, true}, // although no device has training data
		{[]int32{0, 0, -1}, true},
	} {
		if got := exceeds(&Sum{Devices: []uint32{1, 5, 7}, Values: x.sum}, task, 0); got != x.want {
			t.Errorf("%v of three devices up to %d exceeds them: %v", x.sum, limit, got)
		}
	}
}

// Steps take longer if devices send messages after their step, and only then.
func TestStepsWaitLongerForSlowDevices(t *testing.T) {
	const whole = 10 * time.Second
	c := attemptConfig(4)
	c.Task.Round = 5
	a := newAttempt(t, c)
	message := func(round uint32, b ...byte) *pb.MaskRequest {
		return &pb.MaskRequest{Run: c.Task.Run, Round: round, Message: b}
	}
	for name, x := range map[string]struct {
		id    uint32
		r     *pb.MaskRequest
		state pb.MaskResponse_State
		want  bool
	}{
		"late":             {3, message(5, 1), pb.MaskResponse_ENDED, true},
		"without message":  {3, message(5), pb.MaskResponse_ENDED, false},
		"in time":          {3, message(5, 1), pb.MaskResponse_ACCEPTED, false},
		"not in the round": {9, message(5, 1), pb.MaskResponse_ENDED, false},
		"an older round":   {3, message(4, 1), pb.MaskResponse_ENDED, false},
	} {
		if got := a.IsLate(x.id, x.r, x.state); got != x.want {
			t.Errorf("%s: late is %v", name, got)
		}
	}
	var s StepTime
	for range 3 {
		s.Failed()
		if s.Of(whole) != whole {
			t.Fatalf("without late devices steps take %v", s.Of(whole))
		}
	}
	for _, want := range []time.Duration{2, 4, 8, 16, 16} {
		s.NoteLate()
		s.Failed()
		if s.Of(whole) != want*whole {
			t.Errorf("steps of %v, expected %v", s.Of(whole), want*whole)
		}
	}
	for _, x := range []struct{ took, want time.Duration }{{9 * whole, 16}, {7 * whole, 8}, {whole, 4}} {
		s.Succeeded(x.took, whole)
		if s.Of(whole) != x.want*whole {
			t.Errorf("after an attempt of %v steps of %v, expected %v", x.took, s.Of(whole), x.want*whole)
		}
	}
}

// FuzzMask lets devices run a masked round with messages that are changed, out of order and each
// other's: nothing panics, a device moves nobody but itself, and no device hears of a sum.
func FuzzMask(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1, 7, 7, 7, 7, 9, 9, 2, 2, 2})
	f.Fuzz(func(t *testing.T, input []byte) {
		next := func() byte {
			if len(input) == 0 {
				return 0
			}
			x := input[0]
			input = input[1:]
			return x
		}
		a := newAttempt(t, attemptConfig(6))
		g := a.groups[0]
		for range 24 {
			if len(input) == 0 {
				break
			}
			who := next()
			if who%8 == 7 { // the coordinator begins the next step
				g.mu.Lock()
				if g.step < wire.StepUpload && g.server.Next() == nil {
					g.step++
				}
				g.mu.Unlock()
				continue
			}
			id := uint32(who % 6)
			as := (id + uint32(next()%3)*uint32(next()%2)) % 6
			client, err := secagg.NewClient(g.round, as, nil)
			if err != nil {
				t.Fatal(err)
			}
			message, err := client.Advert().MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			step := int(next() % 6)
			message = change(message, next)
			before := progressOf(g)
			out, _ := mask(a, id, step, message)
			for other, step := range progressOf(g) {
				if old, begun := before[other]; other != id && (!begun || old != step) {
					t.Fatalf("device %d moved device %d to step %d", id, other, step)
				}
			}
			if out.GetState() == pb.MaskResponse_SUMMED {
				t.Fatalf("device %d is in a sum that does not exist", id)
			}
		}
	})
}

// change changes a byte, the length or nothing of a message.
func change(b []byte, next func() byte) []byte {
	switch how, at := next(), int(next()); how % 5 {
	case 1:
		b[at%len(b)] ^= next()
	case 2:
		b = b[:min(at, len(b))]
	case 3:
		b = append(b, make([]byte, at)...)
	}
	return b
}

func progressOf(g *group) map[uint32]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[uint32]int{}
	for id, step := range g.next {
		out[id] = step
	}
	return out
}
