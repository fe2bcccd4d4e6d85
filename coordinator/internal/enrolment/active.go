package enrolment

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// presence is when a device was heard of. Check-ins change it without the registry's lock.
type presence struct {
	seen   atomic.Int64 // in Unix nanoseconds; 0 for never
	told   atomic.Int64 // when it was told to check in
	due    atomic.Int64 // until when the device counts as active: told, and a grace period
	missed atomic.Bool  // it was in a cohort and was not heard of until the deadline
	// program is the number of its program, from 1; 0 if it is unknown.
	program atomic.Uint32
}

// RestartGrace is how long after a start an enrolled device counts as active: the coordinator does not know
// what it told them before. A device that had been away for long is overdue.
const RestartGrace = 10 * time.Minute

// Grace is how much later than expected a device may check in before it is overdue. Mobile systems
// delay background work, so it grows with the interval.
func Grace(interval time.Duration) time.Duration { return max(time.Minute, interval/2) }

// activeCache is the active devices. It is valid until a device changes its state or becomes overdue.
type activeCache struct {
	ids     []uint32 // of all devices that ever enrolled, ascending
	active  []uint32 // replaced, never changed: callers keep it
	members []uint32 // the same, with those that are overdue
	valid   bool
	until   int64 // the first time at which a device becomes overdue
}

// add keeps the IDs sorted. New IDs are usually the highest.
func (a *activeCache) add(id uint32) {
	i, found := slices.BinarySearch(a.ids, id)
	if !found {
		a.ids = slices.Insert(a.ids, i, id)
	}
}

// Active lists the active devices: enrolled, not left, revoked or excluded, and not overdue. It is
// ascending; the caller must not change it.
func (r *Registry) Active(now time.Time) []uint32 {
	active, _ := r.population(now)
	return active
}

// Members lists the enrolled devices, active or overdue. It is ascending; the caller must not change it.
func (r *Registry) Members(now time.Time) []uint32 {
	_, members := r.population(now)
	return members
}

func (r *Registry) population(now time.Time) (active, members []uint32) {
	at := now.UnixNano()
	r.mu.RLock()
	c := r.active
	r.mu.RUnlock()
	if c.valid && at <= c.until {
		return c.active, c.members
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c = activeCache{
		ids: r.active.ids, valid: true, until: 1<<63 - 1,
		active: make([]uint32, 0, r.members), members: make([]uint32, 0, r.members),
	}
	for _, id := range c.ids {
		d := r.devices[id]
		if d.barred != "" {
			continue
		}
		c.members = append(c.members, id)
		if d.isActive(at) {
			c.active = append(c.active, id)
			c.until = min(c.until, d.due.Load())
		}
	}
	r.active = c
	return c.active, c.members
}

func (p *presence) isActive(at int64) bool { return !p.missed.Load() && at <= p.due.Load() }

// Seen notes that a device was heard of and that it is expected again after an interval.
func (r *Registry) Seen(id uint32, now time.Time, next time.Duration) {
	r.mu.RLock()
	d := r.devices[id]
	r.mu.RUnlock()
	if d == nil {
		return
	}
	at := now.UnixNano()
	was := d.isActive(at)
	d.seen.Store(at)
	d.told.Store(now.Add(next).UnixNano())
	d.due.Store(now.Add(next + Grace(next)).UnixNano())
	d.missed.Store(false)
	if !was {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.noteChange()
	}
}

// Missed notes that a cohort's deadline has passed: its devices that were not heard of since a time are
// overdue until they check in. Devices that were told to come later are not: expected reports whether there
// are any.
func (r *Registry) Missed(cohort []uint32, since, now time.Time) (expected bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range cohort {
		d := r.devices[id]
		switch {
		case d == nil || d.barred != "" || d.seen.Load() >= since.UnixNano():
		case d.told.Load() > now.UnixNano():
			expected = true
		case !d.missed.Swap(true):
			r.active.valid = false
		}
	}
	return expected
}

// Expected counts the active devices that this process has heard of, and those of them that are there: heard of
// at a time or later, or told to check in within an interval from now. One that is late counts when it checks in.
// What was saved before a start, and an enrolment without a check-in, prove nothing about who is there.
func (r *Registry) Expected(since, now time.Time, within time.Duration) (here, heard int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at := now.UnixNano()
	for _, id := range r.active.ids {
		d := r.devices[id]
		told := d.told.Load()
		if told == 0 || d.barred != "" || !d.isActive(at) {
			continue
		}
		heard++
		if d.seen.Load() >= since.UnixNano() || at <= told && told <= now.Add(within).UnixNano() {
			here++
		}
	}
	return here, heard
}

// ActiveCount is the number of active devices when they were last counted, or of all enrolled ones if that has
// changed. It costs nothing.
func (r *Registry) ActiveCount() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.active.valid {
		return r.members
	}
	return len(r.active.active)
}

// LastEnrolment is when a device last enrolled; zero if none has.
func (r *Registry) LastEnrolment() time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.last
}

// SeenSince lists the enrolled devices that were heard of at a time or later, in order.
func (r *Registry) SeenSince(since time.Time) (ids []uint32) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, id := range r.active.ids {
		d := r.devices[id]
		if at := d.seen.Load(); d.barred == "" && at > 0 && at >= since.UnixNano() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Enrolments is the number of devices that ever enrolled.
func (r *Registry) Enrolments() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.devices)
}

// EnrolledBefore returns those of the devices that were among the first n enrolments. A device that left
// and returned with its key keeps its place.
func (r *Registry) EnrolledBefore(ids []uint32, n int) []uint32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.devices) <= n {
		return ids
	}
	out := make([]uint32, 0, len(ids))
	for _, id := range ids {
		if d := r.devices[id]; d != nil && d.order < n {
			out = append(out, id)
		}
	}
	return out
}

// bounded is a text that is safe to store and to print: at most 200 characters, none of them a
// control character.
func bounded(text string) string {
	n := 0
	return strings.Map(func(c rune) rune {
		if n++; n > 200 || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text)
}
