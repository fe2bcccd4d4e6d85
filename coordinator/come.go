package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// Where devices choose themselves (cohort=come:N/E), any that checks in and has not had
// its turn in these E rounds is given the task, while the round has places. Who has had one is in
// the version that has its report in it: both are on disk, or none.

// errCrowded says that a report came when the round had all that it takes.
var errCrowded = errors.New("the round is full")

// seatSet is a bit for each seat.
type seatSet []byte

func (s seatSet) has(seat uint32) bool {
	return int(seat/8) < len(s) && s[seat/8]>>(seat%8)&1 == 1
}

// with is s and more seats, of so many that there are.
func (s seatSet) with(seats []uint32, of int) seatSet {
	out := make(seatSet, (of+7)/8)
	copy(out, s)
	for _, seat := range seats {
		out[seat/8] |= 1 << (seat % 8)
	}
	return out
}

// who appends the seats that may take part in a round.
func (c *Coordinator) who(_ int, dst []uint32) []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for seat := range uint32(c.settings.Devices) {
		if !c.had(seat) {
			dst = append(dst, seat)
		}
	}
	return dst
}

// had reports whether a device has had its turn in these rounds.
func (c *Coordinator) had(seat uint32) bool { return c.came.has(seat) || c.tried[seat] }

// took notes the turns of round t. With the last round of an epoch all begin anew.
func (c *Coordinator) took(t int) {
	if !c.settings.Cohort.ByCheckIn() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came = c.came.with(c.ending.Seats, c.settings.Devices)
	if (t+1)%c.settings.Cohort.Every == 0 {
		c.came = seatSet(nil).with(nil, c.settings.Devices)
		clear(c.tried)
	}
}

// participants is the devices that contributed in this epoch; nil unless devices choose when to
// check in.
func (c *Coordinator) participants() []byte {
	if !c.settings.Cohort.ByCheckIn() {
		return nil
	}
	return c.came.with(nil, c.settings.Devices)
}

// tardy notes a report that is in no sum. Its device has no other in these rounds: what it
// has sent it takes for counted, whatever it is told.
func (c *Coordinator) tardy(seat uint32, r *pb.ReportRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := uint32(c.settings.Cohort.Every); r.Kind == pb.Kind_TRAIN && e > 0 && c.models.Newest() != nil &&
		r.Round/e == uint32(c.models.Round())/e {
		c.tried[seat] = true
	}
}

// refrains reports whether a device would not answer the round in progress. It answers a
// readout, whatever it has sent.
func (c *Coordinator) refrains(seat uint32) bool {
	reading := false
	switch p := c.place.(type) {
	case *vault:
		reading = p.task.Kind != pb.Kind_TRAIN
	case *buckets:
		reading = p.all[0].task.Kind != pb.Kind_TRAIN
	}
	return c.tried[seat] && !reading
}

// offer is what a seat that checks in is to do; nil for nothing. One that would not answer has
// had its turn, and the round hears of it.
func (c *Coordinator) offer(seat uint32, now time.Time) *pb.Task {
	if !c.refrains(seat) {
		return c.place.tasked(seat, now)
	}
	if p, waits := c.place.(interface{ turnedAway() }); waits {
		p.turnedAway()
	}
	return nil
}

// gathers reports whether devices are waited for that must be there when a masked round
// begins.
func (c *Coordinator) gathers() bool {
	_, lobby := c.place.(*lobby)
	return lobby
}

// most is the number of reports that a round takes; 0 for all of its cohort's.
func (c *Coordinator) most(task *pb.Task) int {
	if task.Kind == pb.Kind_TRAIN && c.settings.Cohort.ByCheckIn() {
		return c.settings.Cohort.Count
	}
	return 0
}

// why is what a device that has nothing to do is told.
func (c *Coordinator) why(seat uint32) string {
	come := &c.settings.Cohort
	if !come.ByCheckIn() || int(seat) >= c.settings.Devices || c.models.Newest() == nil ||
		c.models.Round() >= c.settings.Rounds {
		return c.state
	}
	h, _ := c.place.(*hall)
	switch {
	case c.had(seat), h != nil && h.task.Kind == pb.Kind_TRAIN && h.has(seat):
		return fmt.Sprintf("this device has had its turn: it may come again from round %d on",
			c.models.Round()/come.Every*come.Every+come.Every+1)
	case h != nil && h.most > 0 && !h.hasRoom(c.now()):
		return fmt.Sprintf("round %d has all the devices that it takes: come again", c.models.Round()+1)
	}
	return c.state
}

// places are those of a round that takes the first who come. A device that is given the
// task holds one for a while; when that is over another may have it. Its report is taken
// all the same while there is room: what bounds a sum is hall.most, and no promise of a place.
type places struct {
	hold  time.Duration
	by    map[uint32]*lease
	line  []*lease        // as they were given
	open  int             // held and not counted
	away  int             // check-ins of those who have had their turn
	crowd map[uint32]bool // by seat: who found no place free
	idle  map[uint32]bool // by seat: who came before the deadline was last set, and sent nothing
}

type lease struct {
	since time.Time
	open  bool
}

func newPlaces(hold time.Duration) places {
	return places{hold: hold, by: map[uint32]*lease{}, crowd: map[uint32]bool{}, idle: map[uint32]bool{}}
}

// lapse takes back what was held for too long.
func (p *places) lapse(now time.Time) {
	for len(p.line) > 0 && (!p.line[0].open || now.Sub(p.line[0].since) >= p.hold) {
		p.done(p.line[0])
		p.line = p.line[1:]
	}
}

