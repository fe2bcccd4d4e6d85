package budget

import (
	"errors"
	"testing"

	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy/account"
)

func open(t *testing.T, dir string) *Budget {
	t.Helper()
	b, err := Open(dir, "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func release(rounds int64) account.Event {
	return account.Event{
		Mechanism: account.Gaussian, Adjacency: account.AddRemove, Sampler: account.None, Q: 1, Noise: 2,
		Rounds: rounds,
	}
}

// An entry whose release nobody saw pays for the next one of its kind, once.
func TestAnUnusedEntryPaysOnce(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	for range 2 {
		if err := b.Spend(release(1)); err != nil {
			t.Fatal(err)
		}
	}
	seen := b.Lines() - 1
	b = open(t, dir)
	b.Reclaim(seen, func(account.Event) bool { return false })
	if b.Unused() != 1 || total(b.Events()) != 1 || total(b.All()) != 2 {
		t.Fatalf("%d unused, %d rounds seen of %d", b.Unused(), total(b.Events()), total(b.All()))
	}
	lines := b.Lines()
	for i := range 2 {
		if err := b.Spend(release(1)); err != nil || b.Lines() != lines+i {
			t.Errorf("release %d: the ledger has %d lines, %v", i, b.Lines(), err)
		}
	}
	if b.Unused() != 0 || total(b.Events()) != 3 {
		t.Errorf("%d unused, %d rounds", b.Unused(), total(b.Events()))
	}
}

func TestEntriesThatAreNeverRepeatedAreNotReclaimed(t *testing.T) {
	b := open(t, t.TempDir())
	start := b.Lines()
	if err := b.SpendNew(release(1)); err != nil {
		t.Fatal(err)
	}
	b.Reclaim(start, func(account.Event) bool { return true })
	if b.Unused() != 0 {
		t.Errorf("%d unused", b.Unused())
	}
}

func TestAShortOrForeignLedgerIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	if err := b.Check(b.Lines()); err != nil {
		t.Error(err)
	}
	if err := b.Check(b.Lines() + 1); !errors.As(err, new(*store.Damage)) {
		t.Errorf("a short ledger: %v", err)
	}
	if _, err := Open(dir, "another run"); !errors.As(err, new(*store.Damage)) {
		t.Errorf("the ledger of another run: %v", err)
	}
}

// A run without a privacy guarantee has no ledger.
func TestANilBudgetIsEmpty(t *testing.T) {
	var b *Budget
	if b.Lines() != 0 || b.Unused() != 0 || b.All() != nil || b.Check(3) != nil || b.Close() != nil {
		t.Error("a nil budget is not empty")
	}
}

func total(events []account.Event) (rounds int64) {
	for _, e := range events {
		rounds += e.Rounds
	}
	return rounds
}
