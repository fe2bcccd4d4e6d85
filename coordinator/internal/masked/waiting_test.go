package masked

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestTheWaitingRoom(t *testing.T) {
	now := time.Now()
	attendance := NewAttendance()
	attendance.left[3] = maxLeft
	w := NewWaitingRoom([]uint32{1, 2, 3, 4}, 3, attendance)
	for _, id := range []uint32{4, 3, 4, 7, 1} {
		if w.Task(id, now) != nil {
			t.Error("a waiting device has a task")
		}
	}
	if n, of := w.Progress(); n != 2 || of != 3 || w.declined != 2 {
		t.Errorf("%d of %d wait, %d are declined", n, of, w.declined)
	}
	got, err := w.Gather(context.Background(), 2, time.Millisecond)
	if err != nil || !slices.Equal(got, []uint32{1, 4}) {
		t.Errorf("enough devices: %v, %v", got, err)
	}
	w.Task(2, now)
	got, err = w.Gather(context.Background(), 3, time.Hour)
	if err != nil || len(got) != 3 {
		t.Errorf("a full room: %v, %v", got, err)
	}
	empty := NewWaitingRoom([]uint32{1, 2}, 2, NewAttendance())
	empty.Decline()
	if got, err := empty.Gather(context.Background(), 2, time.Millisecond); got != nil || err != nil {
		t.Errorf("only devices that contributed check in: %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := empty.Gather(ctx, 2, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
