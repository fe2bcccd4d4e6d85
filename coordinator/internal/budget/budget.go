// Package budget records what a federation spends of its privacy budget, in a ledger on disk, before
// anything is released. It protects against replay: an entry that was written for a release that
// nobody saw, because the coordinator was killed, pays for one later release of the same kind, so
// no round is paid for twice and none is free. It never removes an entry: a reset adds one, from
// which on the budget counts.
package budget

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy/account"
)

// File is the name of the ledger in a state folder.
const File = "ledger.jsonl"

func hint(dir string) string {
	return fmt.Sprintf("restore its newest backup with `tacit admin restore`; without one, "+
		"`tacit serve --state %s --repair` counts the whole privacy budget as spent, and "+
		"`tacit admin reset-budget` begins a new budget period", dir)
}

// Budget is the ledger of a federation. Its methods may be called from many goroutines. A nil Budget
// is that of a federation without a privacy guarantee: it is empty.
type Budget struct {
	dir    string
	ledger *round.Ledger

	paying sync.Mutex // held while the ledger is written

	mu     sync.Mutex      // is never held while the disk works
	unused []account.Event // written for releases that nobody saw

	costs costs
	spent periodCost
}

var _ account.Ledger = (*Budget)(nil)

// Open opens or creates the ledger of a federation in a folder.
func Open(dir, federation string) (*Budget, error) {
	path := filepath.Join(dir, File)
	l, err := round.OpenLedger(path, federation)
	if err != nil {
		return nil, &store.Damage{Where: File, What: strings.TrimPrefix(err.Error(), path+": "), Hint: hint(dir)}
	}
	return &Budget{dir: dir, ledger: l}, nil
}

// RetryWith sets how writes to the ledger are repeated that the disk refuses.
func (b *Budget) RetryWith(retry func(write func() error) error) {
	if b != nil {
		b.ledger.RetryWith(retry)
	}
}

// AnnounceWith sets what keeps the salt of a line before the line is written; see Unpublish.
func (b *Budget) AnnounceWith(keep func(salt string) error) { b.ledger.AnnounceWith(keep) }

// Repair makes a damaged ledger open again, or one with fewer lines than were written. The budget
// then counts as spent until a reset. The damaged ledger is copied to the folder aside. Repair returns
// whether the ledger was damaged.
func Repair(dir, aside, federation string, written int) (damaged bool, err error) {
	return round.RepairLedger(filepath.Join(dir, File), aside, federation, written)
}

// Close closes the ledger.
func (b *Budget) Close() error {
	if b == nil {
		return nil
	}
	return b.ledger.Close()
}

// Spend pays for a release: with an unused entry if one fits, otherwise with a new one, which is
// on disk when Spend returns.
func (b *Budget) Spend(e account.Event) error {
	b.paying.Lock() // a reset drops the unused entries
	defer b.paying.Unlock()
	if b.useUnused(e) {
		return nil
	}
	return b.ledger.Spend(e)
}

func (b *Budget) useUnused(e account.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.unused, e)
	if i >= 0 {
		b.unused = slices.Delete(b.unused, i, i+1)
	}
	return i >= 0
}

// Note records a release that an earlier entry has paid for.
func (b *Budget) Note() error { return b.ledger.Note() }

// SpendNew pays with a new entry, for a release that is never repeated.
func (b *Budget) SpendNew(e account.Event) error {
	return b.ledger.Spend(e)
}

// BeginRun records that a run begins, once.
func (b *Budget) BeginRun(run string, number int) error {
	if b == nil {
		return nil
	}
	return b.ledger.BeginRun(run, number)
}

// Reset begins a budget period. No entry from before pays for a release in it. inRun says that the
// newest run continues, and lost that entries of the period before are missing.
func (b *Budget) Reset(reason string, now time.Time, inRun, lost bool) error {
	b.paying.Lock()
	defer b.paying.Unlock()
	if err := b.ledger.Reset(round.Reset{Reason: reason, At: now}, inRun, lost); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unused = nil
	return nil
}

// Period is the number of the budget period, from 1, and the number of its runs; 0 without a
// privacy guarantee.
func (b *Budget) Period() (number, runs int) {
	if b == nil {
		return 0, 0
	}
	return b.ledger.Period()
}

// Lost reports that a repair lost entries of the budget period: what was spent is unknown.
func (b *Budget) Lost() bool { return b != nil && b.ledger.Lost() }

// WasRepaired reports that a repair lost entries, also in an earlier budget period.
func (b *Budget) WasRepaired() bool { return b != nil && b.ledger.LostLine() >= 0 }

// Paid are the entries of a run, one by one.
func (b *Budget) Paid(run string) []account.Event {
	if b == nil {
		return nil
	}
	return b.ledger.EventsOf(run)
}

// Events are the entries of the budget period that paid for a release that somebody saw.
func (b *Budget) Events() []account.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.unused) == 0 {
		return b.ledger.Events()
	}
	left := slices.Clone(b.unused)
	var out account.Spent
	for _, e := range b.ledger.Since(b.ledger.PeriodLine()) {
		if i := slices.Index(left, e); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		if err := out.Spend(e); err != nil {
			return b.ledger.Events() // all entries are never too few
		}
	}
	return out.Events()
}

// All are all entries of the budget period, also the unused ones.
func (b *Budget) All() []account.Event {
	if b == nil {
		return nil
	}
	return b.ledger.Events()
}

// Lines is the number of lines of the ledger.
func (b *Budget) Lines() int {
	if b == nil {
		return 0
	}
	return b.ledger.Len()
}

// Head is the number of lines of the ledger and the hash of the last one.
func (b *Budget) Head() (lines int, hash []byte) {
	if b == nil {
		return 0, nil
	}
	return b.ledger.Head()
}

// HasHead reports whether the last one of a number of lines has a hash: the ledger continues the one of
// which Head returned both.
func (b *Budget) HasHead(lines int, hash []byte) bool {
	if b == nil {
		return lines == 0
	}
	return b.ledger.HasHead(lines, hash)
}

// Unpublish records that no version was published at the announced lines from a number on, and returns them. HasHead
// does not know them any more: only another copy of the folder can have published one.
func (b *Budget) Unpublish(from int, salts []string) (lines []int, err error) {
	return b.ledger.Unpublish(from, salts)
}

// Reclaim makes the entries of unpublished lines unused, unless they were never to be repeated. The caller knows that
// nobody saw their releases.
func (b *Budget) Reclaim(lines []int, neverRepeated func(account.Event) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range lines {
		e, ok := b.ledger.EventAt(line)
		if ok && line >= b.ledger.PeriodLine() && !neverRepeated(e) {
			b.unused = append(b.unused, e)
		}
	}
}

// DropUnused makes all unused entries count as spent.
func (b *Budget) DropUnused() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unused = nil
}

// Unused is the number of unused entries.
func (b *Budget) Unused() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.unused)
}

// Check returns an error if the ledger has fewer lines than were written.
func (b *Budget) Check(lines int) error {
	if b == nil || b.ledger.Len() >= lines {
		return nil
	}
	return &store.Damage{
		Where: File,
		What: fmt.Sprintf("has %d lines, and %d were written: the budget spent is unknown, so nothing may be released",
			b.ledger.Len(), lines),
		Hint: hint(b.dir),
	}
}
