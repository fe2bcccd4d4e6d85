package collection

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tacit-rec/tacit/internal/store"
)

// The cohort of an open round is on disk: after a restart other devices may be active, and the reports
// that are on disk belong to the cohort that was drawn.

const cohortLog = ".cohort"

// SaveCohort writes the cohort of a round whose logs have a prefix.
func (c *Collection) SaveCohort(log string, cohort []uint32) error {
	return c.store.Append(log+cohortLog, AppendIDs(nil, cohort))
}

// LoadCohort reads the cohort of a round that a kill interrupted; false if the round has not begun.
func (c *Collection) LoadCohort(log string) (cohort []uint32, begun bool, err error) {
	err = c.store.Replay(log+cohortLog, func(b []byte) (err error) {
		cohort, err = ReadIDs(b)
		begun = true
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return cohort, begun, err
}

// AppendIDs encodes device IDs, which are ascending: their differences as varints.
func AppendIDs(b []byte, ids []uint32) []byte {
	last := uint32(0)
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id-last))
		last = id
	}
	return b
}

// ReadIDs decodes what AppendIDs returned.
func ReadIDs(b []byte) (ids []uint32, err error) {
	last := uint64(0)
	for len(b) > 0 {
		x, n := binary.Uvarint(b)
		if last += x; n <= 0 || last >= 1<<32 || x == 0 && len(ids) > 0 {
			return nil, errors.New("a list of devices is corrupt")
		}
		ids = append(ids, uint32(last))
		b = b[n:]
	}
	return slices.Clip(ids), nil
}

// Cohort is the devices that may report, ascending. The caller must not change it.
func (r *Round) Cohort() []uint32 { return *r.cohort.Load() }

// Refill adds devices to the cohort. Only one goroutine calls it.
func (r *Round) Refill(ids []uint32) {
	all := slices.Concat(r.Cohort(), ids)
	slices.Sort(all)
	all = slices.Compact(all)
	r.cohort.Store(&all)
}

// NoteDeclined notes that a device of the cohort does not answer the task of the round: it gets no other,
// and nobody waits for it.
func (r *Round) NoteDeclined(id uint32) {
	if !r.Contains(id) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declined[id] = true
	r.reservations.free(r.reservations.by[id])
}

// Declined reports whether a device has declined the task of the round.
func (r *Round) Declined(id uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.declined[id]
}

// DeclinedCount is the number of devices that have declined the task.
func (r *Round) DeclinedCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.declined)
}

// Awaited counts the devices of the cohort that are active, a sorted list, and have neither reported nor
// declined.
func (r *Round) Awaited(active []uint32) (n int) {
	cohort := r.Cohort()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(cohort) && len(active) > 0; {
		switch {
		case cohort[i] < active[0]:
			i++
		case cohort[i] > active[0]:
			active = active[1:]
		default:
			if _, reported := r.counted[cohort[i]]; !reported && !r.declined[cohort[i]] {
				n++
			}
			i, active = i+1, active[1:]
		}
	}
	return n
}

// Silent lists the devices of the cohort that have not reported.
func (r *Round) Silent() (ids []uint32) {
	cohort := r.Cohort()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range cohort {
		if _, reported := r.counted[id]; !reported {
			ids = append(ids, id)
		}
	}
	return ids
}
