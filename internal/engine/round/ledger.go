package round

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/privacy/account"
)

// Ledger records the privacy budget spent in an append-only file: one line per release, on
// disk before the release is made, each with the hash of the line before. A crash can leave
// a line whose release was not made, or half a line: both count as spent. Its methods may be
// called concurrently.
type Ledger struct {
	mu     sync.Mutex
	f      file
	n      int    // lines
	last   string // hash of the last line
	events []account.Event
	spent  account.Spent // the events with equal ones merged
	end    ending
	err    error // of the first failed write; no line may follow it
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
	Run    string         `json:"run,omitempty"` // the run, in the first line
	Event  *account.Event `json:"event,omitempty"`
	Crash  bool           `json:"after_crash,omitempty"` // the line replaces half a line before it
	Before string         `json:"before"`
	Hash   string         `json:"hash"`
}

// maxLedger is the size of a ledger of about ten million rounds.
const maxLedger = 4 << 30

// OpenLedger opens or creates the ledger of a run. It refuses a ledger that was changed or
// that belongs to another run. Half a line at the end counts as costliest if given, otherwise
// as the last whole line.
func OpenLedger(path, run string, costliest ...account.Event) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Ledger{f: f}
	if err := l.load(path, run, costliest); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) load(path, run string, costliest []account.Event) error {
	b, err := io.ReadAll(io.LimitReader(l.f, maxLedger+1))
	if err != nil {
		return err
	}
	if len(b) == 0 {
		if err := l.append("", entry{Run: run}); err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	}
	if len(b) > maxLedger {
		return fmt.Errorf("%s: the ledger exceeds %d bytes, so nothing more may be released; start a new run", path,
			maxLedger)
	}
	if err := l.read(b, run); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// It is unknown whether the release of half a line was made, so it counts.
	e := entry{Crash: true}
	if again := append(slices.Clone(l.events), costliest...); len(again) > 0 {
		e.Event = &again[len(again)-1]
	}
	switch l.end {
	case open:
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
func (l *Ledger) read(b []byte, run string) error {
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
		case err != nil || e.N != l.n || e.Before != l.last || e.Hash != e.sum() || l.end == mended && !e.Crash ||
			!bytes.Equal(text, line):
			return fmt.Errorf("line %d of the ledger is corrupt: the budget spent is unknown, so nothing more may be "+
				"released; start a new run", l.n+1)
		case l.n == 0 && e.Run != run:
			return errors.New("the ledger belongs to a run with other settings")
		}
		if e.Event != nil {
			if err := l.count(*e.Event); err != nil {
				return fmt.Errorf("line %d of the ledger: %w", l.n+1, err)
			}
		}
		l.last, l.n = e.Hash, l.n+1
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

func (l *Ledger) count(e account.Event) error {
	if err := l.spent.Spend(e); err != nil {
		return err
	}
	l.events = append(l.events, e)
	return nil
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
		return fmt.Errorf("an earlier write to the ledger failed: %w", l.err)
	}
	e.N, e.Before = l.n, l.last
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
	l.last, l.n = e.Hash, l.n+1
	if e.Event != nil {
		return l.count(*e.Event)
	}
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
	return l.append("", entry{Event: &e})
}

// Events returns the events spent; equal ones are merged.
func (l *Ledger) Events() []account.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.spent.Events())
}

// Len is the number of lines; the first one names the run.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Since returns the events of the lines from number n on.
func (l *Ledger) Since(n int) []account.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[min(max(0, n-l.n+len(l.events)), len(l.events)):])
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
