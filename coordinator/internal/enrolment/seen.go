package enrolment

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tacit-rec/tacit/internal/store"
)

// When devices were last seen is written once an hour and at a stop, to the hour, so that a restart knows which
// devices have been away for long.

const (
	seenLogs  = "seen."
	seenEvery = time.Hour
	// A device that was last seen this long before a start is overdue until it checks in.
	longAway = 6 * time.Hour
	// maxPrograms bounds the programs that are remembered at a time; others are shown as unknown.
	maxPrograms = 1000
)

// SaveSeen writes when devices were last seen, and their programs, if that is due or the coordinator stops.
func (r *Registry) SaveSeen(now time.Time, stops bool) error {
	hour := now.Unix() / int64(seenEvery/time.Second)
	r.mu.RLock()
	log := seenLogs + strconv.FormatInt(hour, 10)
	due := (stops || r.savedSeen != log) && len(r.devices) > 0
	var b []byte
	if due {
		b = r.appendSeen(nil)
	}
	r.mu.RUnlock()
	if !due {
		return nil
	}
	old := r.store.Logs(seenLogs)
	if err := r.store.Append(log, b); err != nil {
		return err
	}
	r.mu.Lock()
	r.savedSeen = log
	r.mu.Unlock()
	for _, name := range old {
		if name == log {
			continue
		}
		if err := r.store.Drop(name); err != nil {
			return err
		}
	}
	return nil
}

// appendSeen encodes the programs by number, then for each device its ID, hour and program.
func (r *Registry) appendSeen(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.programs)))
	for _, p := range r.programs {
		b = binary.AppendUvarint(b, uint64(len(p.name)))
		b = append(b, p.name...)
	}
	for _, id := range r.active.ids {
		d := r.devices[id]
		b = binary.AppendUvarint(b, uint64(id))
		b = binary.AppendUvarint(b, uint64(max(0, d.seen.Load())/int64(seenEvery)))
		b = binary.AppendUvarint(b, uint64(d.program.Load()))
	}
	return b
}

// loadSeen reads what SaveSeen wrote.
func (r *Registry) loadSeen() error {
	logs := r.store.Logs(seenLogs)
	if len(logs) == 0 {
		return nil
	}
	err := r.store.Replay(slices.Max(logs), r.readSeen) // the number of an hour has 6 digits until 2083
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (r *Registry) readSeen(b []byte) error {
	bad := errors.New("the list of when devices were last seen is corrupt")
	next := func() uint64 {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return 1 << 63
		}
		b = b[n:]
		return x
	}
	r.programs = nil
	for range min(next(), maxPrograms) {
		n := next()
		if n > uint64(len(b)) {
			return bad
		}
		r.programs = append(r.programs, program{name: string(b[:n])})
		b = b[n:]
	}
	for len(b) > 0 {
		id, hour, number := next(), next(), next()
		if id >= 1<<32 || hour > 1<<40 || number > uint64(len(r.programs)) {
			return bad
		}
		if d := r.devices[uint32(id)]; d != nil {
			d.seen.Store(int64(hour) * int64(seenEvery))
			d.program.Store(uint32(number))
			if number > 0 {
				r.programs[number-1].devices++
			}
		}
	}
	return nil
}

// program is a program that devices use. A device uses one, so no device can fill the list.
type program struct {
	name    string
	devices int
}

// NoteSoftware notes the program of a device: at most 200 printable characters.
func (r *Registry) NoteSoftware(id uint32, software string) {
	name := bounded(software)
	r.mu.RLock()
	d := r.devices[id]
	same := d != nil && r.programOf(d) == name
	r.mu.RUnlock()
	if name == "" || d == nil || same {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := d.program.Load(); old > 0 {
		r.programs[old-1].devices--
	}
	i := slices.IndexFunc(r.programs, func(p program) bool { return p.name == name })
	if i < 0 {
		i = slices.IndexFunc(r.programs, func(p program) bool { return p.devices == 0 })
	}
	if i < 0 && len(r.programs) < maxPrograms {
		i = len(r.programs)
		r.programs = append(r.programs, program{})
	}
	if i >= 0 {
		r.programs[i] = program{name, r.programs[i].devices + 1}
	}
	d.program.Store(uint32(i + 1))
}

// programOf is the program of a device; empty if it is unknown.
func (r *Registry) programOf(d *device) string {
	if i := d.program.Load(); i > 0 {
		return r.programs[i-1].name
	}
	return ""
}

// Device is what the operator sees of a device. None of it is about its user.
type Device struct {
	ID       uint32     `json:"id"`
	State    State      `json:"state"`
	Reason   string     `json:"reason,omitempty"` // why it is excluded
	Enrolled time.Time  `json:"enrolled"`
	LastSeen *time.Time `json:"last_seen,omitempty"` // to the hour after a restart; none if unknown
	Software string     `json:"software,omitempty"`
	Note     string     `json:"note,omitempty"` // of the token that it enrolled with
}

// Devices lists the devices that ever enrolled, by ID, from a first ID on and at most limit of them.
func (r *Registry) Devices(now time.Time, from uint32, limit int) (all []Device) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	first, _ := slices.BinarySearch(r.active.ids, from)
	for _, id := range r.active.ids[first:] {
		if len(all) == limit {
			break
		}
		all = append(all, r.describe(id, now))
	}
	return all
}

func (r *Registry) describe(id uint32, now time.Time) Device {
	d := r.devices[id]
	out := Device{
		ID: id, State: d.barred, Reason: d.reason, Enrolled: time.Unix(d.enrolled, 0).UTC(),
		Software: r.programOf(d), Note: d.note,
	}
	if at := d.seen.Load(); at > 0 {
		seen := time.Unix(0, at).UTC().Truncate(time.Second)
		out.LastSeen = &seen
	}
	if out.State == "" {
		out.State = Overdue
		if d.isActive(now.UnixNano()) {
			out.State = Active
		}
	}
	return out
}

// Program is a program and the number of devices that reported it last.
type Program struct {
	Name    string
	Devices int
}

// Programs lists the programs of devices, those of most devices first, and at most limit of them.
func (r *Registry) Programs(limit int) (all []Program) {
	r.mu.RLock()
	for _, p := range r.programs {
		if p.devices > 0 {
			all = append(all, Program{p.name, p.devices})
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b Program) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))]
}

// States counts the devices that ever enrolled by state, and those that take part and were heard of at a time or later.
func (r *Registry) States(now, since time.Time) (states map[State]int, heard int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	states = map[State]int{}
	at, from := now.UnixNano(), since.UnixNano()
	for _, d := range r.devices {
		switch {
		case d.barred != "":
			states[d.barred]++
			continue
		case d.isActive(at):
			states[Active]++
		default:
			states[Overdue]++
		}
		if seen := d.seen.Load(); seen > 0 && seen >= from {
			heard++
		}
	}
	return states, heard
}
