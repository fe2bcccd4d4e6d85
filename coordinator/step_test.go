package coordinator

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Steps become longer where devices bring messages after their step, and only there.
func TestStepsWaitLongerForSlowDevices(t *testing.T) {
	s := small(4)
	s.Deadline = 20 * time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	f := &fleet{Coordinator: r.c}
	b := &buckets{of: map[uint32]*vault{3: {}}}
	b.of[3].task.Round = 5
	seat := uint32(3)
	try := func(m *pb.MaskRequest, state pb.MaskResponse_State) time.Duration {
		r.c.late(b, seat, m, state)
		if err := f.again(context.Background(), 0, 1); err != nil {
			t.Fatal(err)
		}
		return r.c.stepTime()
	}
	const whole = 10 * time.Second
	for range 3 {
		if got := try(&pb.MaskRequest{Round: 5}, pb.MaskResponse_ENDED); got != whole {
			t.Fatalf("who only asks makes steps of %v", got)
		}
		if got := try(&pb.MaskRequest{Round: 5, Message: []byte{1}}, pb.MaskResponse_ACCEPTED); got != whole {
			t.Fatalf("who is in time makes steps of %v", got)
		}
	}
	if seat = 2; try(&pb.MaskRequest{Round: 5, Message: []byte{1}}, pb.MaskResponse_ENDED) != whole {
		t.Error("a stranger to the round makes its steps longer")
	}
	if seat = 3; try(&pb.MaskRequest{Round: 4, Message: []byte{1}}, pb.MaskResponse_ENDED) != whole {
		t.Error("an older round makes steps longer")
	}
	for _, want := range []time.Duration{2, 4, 8, 16, 16} {
		if got := try(&pb.MaskRequest{Round: 5, Message: []byte{1}}, pb.MaskResponse_ENDED); got != want*whole {
			t.Errorf("steps of %v, want %v", got, want*whole)
		}
	}
	for _, x := range []struct{ took, want time.Duration }{{9 * whole, 16}, {7 * whole, 8}, {whole, 4}} {
		if r.c.hasten(x.took); r.c.stepTime() != x.want*whole {
			t.Errorf("after an attempt of %v steps of %v, want %v", x.took, r.c.stepTime(), x.want*whole)
		}
	}
}
