package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/batch"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// hall is a round in progress whose sums are not masked. Reports are dealt to shards by
// seat; each shard has one owner, which makes one record of all that came while the last was
// written, and in a few milliseconds more: who they are from, and their sum. A report is answered when its record is on
// disk, so one that is sent again meets its first.
type hall struct {
	task    pb.Task // what devices are told, but for left_ms
	cohort  []uint32
	log     string
	numbers int
	ends    time.Time

	mu      sync.Mutex
	counted map[uint32]uint64 // by seat: the first 8 bytes of the report's digest
	idle    int               // of them, with nothing to learn from
	sum     []int64
	closed  bool
	full    chan struct{} // closed when the goal is reached
	goal    int
	most    int // reports that may be in the sum; 0 for all of the cohort's
	taken   int // that are in it, or being written
	places  places

	st     *store.Store
	shards []*batch.Queue[*report]
}

// report is a device's vector on its way to a sum.
type report struct {
	seat   uint32
	digest uint64
	body   []byte // as package wire writes a vector
	again  bool   // its device has a record already
	other  bool   // of another report
	over   bool   // the round was full
}

// A round has at most so many shards, each with a log and an owner, and one for each so many
// devices: fewer owners make larger groups, and each group costs a sync.
const (
	shardCount = 4
	shardSize  = 4096
)

// Reasons why a report is in no sum.
var (
	errClosed  = errors.New("the round is over")
	errNotYour = errors.New("this device is not in the round's cohort")
	errOther   = errors.New("another report of this device is in the sum")
)

// ErrOlderRound says that the groups of the round in progress are of a form that only the program
// of before reads.
var ErrOlderRound = errors.New("it was begun by an older program, which has to end it")

