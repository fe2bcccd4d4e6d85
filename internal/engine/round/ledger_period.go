package round

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/chainlog"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Reset is an operator's decision that the privacy budget counts from here on.
type Reset struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// period is a budget period.
type period struct {
	number int // of resets before it
	line   int // of the reset
	lost   bool
}

// follow notes the runs and the budget period of a line.
func (l *Ledger) follow(e *entry) {
	switch {
	case e.Reset != nil:
		l.period = period{number: l.period.number + 1, line: e.N}
		l.spent, l.runs = account.Spent{}, nil
		if e.Run != "" { // it continues in the new period
			l.runs = []string{e.Run}
		}
	case e.Begins > 0:
		l.run, l.runs = e.Run, append(l.runs, e.Run)
	case e.Lost:
		l.period.lost, l.lostLine = true, e.N
	}
}

// BeginRun records that a run of the owner begins: the lines that follow name it. If it is the
// newest run already, nothing is written; nor if it began earlier in the period: a state folder that was restored
// may be older than its ledger.
func (l *Ledger) BeginRun(run string, number int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run == l.run || slices.Contains(l.runs, run) {
		l.run = run
		return nil
	}
	return l.append(entry{Run: run, Begins: number})
}

// Reset begins a budget period. inRun says that the newest run continues in it.
func (l *Ledger) Reset(r Reset, inRun bool) error {
	if r.Reason == "" {
		return errors.New("a reset of the privacy budget requires a reason")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.salted(entry{Reset: &Reset{r.Reason, r.At.UTC().Truncate(time.Second)}})
	if inRun {
		e.Run = l.run
	}
	return l.append(e)
}

// Period is the number of the budget period, from 1, and the number of runs that began or continued
// in it.
func (l *Ledger) Period() (number, runs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.period.number + 1, len(l.runs)
}

// PeriodLine is the line of the last reset; 0 without one.
func (l *Ledger) PeriodLine() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.period.line
}

// Lost reports that lines of the budget period were lost: its cost is unknown.
func (l *Ledger) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.period.lost
}

// heads are the hashes of all lines. They have a lock of their own, so that nobody who compares a hash waits for
// the disk.
type heads struct {
	mu  sync.Mutex
	all []head
}

// head is the hash of the last of a number of lines.
type head struct {
	lines int
	hash  [sha256.Size]byte
}

func (h *heads) add(lines int, hash string) error {
	next := head{lines: lines}
	if _, err := hex.Decode(next.hash[:], []byte(hash)); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, next)
	return nil
}

// Head is the number of lines and the hash of the last one, which covers all of them.
func (l *Ledger) Head() (lines int, hash []byte) {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	h := l.heads.all[len(l.heads.all)-1]
	return h.lines, h.hash[:]
}

// HasHead reports whether Head returned these values once, for this ledger or one that it continues.
func (l *Ledger) HasHead(lines int, hash []byte) bool {
	l.heads.mu.Lock()
	defer l.heads.mu.Unlock()
	all := l.heads.all
	i := sort.Search(len(all), func(i int) bool { return all[i].lines >= lines })
	return i < len(all) && all[i].lines == lines && bytes.Equal(all[i].hash[:], hash)
}

// Paid returns all events with their lines, whatever the budget period.
func (l *Ledger) Paid() (events []account.Event, lines []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		events, lines = append(events, l.lines[i].event), append(lines, l.lines[i].line)
	}
	return events, lines
}

// LostLine is the line after which no entries are lost; -1 if none ever were.
func (l *Ledger) LostLine() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lostLine == 0 {
		return -1
	}
	return l.lostLine
}

// EventsOf returns the events of one run, one by one.
func (l *Ledger) EventsOf(run string) (out []account.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		if l.lines[i].run == run {
			out = append(out, l.lines[i].event)
		}
	}
	return out
}

// RepairLedger makes the ledger of an owner open again, if it is damaged or has fewer lines than
// were written: it keeps the lines before the damage and adds one which says that others were lost.
// The damaged file stays beside it. It returns whether the ledger was damaged.
func RepairLedger(path, owner string, written int) (damaged bool, err error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	l := &Ledger{owner: owner}
	tail, bad := chainlog.Read(bytes.NewReader(b), newEntry, l.read)
	if bad == nil && tail.Lines >= written && (tail.Lines > 0 || len(b) == 0) {
		return false, nil
	}
	fresh := path + ".repaired"
	if err := os.WriteFile(fresh, b[:tail.End], 0o644); err != nil {
		return true, err
	}
	next, err := OpenLedger(fresh, owner)
	if err != nil {
		return true, err
	}
	err = errors.Join(next.append(entry{Link: chainlog.Link{N: written, Lost: true}}), next.Close())
	if err != nil {
		return true, err
	}
	if len(b) > 0 {
		if err := os.Rename(path, path+".damaged"); err != nil {
			return true, err
		}
	}
	return true, errors.Join(os.Rename(fresh, path), atomicfile.SyncDir(filepath.Dir(path)))
}
