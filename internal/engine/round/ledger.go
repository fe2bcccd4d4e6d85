package round

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Ledger records the privacy budget spent in an append-only file: one line per release, on
// disk before the release is made, each with the hash of the line before. A crash can leave
// a line whose release was not made, or half a line: both count as spent. A ledger belongs to
// an owner: a simulated run, or a federation with many runs. A reset begins another budget
// period; the lines before it stay. Its methods may be called concurrently.
type Ledger struct {
	mu        sync.Mutex
	path      string
	owner     string
	costliest []account.Event
	f         file
	n         int    // lines
	last      string // hash of the last line
	lines     []paid
	heads     heads
	run       string // the newest run; empty if the owner is a run
	runs      int    // of the budget period
	period    period
	lostLine  int           // the last line which says that others were lost; 0 for none
	spent     account.Spent // the events of the budget period with equal ones merged
	end       ending
	err       error // of a failed write, which may have left a line or half of one
	intact    int   // bytes of the whole lines
}

// paid is a line that pays for a release.
type paid struct {
	line  int
	run   string
	event account.Event
}

// file is the file of a ledger.
type file interface {
	io.ReadWriteCloser
	Sync() error
}

// ending describes the end of the file.
type ending uint8

const (
	whole  ending = iota
	open          // the last line lacks its newline
	broken        // half a line without a newline
	mended        // half a line with a newline, and no line that replaces it
)

// entry is a line. Hash is the hash of the line with an empty Hash; Before is the hash of the
// line before.
type entry struct {
	N      int            `json:"n"`
	Owner  string         `json:"owner,omitempty"`  // in the first line
	Run    string         `json:"run,omitempty"`    // that releases, that begins, or that a reset interrupts
	Begins int            `json:"begins,omitempty"` // the number of the run that begins
	Event  *account.Event `json:"event,omitempty"`
	Reset  *Reset         `json:"reset,omitempty"`
	Lost   bool           `json:"lost,omitempty"`        // lines before it were lost: see RepairLedger
	Crash  bool           `json:"after_crash,omitempty"` // the line replaces half a line before it
	Salt   string         `json:"salt,omitempty"`        // random: equal releases of a restored ledger differ
	Before string         `json:"before"`
	Hash   string         `json:"hash"`
}

// maxLedger is the size of a ledger of about ten million rounds.
const maxLedger = 4 << 30

