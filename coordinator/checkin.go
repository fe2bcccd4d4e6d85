package coordinator

import (
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/internal/pb"
)

// With the cohort checkin:N/E, a round accepts the first N devices that check in and have not
// contributed in this epoch of E rounds.

const checkInCounter = "check_ins"

// noteLate excludes a device whose report is in no sum from the rest of the epoch.
func (c *Coordinator) noteLate(id uint32, r *pb.ReportRequest) {
	every := uint32(c.settings().Cohort.Every)
	if r.Kind != pb.Kind_TRAIN || every == 0 || c.models.Newest() == nil {
		return
	}
	if r.Round/every == uint32(c.models.Round())/every {
		c.collection.Participation.Exclude(id)
	}
}

// noteDeclined lets the open round end without a device that declines its task. Masked rounds have a
// deadline for each step, and a device that declines has dropped out.
func (c *Coordinator) noteDeclined(id uint32, d *pb.Declined) {
	if d == nil || d.Kind != pb.Kind_TRAIN || string(d.Run) != string(c.runID()) {
		return
	}
	if r := c.collection.OpenRound(); r != nil && r.Number() == d.Round {
		r.NoteDeclined(id)
	}
}

// noteLastReport notices a report that a device believes to be counted and that is in no sum.
// Reports of rounds that were rolled back are not lost.
func (c *Coordinator) noteLastReport(id uint32, last *pb.LastReport) {
	if last == nil || string(last.Run) != string(c.runID()) || len(last.Digest) < 8 || c.models.Newest() == nil {
		return
	}
	digest := collection.Digest(last.Digest)
	remembered, contained := c.collection.History.Find(id, last.Round, digest)
	next := uint32(c.models.Round())
	c.mu.Lock()
	rolledBack := int(last.Round) < c.rollbacks.rounds
	c.mu.Unlock()
	switch {
	case contained, rolledBack, last.Round < next && !remembered:
		return
	case last.Round == next:
		r := c.collection.OpenRound()
		if r == nil || r.Number() != last.Round || r.HasReport(id, digest) {
			return
		}
	}
	c.collection.History.NoteLost(id, last.Round)
}

// deviceMessages are for the users of devices, in states whose message tells the operator what to do.
var deviceMessages = map[State]string{
	WaitingForRun: "no run has begun",
	BudgetSpent:   "the privacy budget is spent: the device reports nothing more unless the operator resets it",
	Stopped:       "the operator's attention is required: the run cannot continue",
	Outdated: "training waits for the operator: the coordinator lacks a part of what was released, perhaps because " +
		"it was restored from a backup",
}

// reason is why a device has nothing to do.
func (c *Coordinator) reason(id uint32) string {
	state, message := c.progress.get()
	if text, ok := deviceMessages[state]; ok {
		return text
	}
	cohort := &c.settings().Cohort
	done := c.models.Round()
	s := c.settings()
	if !cohort.ByCheckIn() || c.models.Newest() == nil || done >= s.Rounds {
		return message
	}
	r := c.collection.OpenRound()
	switch {
	case c.collection.Participation.Done(id), r != nil && r.Has(id):
		return fmt.Sprintf("this device has contributed; its next round is %d or later",
			done/cohort.Every*cohort.Every+cohort.Every+1)
	case r != nil && !r.HasRoom(c.now()):
		return fmt.Sprintf("round %d has enough devices; check in again later", done+1)
	}
	return message
}
