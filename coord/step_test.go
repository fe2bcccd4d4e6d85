package coord

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/wire/pb"
)

// Steps become longer where devices bring messages after their step, and only there.
func TestStepsWaitLongerForSlowDevices(t *testing.T) {
	s := small(4)
	s.Deadline = 20 * time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	f := &fleet{Coordinator: r.c}
	try := func(m *pb.MaskRequest, state pb.MaskResponse_State) time.Duration {
		r.c.late(m, &pb.MaskResponse{State: state})
		if err := f.again(context.Background(), 0, 1); err != nil {
			t.Fatal(err)
		}
		return r.c.stepTime()
	}
	const whole = 10 * time.Second
	for range 3 {
		if got := try(&pb.MaskRequest{}, pb.MaskResponse_OVER); got != whole {
			t.Fatalf("who only asks makes steps of %v", got)
		}
		if got := try(&pb.MaskRequest{Message: []byte{1}}, pb.MaskResponse_TAKEN); got != whole {
			t.Fatalf("who is in time makes steps of %v", got)
		}
	}
	for _, want := range []time.Duration{2, 4, 8, 16, 16} {
		if got := try(&pb.MaskRequest{Message: []byte{1}}, pb.MaskResponse_OVER); got != want*whole {
			t.Errorf("steps of %v, want %v", got, want*whole)
		}
	}
}
