package budget

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// announced keeps the salts of all lines that a budget announces.
func announced(b *Budget) *[]string {
	salts := new([]string)
	b.AnnounceWith(func(salt string) error {
		*salts = append(*salts, salt)
		return nil
	})
	return salts
}

// reclaim reclaims the announced lines from a number on.
func reclaim(t *testing.T, b *Budget, from int, salts []string, neverRepeated bool) {
	t.Helper()
	lines, err := b.Unpublish(from, salts)
	if err != nil {
		t.Fatal(err)
	}
	b.Reclaim(lines, func(account.Event) bool { return neverRepeated })
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
	salts := announced(b)
	if err := errors.Join(b.BeginRun("a", 1), b.Spend(release(1)), b.Spend(release(1))); err != nil {
		t.Fatal(err)
	}
	seen := b.Lines() - 1
	lost, hash := b.Head()
	b = open(t, dir)
	for range 2 { // also after a restart
		if reclaim(t, b, seen, nil, false); b.Unused() != 0 || !b.HasHead(lost, hash) != (b.Lines() > lost) {
			t.Errorf("%d lines of another folder are reclaimed", b.Unused())
		}
		if reclaim(t, b, seen, *salts, false); b.Lines() != lost+1 || b.HasHead(lost, hash) {
			t.Errorf("the ledger has %d lines, and knows the one at which nothing was published: %t", b.Lines(),
				b.HasHead(lost, hash))
		}
		if next, hash := b.Head(); !b.HasHead(next, hash) {
			t.Error("the ledger does not know its own head")
		}
		if b.Unused() != 1 {
			t.Fatalf("%d unused", b.Unused())
		}
		b = open(t, dir)
	}
	reclaim(t, b, seen, *salts, false)
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
	salts, start := announced(b), b.Lines()
	if err := errors.Join(b.BeginRun("a", 1), b.SpendNew(release(1))); err != nil {
		t.Fatal(err)
	}
	if reclaim(t, b, start, *salts, true); b.Unused() != 0 {
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
	if _, err := Open(dir, "another federation"); !errors.As(err, new(*store.Damage)) ||
		strings.Count(err.Error(), File) != 1 {
		t.Errorf("the ledger of another federation: %v", err)
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

// An entry that pays for a release was counted in its own budget period: after a reset it pays for none.
func TestAResetDropsUnusedEntries(t *testing.T) {
	b := open(t, t.TempDir())
	salts, start := announced(b), b.Lines()
	if err := errors.Join(b.BeginRun("a", 1), b.Spend(release(1)), b.Spend(release(1))); err != nil {
		t.Fatal(err)
	}
	reclaim(t, b, start, *salts, false)
	if b.Unused() != 2 || total(b.Events()) != 0 || total(b.All()) != 2 {
		t.Fatalf("%d unused, %d of %d seen", b.Unused(), total(b.Events()), total(b.All()))
	}
	if err := b.Reset("consent renewed", time.Unix(1e9, 0), true, false); err != nil {
		t.Fatal(err)
	}
	reclaim(t, b, start, *salts, false) // of the period before
	lines := b.Lines()
	if err := b.Spend(release(1)); err != nil || b.Lines() != lines+1 || total(b.All()) != 1 || b.Unused() != 0 {
		t.Errorf("%v, %d lines after %d, %d releases, %d unused", err, b.Lines(), lines, total(b.All()), b.Unused())
	}
	if number, runs := b.Period(); number != 2 || runs != 1 || total(b.Paid("a")) != 3 {
		t.Errorf("period %d, %d runs, %d releases of the run", number, runs, total(b.Paid("a")))
	}
}

// The cost of a device is that of the releases since it enrolled, over resets, as one by one.
func TestTheCostSinceALine(t *testing.T) {
	for _, o := range []account.Options{{}, {Accountant: account.PLD}} {
		b := open(t, t.TempDir())
		var from []int
		spend := func() {
			t.Helper()
			from = append(from, b.Lines())
			if err := b.Spend(release(1)); err != nil {
				t.Fatal(err)
			}
		}
		spend()
		spend()
		if err := b.Reset("test", time.Unix(1e9, 0), false, false); err != nil {
			t.Fatal(err)
		}
		from = append(from, b.Lines()) // enrolled between the reset and the next release
		spend()
		for i, releases := range []int64{3, 2, 1, 1} {
			want, err := account.Epsilon(1e-6, o, release(releases))
			if err != nil {
				t.Fatal(err)
			}
			got := b.EpsilonSince(from[i], 1e-6, o)
			if o.Accountant == account.PLD { // an upper bound
				if got < want.Epsilon-1e-9 || i == 0 && got > want.Epsilon+1e-9 {
					t.Errorf("pld: since line %d: %v, want at least %v", from[i], got, want.Epsilon)
				}
				continue
			}
			if math.Abs(got-want.Epsilon) > 1e-9 {
				t.Errorf("%v: since line %d: %v, want %v", o, from[i], got, want.Epsilon)
			}
		}
		if got := b.EpsilonSince(b.Lines(), 1e-6, o); got != 0 {
			t.Errorf("enrolled after all releases: %v", got)
		}
		// Another adjacency after another reset: the costs add up, each at half of delta.
		other := release(1)
		other.Adjacency = account.ReplaceOne
		if err := errors.Join(b.Reset("test", time.Unix(2e9, 0), false, false), b.Spend(other)); err != nil {
			t.Fatal(err)
		}
		one, _ := account.Epsilon(0.5e-6, o, release(1))
		two, _ := account.Epsilon(0.5e-6, o, other)
		got := b.EpsilonSince(from[3], 1e-6, o)
		if o.Accountant != account.PLD && math.Abs(got-one.Epsilon-two.Epsilon) > 1e-9 {
			t.Errorf("%v: two adjacencies: %v, want %v + %v", o, got, one.Epsilon, two.Epsilon)
		}
	}
}

// The error of a damaged ledger names two ways out, and the second one works.
func TestADamagedLedgerHasOneWayOut(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	if err := errors.Join(b.BeginRun("a", 1), b.Spend(release(1)), b.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, "run")
	for _, words := range []string{"tacit admin restore", "--repair", "tacit admin reset-budget"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q: %v", words, err)
		}
	}
	if damaged, err := Repair(dir, t.TempDir(), "run", 3); !damaged || err != nil {
		t.Fatalf("damaged %t, %v", damaged, err)
	}
	b = open(t, dir)
	if !b.Lost() || b.Check(3) != nil {
		t.Errorf("lost %t, %v", b.Lost(), b.Check(3))
	}
	if err := b.Reset("no backup was left", time.Unix(1e9, 0), false, false); err != nil || b.Lost() {
		t.Errorf("after a reset: %v, lost %t", err, b.Lost())
	}
	before := b.EpsilonSince(1, 1e-6, account.Options{})
	if after := b.EpsilonSince(b.Lines(), 1e-6, account.Options{}); !math.IsInf(before, 1) || after != 0 {
		t.Errorf("a device from before the loss: epsilon %v, one after the reset: %v", before, after)
	}
}

// The cost of the period is that of the accountant, and is computed again only when the ledger grows.
func TestTheCostOfThePeriodIsRemembered(t *testing.T) {
	b := open(t, t.TempDir())
	for range 3 {
		if err := b.Spend(release(1)); err != nil {
			t.Fatal(err)
		}
		want, err := account.Epsilon(1e-6, account.Options{}, b.All()...)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Epsilon(1e-6, account.Options{}); got != want.Epsilon {
			t.Errorf("epsilon %v, want %v", got, want.Epsilon)
		}
	}
	b.spent.epsilon = 42
	if got := b.Epsilon(1e-6, account.Options{}); got != 42 {
		t.Errorf("the cost was computed again: %v", got)
	}
	if got := b.Epsilon(1e-5, account.Options{}); got == 42 {
		t.Error("another delta costs the same")
	}
	if err := b.Reset("test", time.Unix(1e9, 0), false, false); err != nil {
		t.Fatal(err)
	}
	if got := b.Epsilon(1e-6, account.Options{}); got != 0 {
		t.Errorf("after a reset: %v", got)
	}
}
