package round

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/privacy/account"
)

// twoPeriods is a ledger of three runs: two releases of run a, one of run b, a reset during run b,
// one more of run b and two of run c, which have another adjacency.
func twoPeriods(t *testing.T) (path string, b []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.jsonl")
	l := openLedger(t, path)
	other := release(1)
	other.Adjacency, other.Sampler, other.Q = account.ReplaceOne, account.None, 1
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must(l.BeginRun("a", 1), l.Spend(release(1)), l.Spend(release(1)))
	must(l.BeginRun("b", 2), l.BeginRun("b", 2), l.Spend(release(2)))
	must(l.Reset(Reset{"the consent was renewed", time.Unix(1e9, 5)}, true, false), l.Spend(other))
	must(l.BeginRun("c", 3), l.Spend(other), l.Spend(other), l.Close())
	b, err := os.ReadFile(path)
	must(err)
	return path, b
}

func TestAResetBeginsABudgetPeriod(t *testing.T) {
	path, b := twoPeriods(t)
	for _, text := range []string{`"begins":2`, `"reason":"the consent was renewed","at":"2001-09-09T01:46:40Z"`} {
		if !strings.Contains(string(b), text) {
			t.Errorf("the ledger has no %s:\n%s", text, b)
		}
	}
	l := openLedger(t, path)
	defer l.Close()
	number, runs := l.Period()
	if number != 2 || runs != 2 || rounds(l.Events()) != 3 || l.Len() != 11 || l.Lost() {
		t.Errorf("period %d, %d runs, %d releases, %d lines", number, runs, rounds(l.Events()), l.Len())
	}
	for _, c := range []struct{ from, want int }{{0, 6}, {2, 6}, {3, 5}, {6, 3}, {7, 3}, {8, 2}, {10, 1}, {11, 0}} {
		if got := len(l.Since(c.from)); got != c.want {
			t.Errorf("%d releases since line %d, want %d", got, c.from, c.want)
		}
	}
	for run, want := range map[string]int{"a": 2, "b": 2, "c": 2, "d": 0} {
		if got := len(l.EventsOf(run)); got != want {
			t.Errorf("run %s has %d releases, want %d", run, got, want)
		}
	}
	if err := l.Reset(Reset{At: time.Unix(1, 0)}, false, false); err == nil {
		t.Error("a reset without a reason is accepted")
	}
	if err := l.Reset(Reset{"again", time.Unix(1, 0)}, false, false); err != nil || rounds(l.Events()) != 0 {
		t.Errorf("%v, and then %d releases", err, rounds(l.Events()))
	}
	if number, runs = l.Period(); number != 3 || runs != 0 {
		t.Errorf("period %d, %d runs", number, runs)
	}
}

// A crash may cut any line anywhere, also that of a reset or of a run. What is read then is never
// less than what was spent, and never a reset that the operator was not told of.
func TestATornPeriodIsNeverLessThanWhatWasSpent(t *testing.T) {
	_, b := twoPeriods(t)
	for cut := bytes.IndexByte(b, '\n'); cut < len(b); cut += 13 {
		l, path, err := reread(t, b[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := bytes.Count(b[:cut], []byte(`"event"`))
		if got := len(l.Since(0)); got < whole-1 {
			t.Fatalf("cut at %d: %d releases, and %d were recorded", cut, got, whole)
		}
		if number, _ := l.Period(); number == 2 && !bytes.Contains(b[:cut], []byte(`"reset"`)) {
			t.Fatalf("cut at %d: there was no reset", cut)
		}
		if again, err := OpenLedger(path, "this run"); err != nil || len(again.Since(0)) != len(l.Since(0)) {
			t.Fatalf("cut at %d: read again: %v", cut, err)
		}
	}
}

// A repair keeps the lines before the damage, and the budget counts as unknown until a reset.
func TestARepairedLedgerSaysThatLinesWereLost(t *testing.T) {
	_, b := twoPeriods(t)
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, damaged := range map[string][]byte{
		"a bit":   append(bytes.Replace(b, []byte(`"noise":2`), []byte(`"noise":3`), 1), nil...),
		"a line":  bytes.Join(append(append([][]byte{}, lines[:4]...), lines[5:]...), nil),
		"the end": bytes.Join(lines[:5], nil),
		"empty":   nil,
	} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if bad, err := RepairLedger(path, t.TempDir(), "this run", 11); !bad || err != nil {
			t.Fatalf("%s: damaged %t, %v", name, bad, err)
		}
		if bad, err := RepairLedger(path, t.TempDir(), "this run", 11); bad || err != nil {
			t.Fatalf("%s, repaired again: damaged %t, %v", name, bad, err)
		}
		l := openLedger(t, path)
		if !l.Lost() || l.Len() != 12 {
			t.Errorf("%s: %d lines, lost %t", name, l.Len(), l.Lost())
		}
		if err := l.Reset(Reset{"restored by hand", time.Unix(1, 0)}, false, false); err != nil || l.Lost() {
			t.Errorf("%s: after a reset: %v, lost %t", name, err, l.Lost())
		}
		l.Close()
		if l = openLedger(t, path); l.Lost() || l.Len() != 13 {
			t.Errorf("%s: opened again: %d lines, lost %t", name, l.Len(), l.Lost())
		}
		l.Close()
	}
	path, _ := twoPeriods(t)
	if bad, err := RepairLedger(path, t.TempDir(), "this run", 11); bad || err != nil {
		t.Errorf("an intact ledger: damaged %t, %v", bad, err)
	}
}

// Each repair keeps the file that it replaces: it may be the only record of what was spent.
func TestRepairsKeepEachDamagedLedger(t *testing.T) {
	path, b := twoPeriods(t)
	for _, replaced := range []string{"3", "4"} {
		damaged := bytes.Replace(b, []byte(`"noise":2`), []byte(`"noise":`+replaced), 1)
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		aside := t.TempDir()
		if bad, err := RepairLedger(path, aside, "this run", 11); !bad || err != nil {
			t.Fatalf("damaged %t, %v", bad, err)
		}
		kept, err := os.ReadFile(filepath.Join(aside, "ledger.jsonl"))
		if err != nil || !bytes.Equal(kept, damaged) {
			t.Errorf("kept %d bytes of %d, %v", len(kept), len(damaged), err)
		}
	}
	if all, err := filepath.Glob(path + "?*"); err != nil || len(all) > 0 {
		t.Errorf("files beside the ledger: %v, %v", all, err)
	}
}
