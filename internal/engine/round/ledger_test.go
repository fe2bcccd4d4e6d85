package round

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy/account"
)

// release is an event of one round.
func release(noise float64) account.Event {
	return account.Event{
		Mechanism: account.Gaussian, Adjacency: account.ZeroOut, Sampler: account.Poisson, Q: 0.1,
		Noise: noise, Rounds: 1,
	}
}

func openLedger(t testing.TB, path string) *Ledger {
	t.Helper()
	l, err := OpenLedger(path, "this run")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// written returns a ledger with that many releases, as a file and as bytes.
func written(t testing.TB, noise ...float64) (path string, b []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.jsonl")
	l := openLedger(t, path)
	for _, z := range noise {
		if err := l.Spend(release(z)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, b
}

func rounds(events []account.Event) (n int64) {
	for _, e := range events {
		n += e.Rounds
	}
	return n
}

func TestALedgerHoldsWhatWasSpentWhenItIsOpenedAgain(t *testing.T) {
	path, _ := written(t, 1, 1, 2)
	for range 3 {
		l := openLedger(t, path)
		if got := rounds(l.Events()); got != 3 || len(l.Events()) != 2 {
			t.Fatalf("the ledger has %d releases of %d kinds, want 3 of 2", got, len(l.Events()))
		}
		l.Close()
	}
	l := openLedger(t, path)
	defer l.Close()
	if err := l.Spend(release(1)); err != nil || rounds(l.Events()) != 4 {
		t.Errorf("%v, and then %d releases", err, rounds(l.Events()))
	}
	bad := release(1)
	bad.Adjacency = account.AddRemove
	if err := l.Spend(bad); err == nil || rounds(l.Events()) != 4 {
		t.Errorf("an event of another adjacency: %v, and then %d releases", err, rounds(l.Events()))
	}
}

// reread opens a ledger that holds b.
func reread(t testing.TB, b []byte, costliest ...account.Event) (*Ledger, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLedger(path, "this run", costliest...)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, path, err
}

// A crash may cut the last line anywhere (see chainlog). What is read then is at least what stood in whole lines, a
// release that was made is never lost, and the ledger can be appended to.
func TestATornLineIsNeverLessThanWhatWasSpent(t *testing.T) {
	_, b := written(t, 1, 1, 1)
	last := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	for _, cut := range []int{last, last + 1, last + 50, len(b) - 2, len(b) - 1, len(b)} {
		want := int64(3)
		if cut == last { // nothing of it was written: nothing was released
			want = 2
		}
		text := b[:cut]
		for again := range int64(3) {
			l, path, err := reread(t, text)
			if err != nil {
				t.Fatalf("cut at %d of %d, opened %d times before: %v", cut-last, len(b)-last, again, err)
			}
			if got := rounds(l.Events()); got != want+again {
				t.Fatalf("cut at %d of %d: %d releases, want %d", cut-last, len(b)-last, got, want+again)
			}
			if err := l.Spend(release(1)); err != nil {
				t.Fatal(err)
			}
			if text, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Where releases differ, half a line may have been of the dearest one.
func TestHalfALineCountsAsTheCostliestRelease(t *testing.T) {
	_, b := written(t, 1, 1)
	worst := release(1)
	worst.Noise /= 3
	l, _, err := reread(t, b[:len(b)-20], worst)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Events(); len(got) != 2 || got[1].Noise != worst.Noise || got[1].Rounds != 1 {
		t.Errorf("after half a line the ledger has %v, want one release of noise %g at its end", got, worst.Noise)
	}
}

// A ledger may be shorter, which a checkpoint knows. The tests of chainlog change every byte.
func TestADamagedLedgerIsRefused(t *testing.T) {
	path, b := written(t, 1, 2, 1)
	if _, err := OpenLedger(path, "another run"); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("another run's ledger: %v", err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, bad := range map[string][]byte{
		"changed": bytes.Replace(b, []byte(`"noise":2`), []byte(`"noise":3`), 1),
		"missing": slices.Concat(lines[0], lines[1], lines[3]),
		"other":   []byte("hello\n"),
	} {
		if _, _, err := reread(t, bad); err == nil || !strings.Contains(err.Error(), "nothing more may be released") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenLedger(t.TempDir(), "this run"); err == nil {
		t.Error("a folder is taken for a ledger")
	}
}

// A release may not be made if its line cannot be written, and it does not count.
func TestALineIsOnDiskBeforeItsReleaseMayBeMade(t *testing.T) {
	path, _ := written(t, 1)
	l := openLedger(t, path)
	l.Close() // so that writes fail
	if err := l.Spend(release(1)); err == nil || rounds(l.Events()) != 1 {
		t.Errorf("%v, and then %d releases", err, rounds(l.Events()))
	}
	if err := l.Spend(release(1)); err != nil || rounds(l.Events()) != 2 { // chainlog has opened the file again
		t.Errorf("%v, and then %d releases", err, rounds(l.Events()))
	}
	l.Close()
	if l = openLedger(t, path); rounds(l.Events()) != 2 {
		t.Errorf("%d releases on disk", rounds(l.Events()))
	}
	l.Close()
}
