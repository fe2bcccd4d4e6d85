package collection

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/internal/store"
)

// Closed says which devices are in the sum of a closed round.
type Closed struct {
	Round     uint32   `json:"round"`
	Rollbacks int      `json:"turns,omitempty"`
	Attempt   uint32   `json:"attempt,omitempty"` // that made the sum, if it is masked
	Devices   []uint32 `json:"seats"`             // sorted
	Digests   []uint64 `json:"digests"`           // 0 for a masked report
}

// has reports whether a device's report is in the sum.
func (c *Closed) has(id uint32, digest uint64) bool {
	i, found := slices.BinarySearch(c.Devices, id)
	return found && (c.Digests[i] == 0 || c.Digests[i] == digest)
}

// History is the closed rounds, on disk in logs of a hundred rounds each. Only the newest logs
// stay: which devices took part in which round is not kept for longer than it is useful. Its
// methods may be called from many goroutines.
type History struct {
	store *store.Store
	logs  int // that stay on disk

	mu          sync.Mutex
	rounds      []Closed          // the newest
	evaluations []Closed          // the newest sums of evaluations
	lost        map[uint32]uint32 // by device ID: the last report that is in no sum, although the device heard so
}

const (
	closedLogs     = "closed."
	roundsPerLog   = 100
	maxRounds      = 10 // in memory
	maxEvaluations = 2  // in memory

	// KeepLogs is the number of logs that stay, and KeepAllLogs that of tests which compare rounds.
	KeepLogs    = 2
	KeepAllLogs = 100
)

func closedLog(round uint32) string { return fmt.Sprintf("%s%08d", closedLogs, round/roundsPerLog) }

// OpenHistory loads the closed rounds.
func OpenHistory(st *store.Store) (*History, error) {
	h := &History{store: st, logs: KeepLogs, lost: map[uint32]uint32{}}
	logs := st.Logs(closedLogs)
	slices.Sort(logs)
	for _, log := range logs {
		err := st.Replay(log, func(b []byte) error {
			var c Closed
			if err := json.Unmarshal(b, &c); err != nil {
				return fmt.Errorf("the log of closed rounds is corrupt: %w", err)
			}
			h.remember(c)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Keep sets the number of logs that stay on disk.
func (h *History) Keep(logs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = logs
}

// Add writes a closed round. This comes before the round's outcome is on disk: a round that a kill
// interrupts in between still has its reports, and is closed and added again.
func (h *History) Add(c Closed) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := h.store.Append(closedLog(c.Round), b); err != nil {
		return err
	}
	h.mu.Lock()
	h.remember(c)
	most := h.logs
	h.mu.Unlock()
	logs := h.store.Logs(closedLogs)
	if len(logs) <= most {
		return nil
	}
	slices.Sort(logs)
	return h.store.Drop(logs[0])
}

func (h *History) remember(c Closed) {
	h.rounds = append(h.rounds, c)
	if extra := len(h.rounds) - maxRounds; extra > 0 {
		h.rounds = slices.Clone(h.rounds[extra:])
	}
}

// Clear deletes the closed rounds: another run begins.
func (h *History) Clear() error {
	for _, log := range h.store.Logs(closedLogs) {
		if err := h.store.Drop(log); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rounds, h.evaluations, h.lost = nil, nil, map[uint32]uint32{}
	return nil
}

// AddEvaluation remembers which devices are in the sum of an evaluation, for devices that ask when
// the next round has begun.
func (h *History) AddEvaluation(c Closed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evaluations = append(h.evaluations, c)
	if extra := len(h.evaluations) - maxEvaluations; extra > 0 {
		h.evaluations = slices.Clone(h.evaluations[extra:])
	}
}

// Evaluations are the newest sums of evaluations.
func (h *History) Evaluations() []Closed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.evaluations)
}

// Contains reports whether a report is in the sum of a closed round since the last roll back.
func (h *History) Contains(id, round uint32, rollbacks int, digest uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.rounds, func(c Closed) bool {
		return c.Round == round && c.Rollbacks == rollbacks && c.has(id, digest)
	})
}

// ContainsMasked reports whether a device is in the sum of a masked attempt.
func (h *History) ContainsMasked(id, round, attempt uint32, rollbacks int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := func(c Closed) bool {
		return c.Round == round && c.Rollbacks == rollbacks && c.Attempt == attempt && c.has(id, 0)
	}
	return slices.ContainsFunc(h.rounds, in) || slices.ContainsFunc(h.evaluations, in)
}

// Find reports whether a closed round is remembered, and whether a report is in any sum of it.
func (h *History) Find(id, round uint32, digest uint64) (remembered, contained bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.rounds {
		if h.rounds[i].Round == round {
			remembered = true
			contained = contained || h.rounds[i].has(id, digest)
		}
	}
	return remembered, contained
}

// NoteLost remembers a report that a device believes to be counted and that is in no sum: one for
// each device, whatever it claims.
func (h *History) NoteLost(id, round uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost[id] = round
}

// Lost is the number of devices with such a report.
func (h *History) Lost() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lost)
}

// Read reads a closed round from disk; nil if it is not there.
func (h *History) Read(round uint32) (found *Closed, err error) {
	err = h.store.Replay(closedLog(round), func(b []byte) error {
		c := &Closed{}
		if err := json.Unmarshal(b, c); err != nil {
			return fmt.Errorf("the log of closed rounds is corrupt: %w", err)
		}
		if c.Round == round {
			found = c
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return found, err
}
