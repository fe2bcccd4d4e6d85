package masked

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// WaitingRoom gathers devices before a masked round whose devices choose when to check in: the
// protocol must know all of them before it begins.
type WaitingRoom struct {
	eligible   []uint32 // sorted
	limit      int
	attendance *Attendance

	mu       sync.Mutex
	waiting  []uint32
	full     chan struct{}
	declined int // check-ins of devices that cannot contribute any more
}

// maxLeft is the number of attempts at a round that a device may leave. Then it is not admitted
// again, since others would wait for it for ever.
const maxLeft = 2

// quietPeriods without a new device end the wait, if all devices that check in have contributed.
const quietPeriods = 2

// NewWaitingRoom opens a waiting room for at most limit of the eligible devices.
func NewWaitingRoom(eligible []uint32, limit int, attendance *Attendance) *WaitingRoom {
	return &WaitingRoom{
		eligible: eligible, limit: min(limit, len(eligible)), attendance: attendance, full: make(chan struct{}),
	}
}

// Limit is the largest number of devices that it admits.
func (w *WaitingRoom) Limit() int { return w.limit }

// Task admits a device and lets it wait.
func (w *WaitingRoom) Task(id uint32, _ time.Time) *pb.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, eligible := slices.BinarySearch(w.eligible, id)
	if !eligible || w.attendance.left[id] >= maxLeft {
		w.declined++
		return nil
	}
	if len(w.waiting) >= w.limit || slices.Contains(w.waiting, id) {
		return nil
	}
	w.waiting = append(w.waiting, id)
	if len(w.waiting) == w.limit {
		close(w.full)
	}
	return nil
}

// Decline notes a check-in of a device that cannot contribute any more.
func (w *WaitingRoom) Decline() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.declined++
}

// Progress is the number of devices that wait, and of those that it admits.
func (w *WaitingRoom) Progress() (done, expected int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting), w.limit
}

// Gather waits until the room is full, or has enough devices after a period. It returns them in
// order; nil if only devices that cannot contribute any more check in.
func (w *WaitingRoom) Gather(ctx context.Context, enough int, period time.Duration) ([]uint32, error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	quiet, before := 0, 0
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.full:
			return w.admitted(), nil
		case <-tick.C:
		}
		n, _ := w.Progress()
		if n >= enough {
			return w.admitted(), nil
		}
		if n > before {
			quiet = 0
		}
		quiet++
		before = n
		if quiet > quietPeriods && w.takeTurnedAway() > 0 {
			return nil, nil
		}
	}
}

func (w *WaitingRoom) admitted() []uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.waiting)
	slices.Sort(out)
	return out
}

func (w *WaitingRoom) takeTurnedAway() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.declined
	w.declined = 0
	return n
}

// Attendance is what devices did in the attempts at a masked round. It is used by one goroutine.
type Attendance struct {
	begun map[uint32]bool
	left  map[uint32]int // by device ID: failed attempts in which it missed its last step
}

// NewAttendance returns the attendance before the first attempt.
func NewAttendance() *Attendance { return &Attendance{map[uint32]bool{}, map[uint32]int{}} }

// Uncounted lists the devices that began an attempt and are not among the counted ones, which are
// sorted.
func (t *Attendance) Uncounted(counted []uint32) (ids []uint32) {
	for id := range t.begun {
		if _, in := slices.BinarySearch(counted, id); !in {
			ids = append(ids, id)
		}
	}
	return ids
}
