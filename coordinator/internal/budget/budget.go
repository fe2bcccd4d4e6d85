// Package budget records what a run spends of its privacy budget, in a ledger on disk, before
// anything is released. It protects against replay: an entry that was written for a release that
// nobody saw, because the coordinator was killed, pays for one later release of the same kind, so
// no round is paid for twice and none is free. It never removes an entry.
package budget

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy/account"
)

// File is the name of the ledger in a state folder.
const File = "ledger.jsonl"

const hint = "start a new run in another folder: tacit serve --state FOLDER"

// Budget is the ledger of one run. Its methods may be called from many goroutines. A nil Budget is
// that of a run without a privacy guarantee: it is empty.
type Budget struct {
	ledger *round.Ledger

	mu     sync.Mutex
	unused []account.Event // written for releases that nobody saw
}

var _ account.Ledger = (*Budget)(nil)

// Open opens or creates the ledger of a run in a folder.
func Open(dir, run string) (*Budget, error) {
	l, err := round.OpenLedger(filepath.Join(dir, File), run)
	if err != nil {
		return nil, &store.Damage{Where: File, What: err.Error(), Hint: hint}
	}
	return &Budget{ledger: l}, nil
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.unused, e); i >= 0 {
		b.unused = slices.Delete(b.unused, i, i+1)
		return nil
	}
	return b.ledger.Spend(e)
}

// SpendNew pays with a new entry, for a release that is never repeated.
func (b *Budget) SpendNew(e account.Event) error { return b.ledger.Spend(e) }

// Events are the entries that paid for a release that somebody saw.
func (b *Budget) Events() []account.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.unused) == 0 {
		return b.ledger.Events()
	}
	left := slices.Clone(b.unused)
	var out account.Spent
	for _, e := range b.ledger.Since(0) {
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

// All are all entries, also the unused ones.
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

// Reclaim makes the entries that follow a number of lines unused, unless they were never to be
// repeated. The caller knows that nobody saw their releases.
func (b *Budget) Reclaim(lines int, neverRepeated func(account.Event) bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.ledger.Since(lines) {
		if !neverRepeated(e) {
			b.unused = append(b.unused, e)
		}
	}
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
		Hint: hint,
	}
}
