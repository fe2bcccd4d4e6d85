package coordinator

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
)

// closedRound is who is in a round's sum.
type closedRound struct {
	Round   uint32   `json:"round"`
	Turns   int      `json:"turns,omitempty"`
	Attempt uint32   `json:"attempt,omitempty"` // that has the sum, where it is masked
	Seats   []uint32 `json:"seats"`
	Digests []uint64 `json:"digests"` // 0 of a masked report, which has none
}

// Rounds that are over are kept in logs of a hundred each; the newest two logs stay: who
// took part in which round is not kept for longer than it is of use.
const (
	closedLogs = "closed."
	closedEach = 100
	closedKept = 2
)

func closedLog(round uint32) string { return fmt.Sprintf("%s%08d", closedLogs, round/closedEach) }

// has reports whether a seat is in the sum, with this report.
func (o *closedRound) has(seat uint32, digest uint64) bool {
	i, found := slices.BinarySearch(o.Seats, seat)
	return found && (o.Digests[i] == 0 || o.Digests[i] == digest)
}

// remember keeps the newest of the rounds that are over in memory.
func (c *Coordinator) remember(o closedRound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = append(c.over, o); len(c.over) > models.Kept {
		c.over = slices.Clone(c.over[len(c.over)-models.Kept:])
	}
}

// keep writes down who is in a round's sum. It is done before the outcome is on disk: a
// round that a kill has cut off there has these groups still, and is written down again.
func (c *Coordinator) keep(o closedRound) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := c.st.Append(closedLog(o.Round), b); err != nil {
		return err
	}
	kept := closedKept
	if c.settings.Rehearsal { // whose rounds are compared afterwards
		kept = 100
	}
	if logs := c.st.Logs(closedLogs); len(logs) > kept {
		slices.Sort(logs)
		if err := c.st.Drop(logs[0]); err != nil {
			return err
		}
	}
	c.remember(o)
	return c.point("closed")
}

// dropGroups forgets the groups of rounds whose outcome is on disk.
func (c *Coordinator) dropGroups() error {
	for _, log := range c.st.Logs("round.") {
		if err := c.st.Drop(log); err != nil {
			return err
		}
	}
	return nil
}

// recall loads the rounds that are over. Of the last one a kill may have left the groups
// beside its outcome.
func (c *Coordinator) recall() error {
	logs := c.st.Logs(closedLogs)
	slices.Sort(logs)
	for _, log := range logs {
		if err := c.st.Replay(log, func(b []byte) error {
			var o closedRound
			if err := json.Unmarshal(b, &o); err != nil {
				return fmt.Errorf("coord: the log of rounds: %w", err)
			}
			c.remember(o)
			return nil
		}); err != nil {
			return err
		}
	}
	open := c.logOf(&pb.Task{Kind: pb.Kind_TRAIN, Round: uint32(c.engine.Next)}) + "."
	for _, log := range c.st.Logs("round.") {
		if !strings.HasPrefix(log, open) {
			if err := c.st.Drop(log); err != nil {
				return err
			}
		}
	}
	return nil
}

// isIn reports whether a seat is in the sum of a round of this turn that is over, with
// this report.
func (c *Coordinator) isIn(seat, round uint32, digest uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.over {
		if o := &c.over[i]; o.Round == round && o.Turns == c.times && o.has(seat, digest) {
			return true
		}
	}
	return false
}

// isSummed reports whether a seat is in the sum of a masked attempt that is over.
func (c *Coordinator) isSummed(seat uint32, r *pb.MaskRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := func(o closedRound) bool {
		return o.Round == r.Round && o.Turns == c.times && o.Attempt == r.Attempt && o.has(seat, 0)
	}
	return slices.ContainsFunc(c.over, in) || slices.ContainsFunc(c.asked, in)
}

// missing notices a report that a device says it had an answer to and that is in no sum:
// one for each device, whatever it says. What an
// operator went back behind was not lost.
func (c *Coordinator) missing(seat uint32, last *pb.LastReport) {
	if last == nil || string(last.Run) != string(c.run) || len(last.Digest) < 8 || c.models.Newest() == nil {
		return
	}
	round, digest := last.Round, short(last.Digest)
	known := false
	for i := range c.over {
		if c.over[i].Round == round {
			if known = true; c.over[i].has(seat, digest) {
				return
			}
		}
	}
	next := uint32(c.models.Round())
	switch h, open := c.place.(*hall); {
	case int(round) < c.reach, round < next && !known: // gone back behind, or long ago
		return
	case round == next && (!open || h.task.Kind != pb.Kind_TRAIN || h.holds(seat, digest)):
		return
	}
	c.lost[seat] = round
}

// short is what is kept of a report's digest.
func short(digest []byte) uint64 { return binary.LittleEndian.Uint64(digest) }

// holds reports whether a report is in the sum so far.
func (h *hall) holds(seat uint32, digest uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.counted[seat]
	return ok && d == digest
}
