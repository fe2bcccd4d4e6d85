package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/batch"
	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// RoundConfig describes an open round.
type RoundConfig struct {
	Store  *store.Store // nil keeps the round in memory only
	Log    string       // prefix of its logs
	Task   *pb.Task
	Cohort []uint32      // sorted
	Goal   int           // reports that end the round before its deadline; 0 for none
	Limit  int           // reports that the sum may contain; 0 for one of each device
	Hold   time.Duration // with a limit: how long a device may keep its reservation
	Ends   time.Time
}

// Round is an open round whose reports are not masked. Reports are distributed over shards by
// device ID. Each shard commits what arrives within a few milliseconds as one record: the device
// IDs and the sum of their updates.
type Round struct {
	config RoundConfig
	shards []*batch.Queue[*report]
	cohort atomic.Pointer[[]uint32] // replaced, never changed

	mu           sync.Mutex
	ends         time.Time
	goal         int
	counted      map[uint32]uint64 // by device ID: the digest of its report
	idle         int               // devices in the sum without training data
	sum          []int64
	closed       bool
	full         chan struct{} // closed when the goal is reached
	taken        int           // reports that are in the sum or being written
	reservations reservations
	declined     map[uint32]bool // devices that have the task and do not answer it
}

var _ Open = (*Round)(nil)

// report is an update on its way into a sum.
type report struct {
	id     uint32
	digest uint64
	update []byte // as package wire encodes it
	again  bool   // the device has a report in the sum
	other  bool   // which is a different one
	full   bool   // the round had no room
}

// A round has one shard for each shardSize devices, and at most maxShards. Fewer shards make larger
// records, and each record costs a disk sync.
const (
	maxShards = 4
	shardSize = 4096
)

// OpenRound opens a round, with the records that a coordinator that was killed left on disk.
func OpenRound(config RoundConfig) (*Round, error) {
	n := int(config.Task.Length)
	r := &Round{
		config: config, ends: config.Ends, counted: map[uint32]uint64{}, sum: make([]int64, n),
		full: make(chan struct{}), reservations: newReservations(config.Hold), goal: config.Goal,
		declined: map[uint32]bool{},
	}
	r.cohort.Store(&config.Cohort)
	for k := range maxShards {
		log := fmt.Sprintf("%s.%d", config.Log, k)
		if config.Store != nil {
			err := config.Store.Replay(log, r.load)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
		if k <= len(config.Cohort)/shardSize {
			sum := make([]int64, n)
			r.shards = append(r.shards, batch.New(func(all []*report) error { return r.commit(log, sum, all) }))
		}
	}
	r.checkGoal()
	return r, nil
}

// Task is the round's task, for a device of the cohort that is not in the sum.
func (r *Round) Task(id uint32, now time.Time) *pb.Task {
	if !r.Contains(id) || r.Has(id) || r.Declined(id) {
		r.Decline()
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.config.Limit > 0 && !r.reservations.reserve(id, r.config.Limit-r.taken, now) {
		return nil
	}
	return masked.TaskFor(r.config.Task, r.ends, now)
}

// Progress is the number of reports in the sum, and the number that it may contain.
func (r *Round) Progress() (done, expected int) {
	if r.config.Limit > 0 {
		return r.Count(), min(r.config.Limit, len(r.Cohort()))
	}
	return r.Count(), len(r.Cohort())
}

// SetGoal changes the number of reports that end the round.
func (r *Round) SetGoal(goal int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goal = goal
	r.checkGoal()
}

// Number is the number of the round, from 0.
func (r *Round) Number() uint32 { return r.config.Task.Round }

// Check reports why an update is malformed or exceeds the round's bound. malformed tells which.
// The empty update of an idle device is valid unless emptyInvalid.
func (r *Round) Check(update []byte, emptyInvalid bool) (malformed bool, err error) {
	if IsIdle(update) && !emptyInvalid {
		return false, nil
	}
	bound := r.config.Task.Bound
	n := int(r.config.Task.Length)
	if err := wire.ReadUpdate(update, n, bound.Max, nil); err != nil {
		return true, err
	}
	return false, wire.CheckNorm(update, n, bound)
}

// MaxBytes is the largest size of an update.
func (r *Round) MaxBytes() uint64 {
	return uint64(wire.MaxUpdateBytes(int(r.config.Task.Length), r.config.Task.Bound.Max))
}

// Contains reports whether a device is in the cohort.
func (r *Round) Contains(id uint32) bool {
	_, found := slices.BinarySearch(r.Cohort(), id)
	return found
}

// Has reports whether a report of the device is in the sum.
func (r *Round) Has(id uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.counted[id]
	return ok
}

// HasReport reports whether this report of the device is in the sum.
func (r *Round) HasReport(id uint32, digest uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.counted[id]
	return ok && d == digest
}

// Count is the number of reports in the sum.
func (r *Round) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.counted)
}

// Full is closed when the goal is reached.
func (r *Round) Full() <-chan struct{} { return r.full }

// Add adds an update that Check accepted to the sum, and returns when it is on disk. Adding the
// same report again does nothing.
func (r *Round) Add(id uint32, digest uint64, update []byte) error {
	switch {
	case !r.Contains(id):
		return ErrNotInCohort
	case r.HasReport(id, digest):
		return nil
	case r.Has(id):
		return ErrOtherReport
	}
	q := &report{id: id, digest: digest, update: update}
	err := r.shards[int(id)%len(r.shards)].Do(q)
	switch {
	case errors.Is(err, batch.ErrStopped):
		return ErrClosed
	case err != nil:
		return err
	case q.full:
		return ErrFull
	case q.other:
		return ErrOtherReport
	}
	return nil
}