// OpenLedger opens or creates the ledger of an owner. It refuses a ledger that was changed or
// that belongs to another owner. Half a line at the end counts as costliest if given, otherwise
// as the last whole line.
func OpenLedger(path, owner string, costliest ...account.Event) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Ledger{f: f, path: path, owner: owner, costliest: costliest}
	if err := l.load(path); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) load(path string) error {
	b, err := io.ReadAll(io.LimitReader(l.f, maxLedger+1))
	if err != nil {
		return err
	}
	if len(b) == 0 {
		if err := l.append("", entry{Owner: l.owner}); err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	}
	if len(b) > maxLedger {
		return fmt.Errorf("%s: the ledger exceeds %d bytes, so nothing more may be released", path, maxLedger)
	}
	if err := l.read(b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// It is unknown whether the release of half a line was made, so it counts.
	e := entry{Crash: true, Run: l.run}
	if n := len(l.costliest); n > 0 {
		e.Event = &l.costliest[n-1]
	} else if n := len(l.lines); n > 0 {
		e.Event = &l.lines[n-1].event
	}
	whole := l.intact
	l.intact = len(b) // a broken line stays
	switch l.end {
	case open:
		l.intact = whole + 1
		_, err := l.f.Write([]byte("\n"))
		return errors.Join(err, l.f.Sync())
	case broken:
		return l.append("\n", e)
	case mended:
		return l.append("", e)
	}
	return nil
}

// read checks every line.
func (l *Ledger) read(b []byte) error {
	size := len(b)
	for len(b) > 0 {
		line, rest, ends := bytes.Cut(b, []byte("\n"))
		b = rest
		var e entry
		err := json.Unmarshal(line, &e)
		switch text, _ := json.Marshal(e); {
		case err != nil && l.n > 0 && cutOff(line):
			// Half of its replacement may follow, and then the whole.
			if l.end = mended; !ends {
				l.end = broken
			}
			continue
		case err != nil || e.N != l.n && !(e.Lost && e.N > l.n) || e.Before != l.last || e.Hash != e.sum() ||
			l.end == mended && !e.Crash || !bytes.Equal(text, line):
			return fmt.Errorf("line %d of the ledger is corrupt: the budget spent is unknown, so nothing more may be "+
				"released", l.n+1)
		case l.n == 0 && e.Owner != l.owner:
			return errors.New("the ledger belongs to another federation, or to a run with other settings")
		}
		if err := l.take(&e); err != nil {
			return fmt.Errorf("line %d of the ledger: %w", l.n+1, err)
		}
		l.intact = size - len(b)
		if l.end = whole; !ends {
			l.end = open
		}
	}
	return nil
}

// cutOff reports whether a text is an incomplete line.
func cutOff(line []byte) bool {
	var e entry
	return errors.Is(json.NewDecoder(bytes.NewReader(line)).Decode(&e), io.ErrUnexpectedEOF)
}

// take counts a line that is on disk.
func (l *Ledger) take(e *entry) error {
	if e.Event != nil {
		if err := l.spent.Spend(*e.Event); err != nil {
			return err
		}
		l.lines = append(l.lines, paid{e.N, e.Run, *e.Event})
	}
	l.follow(e)
	l.last, l.n = e.Hash, e.N+1
	return l.heads.add(l.n, e.Hash)
}

func (e entry) sum() string {
	e.Hash = ""
	b, err := json.Marshal(e)
	if err != nil {
		return "none"
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// append writes a line and waits until it is on disk.
func (l *Ledger) append(before string, e entry) error {
	if l.err != nil {
		if err := l.undo(); err != nil {
			return err
		}
	}
	e.N, e.Before = max(e.N, l.n), l.last
	e.Hash = e.sum()
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := l.f.Write([]byte(before + string(b) + "\n")); err != nil {
		l.err = err
		return err
	}
	if err := l.f.Sync(); err != nil {
		l.err = err
		return err
	}
	l.intact += len(before) + len(b) + 1
	return l.take(&e)
}

// undo removes what a failed write left. Its release was not made, since Spend returned an error.
func (l *Ledger) undo() error {
	if l.path == "" {
		return fmt.Errorf("an earlier write to the ledger failed: %w", l.err)
	}
	err := os.Truncate(l.path, int64(l.intact))
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(l.path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("an earlier write to the ledger failed: %w", errors.Join(l.err, err))
	}
	l.f.Close()
	l.f, l.err = f, nil
	return nil
}

// Spend records an event. The release may be made only if Spend returns nil.
func (l *Ledger) Spend(e account.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var probe account.Spent // refuse an event that cannot be added up before it is on disk
	for _, ev := range append(l.spent.Events(), e) {
		if err := probe.Spend(ev); err != nil {
			return err
		}
	}
	return l.append("", l.salted(entry{Run: l.run, Event: &e}))
}

// Note records a release that an earlier line has paid for. So every release has a line, and two copies of a
// ledger that both continue differ.
func (l *Ledger) Note() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append("", l.salted(entry{Run: l.run}))
}

// salted makes a line of a federation's ledger, which may be copied or restored from a back-up, differ from
// all others.
func (l *Ledger) salted(e entry) entry {
	if l.run != "" {
		e.Salt = rand.Text()
	}
	return e
}

// Events returns the events of the budget period; equal ones are merged.
func (l *Ledger) Events() []account.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.spent.Events())
}

// Len is the number of lines; the first one names the owner.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Since returns the events of the lines from number n on, one by one, whatever the budget period.
func (l *Ledger) Since(n int) (out []account.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := sort.Search(len(l.lines), func(i int) bool { return l.lines[i].line >= n })
	for _, p := range l.lines[at:] {
		out = append(out, p.event)
	}
	return out
}

// Close closes the file.
func (l *Ledger) Close() error { return l.f.Close() }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