// openHall opens a round, with what a coordinator that was killed had on disk of it.
// Without a store nothing of it ever is.
func openHall(st *store.Store, log string, task *pb.Task, cohort []uint32, goal, most int, ends time.Time) (*hall,
	error,
) {
	h := &hall{
		cohort: cohort, most: most, log: log, numbers: int(task.Length), ends: ends, counted: map[uint32]uint64{},
		sum: make([]int64, task.Length), full: make(chan struct{}), goal: goal, st: st,
	}
	h.task.Kind, h.task.Run, h.task.Round, h.task.Attempt = task.Kind, task.Run, task.Round, task.Attempt
	h.task.Bound, h.task.ModelVersion, h.task.Length = task.Bound, task.ModelVersion, task.Length
	for k := range shardCount {
		name := fmt.Sprintf("%s.%d", log, k)
		if st != nil {
			if err := st.Replay(name, func(record []byte) error { return h.take(record) }); err != nil &&
				!errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
		if k <= len(cohort)/shardSize {
			room := make([]int64, h.numbers)
			h.shards = append(h.shards, batch.New(func(all []*report) error { return h.commit(name, room, all) }))
		}
	}
	h.check()
	return h, nil
}

// in reports whether a seat is in the cohort.
func (h *hall) in(seat uint32) bool {
	_, found := slices.BinarySearch(h.cohort, seat)
	return found
}

// has reports whether a seat's report is in the sum.
func (h *hall) has(seat uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.counted[seat]
	return ok
}

// Report has a device's vector counted, and returns when it is on disk. Its body was
// checked.
func (h *hall) Report(r *report) error {
	if !h.in(r.seat) {
		return errNotYour
	}
	switch {
	case h.holds(r.seat, r.digest):
		return nil
	case h.has(r.seat):
		return errOther
	}
	err := h.shards[int(r.seat)%len(h.shards)].Do(r)
	switch {
	case errors.Is(err, batch.ErrStopped):
		err = errClosed
	case err == nil && r.over:
		err = errCrowded
	case err == nil && r.other:
		err = errOther
	}
	return err
}

// commit makes one record of reports, in room for their sum. Only the shard's owner calls it.
func (h *hall) commit(log string, sum []int64, all []*report) error {
	rec := record{}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return errClosed
	}
	for _, r := range all {
		digest, again := h.counted[r.seat]
		if i := slices.Index(rec.seats, r.seat); i >= 0 {
			digest, again = rec.digests[i], true
		}
		// What is being written has its place, whatever becomes of it: it may be on disk.
		r.again, r.other, r.over = again, again && digest != r.digest, !again && h.most > 0 && h.taken >= h.most
		if !r.again && !r.over {
			rec.seats, rec.digests = append(rec.seats, r.seat), append(rec.digests, r.digest)
			h.taken++
		}
	}
	h.mu.Unlock()
	if len(rec.seats) == 0 {
		return nil
	}
	clear(sum)
	for _, r := range all {
		if r.again || r.over {
			continue
		}
		n, idle := h.numbers, isIdle(r.body)
		if rec.idle = append(rec.idle, idle); idle {
			continue
		}
		if err := wire.ReadUpdate(r.body, n, h.task.Bound.Max, sum); err != nil {
			return err // it was checked before: nothing of this record is kept
		}
	}
	rec.sum = wire.AppendUpdate(nil, sum)
	if h.st != nil {
		if err := h.st.Append(log, rec.bytes()); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(&rec, sum)
	return nil
}

// take adds a record from disk.
func (h *hall) take(b []byte) error {
	rec, err := readRecord(b)
	if err != nil {
		return err
	}
	if len(rec.sum) > 0 && rec.sum[0] < rows.UpdateVersion {
		return fmt.Errorf("coord: round %d: %w", h.task.Round+1, ErrOlderRound)
	}
	sum := make([]int64, h.numbers)
	if err := wire.ReadUpdate(rec.sum, h.numbers, 1<<62, sum); err != nil {
		return fmt.Errorf("coord: a group of round %d: %w", h.task.Round+1, err)
	}
	for _, seat := range rec.seats {
		if _, twice := h.counted[seat]; twice {
			return fmt.Errorf("coord: round %d: seat %d is in two groups", h.task.Round+1, seat)
		}
	}
	h.taken += len(rec.seats)
	h.add(rec, sum)
	return nil
}

func (h *hall) add(rec *record, sum []int64) {
	for i, x := range sum {
		h.sum[i] += x
	}
	for i, seat := range rec.seats {
		h.counted[seat] = rec.digests[i]
		h.places.done(h.places.by[seat])
		delete(h.places.idle, seat)
		if rec.idle[i] {
			h.idle++
		}
	}
	h.check()
}

// check opens the door when the goal is reached.
func (h *hall) check() {
	if len(h.counted) < h.goal {
		return
	}
	select {
	case <-h.full:
	default:
		close(h.full)
	}
}

// count is how many reports are in the sum.
func (h *hall) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.counted)
}

// close ends the round: what is being written is waited for, what comes later is too late.
func (h *hall) close() {
	for _, s := range h.shards {
		s.Stop()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// record is a group of reports as it is on disk.
type record struct {
	seats   []uint32
	digests []uint64
	idle    []bool
	sum     []byte
}

func (r *record) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(r.seats)))
	for i, seat := range r.seats {
		b = binary.LittleEndian.AppendUint32(b, seat)
		b = binary.LittleEndian.AppendUint64(b, r.digests[i])
		idle := byte(0)
		if r.idle[i] {
			idle = 1
		}
		b = append(b, idle)
	}
	return append(b, r.sum...)
}

func readRecord(b []byte) (*record, error) {
	bad := errors.New("coord: a group of reports is not one")
	if len(b) < 4 {
		return nil, bad
	}
	n := int(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n > len(b)/13 {
		return nil, bad
	}
	r := &record{}
	for range n {
		r.seats = append(r.seats, binary.LittleEndian.Uint32(b))
		r.digests = append(r.digests, binary.LittleEndian.Uint64(b[4:]))
		r.idle = append(r.idle, b[12] == 1)
		b = b[13:]
	}
	r.sum = b
	return r, nil
}