func (p *places) done(l *lease) {
	if l != nil && l.open {
		l.open = false
		p.open--
	}
}

// give gives a seat a place, of so many that are free beside those that are held. One that
// held its place for too long has no other: it would keep those out who come.
func (p *places) give(seat uint32, free int, now time.Time) bool {
	p.lapse(now)
	if l := p.by[seat]; l != nil {
		return l.open
	}
	if p.open >= free {
		p.crowd[seat] = true
		return false
	}
	l := &lease{now, true}
	p.by[seat], p.line = l, append(p.line, l)
	p.open++
	return true
}

// renew gives everybody another try. Places that are held stay with their holders.
func (p *places) renew(now time.Time) {
	p.lapse(now)
	for seat, l := range p.by {
		if !l.open {
			p.idle[seat] = true
			delete(p.by, seat)
		}
	}
	for seat := range p.crowd {
		p.idle[seat] = true
	}
	clear(p.crowd)
	p.away = 0
}

// hopeless reports whether devices came, and all of them have had their turn, or came before the
// deadline was last set too, and sent nothing. A device that declines the task, or fails at it, is
// asked again and again; it must not keep a round open.
func (p *places) hopeless() bool {
	for seat := range p.by {
		if !p.idle[seat] {
			return false
		}
	}
	for seat := range p.crowd {
		if !p.idle[seat] {
			return false
		}
	}
	return p.away > 0 || len(p.by) > 0
}

// hasRoom reports whether the round has a place to give.
func (h *hall) hasRoom(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places.lapse(now)
	return h.places.open < h.most-h.taken
}

// turnedAway notes a check-in of a device that has had its turn.
func (h *hall) turnedAway() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places.away++
}

// exhausted reports whether, since its deadline was last set, devices came and none of them
// was one to hope for: who is left does not come any more, and a round that waits for them would
// wait for ever. Where nobody comes at all, it waits.
func (h *hall) exhausted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most > 0 && h.places.hopeless()
}

// lobby is where devices that choose themselves gather before a masked round, whose
// protocol must know them all before it begins.
type lobby struct {
	mu   sync.Mutex
	may  []uint32
	came []uint32
	most int
	full chan struct{}
	out  map[uint32]int // by seat: attempts of the round that ended, and that it left
	away int            // check-ins of those who have had their turn
}

// leaves is how often a device may leave a round's attempts: then it is let in no more, as if it
// had had its turn. Others would wait for it for ever.
const leaves = 2

func (l *lobby) turnedAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away++
}

// tasked lets a seat in, and has it wait.
func (l *lobby) tasked(seat uint32, _ time.Time) *pb.Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, may := slices.BinarySearch(l.may, seat)
	if may = may && l.out[seat] < leaves; !may {
		l.away++
	}
	if !may || len(l.came) >= l.most || slices.Contains(l.came, seat) {
		return nil
	}
	if l.came = append(l.came, seat); len(l.came) == l.most {
		close(l.full)
	}
	return nil
}

// turned is how many check-ins were of devices that have had their turn, since it was asked.
func (l *lobby) turned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.away = 0 }()
	return l.away
}

func (l *lobby) progress() (done, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.came), l.most
}

// fewestMasked is the smallest group that masks anything.
const fewestMasked = 2

// gathered waits until a masked round has its count, or after half of a deadline enough;
// nobody where all who come have had their turn.
func (f *fleet) gathered(ctx context.Context, may []uint32, did *turnout) ([]uint32, error) {
	l := &lobby{may: may, out: did.left, most: min(f.settings.Cohort.Count, len(may)), full: make(chan struct{})}
	f.enter(l)
	least := min(l.most, max(fewestMasked, f.quorum(pb.Kind_TRAIN)))
	timer := time.NewTicker(f.settings.Deadline / 2)
	defer timer.Stop()
	quiet, before := 0, 0
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			f.enter(nil)
			return nil, ctx.Err()
		case <-l.full:
			waiting = false
		case <-timer.C:
			n, _ := l.progress()
			if waiting = n < least; n > before {
				quiet = 0
			}
			if quiet, before = quiet+1, n; waiting && quiet > 2 && l.turned() > 0 {
				return nil, nil
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.came) // who comes later finds the attempt, and is in none
	slices.Sort(out)
	return out, nil
}

// turnout is what devices did in the attempts at a masked round.
type turnout struct {
	begun map[uint32]bool
	left  map[uint32]int // by seat: attempts that ended, and that it had left
}

func newTurnout() *turnout { return &turnout{map[uint32]bool{}, map[uint32]int{}} }

// notice adds the last attempt at a masked round: who has begun it, and where it ended who had
// not done its last step.
func (f *fleet) notice(to *turnout, ended bool) {
	f.mu.Lock()
	b := f.masked
	f.mu.Unlock()
	if b == nil {
		return
	}
	for _, v := range b.all {
		v.vmu.Lock()
		for seat := range v.came {
			to.begun[seat] = true
		}
		for _, seat := range v.cohort {
			if next, begun := v.came[seat]; ended && (!begun || next <= min(v.stage, wire.StepReveal)) {
				to.left[seat]++
			}
		}
		v.vmu.Unlock()
	}
}

// tire notes the turns of those who have begun a masked round and are not in its sum.
func (f *fleet) tire(did *turnout, in []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for seat := range did.begun {
		if _, counted := slices.BinarySearch(in, seat); !counted && f.settings.Cohort.ByCheckIn() {
			f.tried[seat] = true
		}
	}
}
