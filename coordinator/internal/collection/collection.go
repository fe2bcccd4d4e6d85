// Package collection collects what the devices of a round send: the open round, chunked uploads,
// which devices contributed in an epoch, and the history of which devices are in which sum. It
// keeps sums and device IDs, never a single device's update
// once it is added. Its one convention: a report is acknowledged after the record that contains it
// is on disk, so a report that is sent again is found.
package collection

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// Open is a round in progress, as a device that checks in sees it.
type Open interface {
	// Task is what a device is to do; nil if it has nothing to do.
	Task(id uint32, now time.Time) *pb.Task
	// Progress is the number of devices that are done, and of those that are expected.
	Progress() (done, expected int)
}

// Reasons why a report is in no sum.
var (
	ErrClosed      = errors.New("the round is closed")
	ErrFull        = errors.New("the round is full")
	ErrNotInCohort = masked.ErrNotInCohort
	ErrOtherReport = errors.New("another report of this device is in the sum")
)

// Digest is the part of a report's digest that the coordinator keeps.
func Digest(digest []byte) uint64 { return binary.LittleEndian.Uint64(digest) }

var emptyUpdate = string(wire.AppendUpdate(nil, nil))

// IsIdle reports whether an update is that of a device without training data.
func IsIdle(update []byte) bool { return string(update) == emptyUpdate }

var (
	_ Open = (*masked.Attempt)(nil)
	_ Open = (*masked.WaitingRoom)(nil)
)

// Collection is all that the coordinator collects in a run. Its parts have their own locks.
type Collection struct {
	History       *History
	Participation Participation
	Uploads       Uploads
	StepTime      masked.StepTime

	store *store.Store

	mu      sync.Mutex
	open    Open
	attempt *masked.Attempt
}

const roundLogs = "round."

// New loads the closed rounds.
func New(st *store.Store) (*Collection, error) {
	h, err := OpenHistory(st)
	return &Collection{History: h, store: st}, err
}

// Enter makes a round the one in progress; nil for none.
func (c *Collection) Enter(open Open) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
}

// EnterAttempt makes an attempt the round in progress. It stays the last attempt when the round has
// ended, and answers devices that ask for its outcome.
func (c *Collection) EnterAttempt(a *masked.Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = a
	if a != nil {
		c.open = a
	}
}

// Open is the round in progress; nil for none.
func (c *Collection) Open() Open {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// OpenRound is the open round with plain reports; nil for none.
func (c *Collection) OpenRound() *Round {
	r, _ := c.Open().(*Round)
	return r
}

// LastAttempt is the last attempt at a masked sum; nil for none.
func (c *Collection) LastAttempt() *masked.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt
}

// Offer is what a device that checks in is to do; nil if it has nothing to do. An excluded device
// declines training, so it gets no task, but it answers evaluations.
func (c *Collection) Offer(id uint32, now time.Time) *pb.Task {
	open := c.Open()
	if open == nil {
		return nil
	}
	a, attempt := open.(*masked.Attempt)
	evaluating := attempt && a.Kind() != pb.Kind_TRAIN
	if evaluating || !c.Participation.Excluded(id) {
		return open.Task(id, now)
	}
	if r, ok := open.(interface{ Decline() }); ok {
		r.Decline()
	}
	return nil
}

// LogOf is the prefix of the logs of a round.
func LogOf(run []byte, rollbacks int, task *pb.Task) string {
	return fmt.Sprintf("%s%d.%d.%d", logsOfRun(run), rollbacks, task.Round, task.Kind)
}

func logsOfRun(run []byte) string { return fmt.Sprintf("%s%x.", roundLogs, run[:4]) }

// Sums are the training rounds of a run, from a round on, that have a log with a suffix, whatever the
// number of roll backs.
func (c *Collection) Sums(run []byte, from int, suffix string) (rounds []int) {
	for _, log := range c.store.Logs(logsOfRun(run)) {
		var rollbacks, t int
		var kind pb.Kind
		name, ok := strings.CutSuffix(strings.TrimPrefix(log, logsOfRun(run)), suffix)
		if _, err := fmt.Sscanf(name, "%d.%d.%d", &rollbacks, &t, &kind); err == nil && ok && kind == pb.Kind_TRAIN &&
			t >= from {
			rounds = append(rounds, t)
		}
	}
	return rounds
}

// Interrupted reports whether a round has reports on disk and no outcome.
func (c *Collection) Interrupted() bool {
	return slices.ContainsFunc(c.store.Logs(roundLogs), func(log string) bool {
		return !strings.HasSuffix(log, cohortLog)
	})
}

// DropReports deletes the reports of rounds whose outcome is on disk. The logs with a prefix stay;
// empty keeps none.
func (c *Collection) DropReports(except string) error {
	for _, log := range c.store.Logs(roundLogs) {
		if except != "" && strings.HasPrefix(log, except+".") {
			continue
		}
		if err := c.store.Drop(log); err != nil {
			return err
		}
	}
	return nil
}