// commit writes one record. Only one call for each shard runs at a time; sum is its scratch memory.
func (r *Round) commit(log string, sum []int64, all []*report) error {
	rec, err := r.admit(all)
	if err != nil || len(rec.ids) == 0 {
		return err
	}
	clear(sum)
	for _, q := range all {
		if q.again || q.full {
			continue
		}
		idle := IsIdle(q.update)
		rec.idle = append(rec.idle, idle)
		if idle {
			continue
		}
		if err := wire.ReadUpdate(q.update, len(sum), r.config.Task.Bound.Max, sum); err != nil {
			return err // Check accepted it: nothing of this record is kept
		}
	}
	rec.sum = wire.AppendUpdate(nil, sum)
	if r.config.Store != nil {
		if err := r.config.Store.Append(log, rec.bytes()); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(rec, sum)
	return nil
}

// admit decides which reports a record contains. Each of them has its place in the sum from now on,
// even if the write fails: it may be on disk.
func (r *Round) admit(all []*report) (*record, error) {
	rec := &record{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	for _, q := range all {
		digest, again := r.counted[q.id]
		if i := slices.Index(rec.ids, q.id); i >= 0 {
			digest, again = rec.digests[i], true
		}
		q.again = again
		q.other = again && digest != q.digest
		q.full = !again && r.config.Limit > 0 && r.taken >= r.config.Limit
		if q.again || q.full {
			continue
		}
		rec.ids = append(rec.ids, q.id)
		rec.digests = append(rec.digests, q.digest)
		r.taken++
	}
	return rec, nil
}

// load adds a record from disk.
func (r *Round) load(b []byte) error {
	round := r.config.Task.Round + 1
	rec, err := readRecord(b)
	if err != nil {
		return fmt.Errorf("round %d: %w", round, err)
	}
	sum := make([]int64, len(r.sum))
	if err := wire.ReadUpdate(rec.sum, len(sum), 1<<62, sum); err != nil {
		return fmt.Errorf("round %d: a record is corrupt: %w", round, err)
	}
	for _, id := range rec.ids {
		if _, twice := r.counted[id]; twice {
			return fmt.Errorf("round %d: two records contain device %d", round, id)
		}
	}
	r.taken += len(rec.ids)
	r.add(rec, sum)
	return nil
}

func (r *Round) add(rec *record, sum []int64) {
	for i, x := range sum {
		r.sum[i] += x
	}
	for i, id := range rec.ids {
		r.counted[id] = rec.digests[i]
		r.reservations.fulfil(id)
		if rec.idle[i] {
			r.idle++
		}
	}
	r.checkGoal()
}

func (r *Round) checkGoal() {
	if r.goal == 0 || len(r.counted) < r.goal {
		return
	}
	select {
	case <-r.full:
	default:
		close(r.full)
	}
}

// Decline notes a check-in of a device that cannot contribute any more.
func (r *Round) Decline() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reservations.declined++
}

// HasRoom reports whether a device could reserve a place in the sum.
func (r *Round) HasRoom(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reservations.expire(now)
	return r.config.Limit == 0 || r.reservations.held < r.config.Limit-r.taken
}

// Extend sets a new deadline, and lets devices whose reservation expired try again.
func (r *Round) Extend(now time.Time, by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = now.Add(by)
	r.reservations.renew(now)
}

// Exhausted reports that waiting longer is useless: since the deadline was last set, devices
// checked in, and none of them can be expected to report. If no device checks in, the round waits.
func (r *Round) Exhausted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config.Limit > 0 && r.reservations.hopeless()
}

// Close ends the round. It waits for reports that are being written; later ones are refused.
func (r *Round) Close() {
	for _, s := range r.shards {
		s.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Result is the sum so far, how many of its devices had no training data, and which
// devices it contains.
func (r *Round) Result() (sum []int64, idle int, closed Closed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	closed.Round = r.config.Task.Round
	for id := range r.counted {
		closed.Devices = append(closed.Devices, id)
	}
	slices.Sort(closed.Devices)
	for _, id := range closed.Devices {
		closed.Digests = append(closed.Digests, r.counted[id])
	}
	return slices.Clone(r.sum), r.idle, closed
}

// record is a group of reports as it is on disk.
type record struct {
	ids     []uint32
	digests []uint64
	idle    []bool
	sum     []byte
}

const recordEntry = 4 + 8 + 1 // bytes of an ID, a digest and the idle flag

func (r *record) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(r.ids)))
	for i, id := range r.ids {
		b = binary.LittleEndian.AppendUint32(b, id)
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
	corrupt := errors.New("a record of reports is corrupt")
	if len(b) < 4 {
		return nil, corrupt
	}
	n := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n > len(b)/recordEntry {
		return nil, corrupt
	}
	r := &record{}
	for range n {
		r.ids = append(r.ids, binary.LittleEndian.Uint32(b))
		r.digests = append(r.digests, binary.LittleEndian.Uint64(b[4:]))
		r.idle = append(r.idle, b[12] == 1)
		b = b[recordEntry:]
	}
	r.sum = b
	return r, nil
}
