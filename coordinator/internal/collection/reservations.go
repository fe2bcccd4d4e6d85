package collection

import "time"

// reservations are the places of a round that accepts a limited number of reports from the devices
// that check in first. A device that receives the task holds a place for a while; then another
// device may have it. Its report is accepted all the same while the round has room: the limit
// of the sum counts reports, not reservations.
type reservations struct {
	hold     time.Duration
	by       map[uint32]*reservation
	order    []*reservation // as they were made
	held     int
	declined int             // check-ins of devices that cannot contribute any more
	waiting  map[uint32]bool // devices that found no free place
	idle     map[uint32]bool // devices that checked in before the last deadline and sent nothing
}

type reservation struct {
	since time.Time
	held  bool
}

func newReservations(hold time.Duration) reservations {
	return reservations{
		hold: hold, by: map[uint32]*reservation{}, waiting: map[uint32]bool{}, idle: map[uint32]bool{},
	}
}

// expire frees the places that were held for too long.
func (r *reservations) expire(now time.Time) {
	for len(r.order) > 0 && (!r.order[0].held || now.Sub(r.order[0].since) >= r.hold) {
		r.free(r.order[0])
		r.order = r.order[1:]
	}
}

func (r *reservations) free(x *reservation) {
	if x != nil && x.held {
		x.held = false
		r.held--
	}
}

// reserve gives a device one of the free places, of which some are held. A device that held its
// place for too long gets no other: it would keep others out.
func (r *reservations) reserve(id uint32, free int, now time.Time) bool {
	r.expire(now)
	if x := r.by[id]; x != nil {
		return x.held
	}
	if r.held >= free {
		r.waiting[id] = true
		return false
	}
	x := &reservation{now, true}
	r.by[id] = x
	r.order = append(r.order, x)
	r.held++
	return true
}

// fulfil frees the place of a device whose report is in the sum.
func (r *reservations) fulfil(id uint32) {
	r.free(r.by[id])
	delete(r.idle, id)
}

// renew lets every device try again. Places that are held stay held.
func (r *reservations) renew(now time.Time) {
	r.expire(now)
	for id, x := range r.by {
		if !x.held {
			r.idle[id] = true
			delete(r.by, id)
		}
	}
	for id := range r.waiting {
		r.idle[id] = true
	}
	clear(r.waiting)
	r.declined = 0
}

// hopeless reports that devices checked in, and that each of them either cannot contribute any more
// or also checked in before the last deadline and sent nothing. A device that declines the task
// or fails at it would otherwise keep the round open for ever.
func (r *reservations) hopeless() bool {
	for id := range r.by {
		if !r.idle[id] {
			return false
		}
	}
	for id := range r.waiting {
		if !r.idle[id] {
			return false
		}
	}
	return r.declined > 0 || len(r.by) > 0
}
