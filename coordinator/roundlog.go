package coordinator

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
)

// RoundInfo is a round that has ended, for operators. If the cohort is a secret sample, the numbers that would
// reveal its size are 0.
type RoundInfo struct {
	RunNumber int       `json:"run_number"`
	Round     int       `json:"round"` // from 1
	Version   uint64    `json:"version"`
	Ended     time.Time `json:"ended"`
	Seconds   float64   `json:"seconds"`
	Sampled   bool      `json:"sampled"`    // the cohort is a secret sample
	CheckedIn int       `json:"checked_in"` // devices that were heard of during the round
	Cohort    int       `json:"selected"`   // devices of the cohort
	Counted   int       `json:"reported"`   // devices in the sum
	Late      int64     `json:"late"`       // reports that arrived after the end of a round
	Refused   int64     `json:"refused"`    // requests that were refused
	Received  int64     `json:"bytes_received"`
	Sent      int64     `json:"bytes_sent"`
	Discarded bool      `json:"discarded"`
	Rejected  string    `json:"rejected,omitempty"` // why the model of the round was rejected
	Epsilon   float64   `json:"epsilon"`            // spent in the budget period; 0 without a privacy guarantee
}

// maxRoundInfos is how many rounds are remembered.
const maxRoundInfos = 200

// traffic counts the bytes of models and updates, without the overhead of messages.
type traffic struct{ received, sent atomic.Int64 }

// roundLog remembers the last rounds, in memory.
type roundLog struct {
	mu     sync.Mutex
	rounds []RoundInfo
	began  time.Time // of the round in progress; zero between rounds
	before totals
}

// totals are counts since the start of the process.
type totals struct{ late, refused, received, sent int64 }

func (c *Coordinator) totals() totals {
	t := totals{received: c.admin.traffic.received.Load(), sent: c.admin.traffic.sent.Load()}
	for name, n := range c.progress.all() {
		switch {
		case name == "late":
			t.late = n
		case name == refusedPrefix+"connections", name == refusedPrefix+"descriptors": // not requests
		case len(name) > len(refusedPrefix) && name[:len(refusedPrefix)] == refusedPrefix:
			t.refused += n
		}
	}
	return t
}

func (t totals) since(before totals) totals {
	return totals{t.late - before.late, t.refused - before.refused, t.received - before.received, t.sent - before.sent}
}

// begin notes that a round begins.
func (l *roundLog) begin(now time.Time, before totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.before = now, before
}

// open is when the round in progress began, zero between rounds, and the counts at that time.
func (l *roundLog) open() (began time.Time, before totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.began, l.before
}

// end adds a round that has ended.
func (l *roundLog) end(r RoundInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Time{}
	l.rounds = append(l.rounds, r)
	if len(l.rounds) > 2*maxRoundInfos {
		l.rounds = slices.Clone(l.rounds[len(l.rounds)-maxRoundInfos:])
	}
}

// last returns the last n rounds, the oldest first.
func (l *roundLog) last(n int) []RoundInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rounds[max(0, len(l.rounds)-n):])
}

// Rounds lists the last 200 rounds, the oldest first. After a restart it begins with those whose models are on disk.
func (c *Coordinator) Rounds() []RoundInfo { return c.admin.rounds.last(maxRoundInfos) }

// noteRound remembers a round that has ended.
func (c *Coordinator) noteRound(e *Event) {
	began, before := c.admin.rounds.open()
	spent := c.totals().since(before)
	_, heard := c.devices.States(c.now(), began)
	r := RoundInfo{
		RunNumber: c.runNumber(), Round: e.Round, Version: e.Version, Ended: c.now().UTC(), Seconds: e.Seconds,
		Sampled: e.Sampled, CheckedIn: heard, Cohort: e.Cohort, Counted: e.Counted, Late: spent.late,
		Refused: spent.refused, Received: spent.received, Sent: spent.sent, Discarded: e.Discarded,
		Rejected: e.Rejected, Epsilon: e.Epsilon,
	}
	if r.Sampled {
		r.Late, r.Received, r.Sent = 0, 0, 0
	}
	c.admin.rounds.end(r)
}

// recallRounds fills the list of rounds after a start with those whose models are on disk.
func (c *Coordinator) recallRounds(all []*models.Version) {
	for _, v := range all {
		if v.Seconds == 0 { // no round made it
			continue
		}
		r := RoundInfo{
			RunNumber: v.RunNumber, Round: v.Round, Version: v.Version, Ended: time.UnixMilli(v.CreatedMs).UTC(),
			Seconds: v.Seconds, Sampled: c.sampled(), Discarded: v.Discarded,
		}
		if !r.Sampled {
			r.Cohort, r.Counted = v.Cohort, v.Counted
		}
		c.admin.rounds.end(r)
	}
}
