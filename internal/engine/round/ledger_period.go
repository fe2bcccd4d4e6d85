package round

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sort"
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
	}
	if e.Lost {
		l.period.lost, l.lostLine = e.Reset == nil, e.N
	}
}

// BeginRun records that a run of the owner begins: the lines that follow name it. If it is the
// newest run already, nothing is written; nor if it began earlier in the period: a state folder that was restored
// may be older than its ledger.
func (l *Ledger) BeginRun(run string, number int) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if run == l.run || slices.Contains(l.runs, run) {
		l.run = run
		return nil
	}
	return l.append(entry{Run: run, Begins: number})
}

// Reset begins a budget period. inRun says that the newest run continues in it; lost, that the ledger lacks releases
// that another copy of it has.
func (l *Ledger) Reset(r Reset, inRun, lost bool) error {
	if r.Reason == "" {
		return errors.New("a reset of the privacy budget requires a reason")
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	e := entry{Link: chainlog.Link{Lost: lost}, Reset: &Reset{r.Reason, r.At.UTC().Truncate(time.Second)}}
	if inRun {
		e.Run = l.run
	}
	return l.appendSalted(e)
}

// Period is the number of the budget period, from 1, and the number of runs that began or continued
// in it.
func (l *Ledger) Period() (number, runs int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.period.number + 1, len(l.runs)
}

// PeriodLine is the line of the last reset; 0 without one.
func (l *Ledger) PeriodLine() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.period.line
}

// Lost reports that lines of the budget period were lost: its cost is unknown.
func (l *Ledger) Lost() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.period.lost
}

// head is the hash of the last of a number of lines.
type head struct {
	lines       int
	hash        [sha256.Size]byte
	salt        string
	unpublished bool
}

// headAt returns the head of a number of lines; nil if the ledger is shorter. The caller holds mu.
func (l *Ledger) headAt(lines int) *head {
	i := sort.Search(len(l.heads), func(i int) bool { return l.heads[i].lines >= lines })
	if i == len(l.heads) || l.heads[i].lines != lines {
		return nil
	}
	return &l.heads[i]
}

// Unpublish records that no version was published at the lines from number n on that were announced with one of the
// salts, and returns these lines. If another copy of the folder has published one, HasHead does not know it.
func (l *Ledger) Unpublish(n int, salts []string) (lines []int, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	var news []int
	for _, h := range l.heads {
		if h.lines <= n || !slices.Contains(salts, h.salt) {
			continue
		}
		if lines = append(lines, h.lines-1); !h.unpublished {
			news = append(news, h.lines-1)
		}
	}
	if len(news) > 0 {
		err = l.append(entry{Run: l.run, Salt: rand.Text(), Unpublished: news})
	}
	return lines, err
}

// Head is the number of lines and the hash of the last one, which covers all of them.
func (l *Ledger) Head() (lines int, hash []byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	h := l.heads[len(l.heads)-1]
	return h.lines, h.hash[:]
}

// HasHead reports whether Head returned these values once, for this ledger or one that it continues, and a version
// may have been published then.
func (l *Ledger) HasHead(lines int, hash []byte) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	h := l.headAt(lines)
	return h != nil && !h.unpublished && bytes.Equal(h.hash[:], hash)
}

// Paid returns all events with their lines, whatever the budget period.
func (l *Ledger) Paid() (events []account.Event, lines []int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.lines {
		events, lines = append(events, l.lines[i].event), append(lines, l.lines[i].line)
	}
	return events, lines
}

// LostLine is the line after which no entries are lost; -1 if none ever were.
func (l *Ledger) LostLine() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.lostLine == 0 {
		return -1
	}
	return l.lostLine
}

// EventsOf returns the events of one run, one by one.
func (l *Ledger) EventsOf(run string) (out []account.Event) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.lines {
		if l.lines[i].run == run {
			out = append(out, l.lines[i].event)
		}
	}
	return out
}

// RepairLedger makes the ledger of an owner open again, if it is damaged or has fewer lines than
// were written: it keeps the lines before the damage and adds one which says that others were lost.
// The damaged file is copied to the folder aside. It returns whether the ledger was damaged.
func RepairLedger(path, aside, owner string, written int) (damaged bool, err error) {
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
		if err := atomicfile.Write(filepath.Join(aside, filepath.Base(path)), b); err != nil {
			return true, err
		}
	}
	return true, errors.Join(os.Rename(fresh, path), atomicfile.SyncDir(filepath.Dir(path)))
}
