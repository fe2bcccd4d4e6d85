package round

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/tacit-rec/tacit/internal/chainlog"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Ledger records the privacy budget spent in an append-only file: one line per release, on
// disk before the release is made, each with the hash of the line before. A crash can leave
// a line whose release was not made, or half a line: both count as spent. A ledger belongs to
// an owner: a simulated run, or a federation with many runs. A reset begins another budget
// period; the lines before it stay. Its methods may be called concurrently.
type Ledger struct {
	owner    string
	retry    func(write func() error) error
	announce func(salt string) error

	writing sync.Mutex // held while a line is written; nothing below changes without it
	log     *chainlog.Log
	run     string // the newest run; empty if the owner is a run

	mu       sync.RWMutex // guards what is below, and is never held while the disk works
	lines    []paid
	heads    []head   // of all lines
	runs     []string // of the budget period
	period   period
	lostLine int           // the last line which says that others were lost; 0 for none
	spent    account.Spent // the events of the budget period with equal ones merged
}

// paid is a line that pays for a release.
type paid struct {
	line  int
	run   string
	event account.Event
}

// entry is a line. Lost says that lines before it were lost: see RepairLedger. A line after a crash pays for the
// half of a line before it.
type entry struct {
	chainlog.Link
	Owner  string         `json:"owner,omitempty"`  // in the first line
	Run    string         `json:"run,omitempty"`    // that releases, that begins, or that a reset interrupts
	Begins int            `json:"begins,omitempty"` // the number of the run that begins
	Event  *account.Event `json:"event,omitempty"`
	Reset  *Reset         `json:"reset,omitempty"`
	Salt   string         `json:"salt,omitempty"` // random: equal releases of a restored ledger differ
	// Unpublished are lines, from 0, at which no version was published: a crash came first.
	Unpublished []int `json:"unpublished,omitempty"`
}

func newEntry() chainlog.Entry { return &entry{} }

var errCorrupt = errors.New("the ledger is corrupt: the budget spent is unknown, so nothing more may be released")

// OpenLedger opens or creates the ledger of an owner. It refuses a ledger that was changed or
// that belongs to another owner. Half a line at the end counts as costliest if given, otherwise
// as the last whole line.
func OpenLedger(path, owner string, costliest ...account.Event) (*Ledger, error) {
	l := &Ledger{owner: owner, retry: func(write func() error) error { return write() }}
	log, err := chainlog.Open(path, 0o644, newEntry, l.read)
	if err != nil {
		return nil, err
	}
	l.log = log
	switch {
	case log.Lines == 0: // half a first line has paid for nothing: it only names the owner
		err = l.append(entry{Owner: owner})
	case log.Torn: // it is unknown whether the release of half a line was made, so it counts
		e := entry{Run: l.run}
		if n := len(costliest); n > 0 {
			e.Event = &costliest[n-1]
		} else if n := len(l.lines); n > 0 {
			e.Event = &l.lines[n-1].event
		}
		err = l.append(e)
	}
	if err != nil {
		log.Close()
		return nil, err
	}
	return l, nil
}

// RetryWith sets how writes are repeated that the disk refuses.
func (l *Ledger) RetryWith(retry func(write func() error) error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.retry = retry
}

// AnnounceWith sets what keeps the salt of a line before the line is written; see Unpublish.
func (l *Ledger) AnnounceWith(keep func(salt string) error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.announce = keep
}

// read counts a line of the file.
func (l *Ledger) read(line chainlog.Entry, damage *chainlog.Damage) error {
	if damage != nil {
		return fmt.Errorf("line %d: %w", damage.Line, errCorrupt)
	}
	e := line.(*entry)
	if len(l.heads) == 0 && e.Owner != l.owner {
		return errors.New("the ledger belongs to another federation, or to a run with other settings")
	}
	if err := l.take(e); err != nil {
		return fmt.Errorf("line %d of the ledger: %w", e.N+1, err)
	}
	return nil
}

// take counts a line that is on disk.
func (l *Ledger) take(e *entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Event != nil {
		if err := l.spent.Spend(*e.Event); err != nil {
			return err
		}
		l.lines = append(l.lines, paid{e.N, e.Run, *e.Event})
	}
	l.follow(e)
	for _, line := range e.Unpublished {
		if h := l.headAt(line + 1); h != nil {
			h.unpublished = true
		}
	}
	next := head{lines: e.N + 1, salt: e.Salt}
	_, err := hex.Decode(next.hash[:], []byte(e.Hash))
	l.heads = append(l.heads, next)
	return err
}

// append writes a line, waits until it is on disk, and counts it.
func (l *Ledger) append(e entry) error {
	if err := l.retry(func() error { return l.log.Append(&e) }); err != nil {
		return err
	}
	return l.take(&e)
}

// Spend records an event. The release may be made only if Spend returns nil.
func (l *Ledger) Spend(e account.Event) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var probe account.Spent // refuse an event that cannot be added up before it is on disk
	for _, ev := range append(l.spent.Events(), e) {
		if err := probe.Spend(ev); err != nil {
			return err
		}
	}
	return l.appendSalted(entry{Run: l.run, Event: &e})
}

// Note records a release that an earlier line has paid for. So every release has a line, and two copies of a
// ledger that both continue differ.
func (l *Ledger) Note() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.appendSalted(entry{Run: l.run})
}

// appendSalted makes a line of a federation's ledger, which may be copied or restored from a backup, differ from
// all others, announces it, and appends it.
func (l *Ledger) appendSalted(e entry) error {
	if l.run != "" {
		e.Salt = rand.Text()
	}
	if e.Salt != "" && l.announce != nil {
		if err := l.announce(e.Salt); err != nil {
			return err
		}
	}
	return l.append(e)
}

// Events returns the events of the budget period; equal ones are merged.
func (l *Ledger) Events() []account.Event {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.spent.Events()
}

// Len is the number of lines; the first one names the owner.
func (l *Ledger) Len() int {
	lines, _ := l.Head()
	return lines
}

// EventAt returns the event of a line, from 0.
func (l *Ledger) EventAt(line int) (account.Event, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].line >= line })
	if at == len(l.lines) || l.lines[at].line != line {
		return account.Event{}, false
	}
	return l.lines[at].event, true
}

// Since returns the events of the lines from number n on, one by one, whatever the budget period.
func (l *Ledger) Since(n int) (out []account.Event) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	at := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].line >= n })
	for _, p := range l.lines[at:] {
		out = append(out, p.event)
	}
	return out
}

// Close closes the file.
func (l *Ledger) Close() error { return l.log.Close() }
