package round

import (
	"bytes"
	"errors"
	"io"
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

// paper is a file in memory.
type paper struct {
	b  []byte
	at int
}

func (p *paper) Read(b []byte) (int, error) {
	n := copy(b, p.b[p.at:])
	if p.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (p *paper) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	return len(b), nil
}
func (p *paper) Sync() error  { return nil }
func (p *paper) Close() error { return nil }

// reread opens a ledger that holds b.
func reread(b []byte) (*Ledger, *paper, error) {
	p := &paper{b: slices.Clone(b)}
	l := &Ledger{f: p, owner: "this run"}
	return l, p, l.load("ledger.jsonl")
}

// A crash may cut the last line anywhere. What is read then is at least what stood
// in whole lines, a release that was made is never lost, and the ledger can be appended to.
func TestATornLineIsNeverLessThanWhatWasSpent(t *testing.T) {
	_, b := written(t, 1, 1, 1)
	last := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	for cut := last; cut <= len(b); cut++ {
		want := int64(3)
		if cut == last { // nothing of it was written: nothing was released
			want = 2
		}
		text := b[:cut]
		for again := range int64(3) {
			l, p, err := reread(text)
			if err != nil {
				t.Fatalf("cut at %d of %d, opened %d times before: %v", cut-last, len(b)-last, again, err)
			}
			if got := rounds(l.Events()); got != want+again {
				t.Fatalf("cut at %d of %d: %d releases, want %d", cut-last, len(b)-last, got, want+again)
			}
			if err := l.Spend(release(1)); err != nil {
				t.Fatal(err)
			}
			text = p.b
		}
	}
}

// Where releases differ, half a line may have been of the dearest one.
func TestHalfALineCountsAsTheCostliestRelease(t *testing.T) {
	_, b := written(t, 1, 1)
	worst := release(1)
	worst.Noise /= 3
	l := &Ledger{
		f: &paper{b: b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+20]}, owner: "this run",
		costliest: []account.Event{worst},
	}
	if err := l.load("ledger.jsonl"); err != nil {
		t.Fatal(err)
	}
	if got := l.Events(); len(got) != 2 || got[1].Noise != worst.Noise || got[1].Rounds != 1 {
		t.Errorf("after half a line the ledger has %v, want one release of noise %g at its end", got, worst.Noise)
	}
}

// A crash while half a line is being mended leaves another half.
func TestACrashInAMendIsMendedToo(t *testing.T) {
	_, b := written(t, 1, 1)
	torn := b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+20]
	_, mended, err := reread(torn)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(torn); cut <= len(mended.b); cut++ {
		l, p, err := reread(mended.b[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut-len(torn), err)
		}
		if got := rounds(l.Events()); got != 2 {
			t.Errorf("cut at %d: %d releases, want 2", cut-len(torn), got)
		}
		if l, _, err = reread(p.b); err != nil || rounds(l.Events()) != 2 {
			t.Errorf("cut at %d, mended and read again: %v", cut-len(torn), err)
		}
	}
}

// The last line may look as if a crash had cut it; then something stands for it.
func TestADamagedLedgerIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	path, b := written(t, 1, 2, 1, 2, 1)
	last := bytes.LastIndexByte(b[:len(b)-1], '\n')
	for at := range b {
		for _, to := range []byte{b[at] ^ 1, b[at] ^ 0x20, b[at] ^ 0x80, '\n', ' ', '0', ',', '"', '{', '}'} {
			if b[at] == to {
				continue
			}
			bad := slices.Clone(b)
			bad[at] = to
			if l, _, err := reread(bad); err == nil && (at <= last || rounds(l.Events()) < 5) {
				t.Fatalf("byte %d of %d is %q instead of %q, and the ledger is taken with %d releases", at, len(b),
					bad[at], b[at], rounds(l.Events()))
			}
		}
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for i := range len(lines) - 2 { // all but the last: a ledger may be shorter, which a checkpoint knows
		bad := slices.Concat(bytes.Join(lines[:i], nil), bytes.Join(lines[i+1:], nil))
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenLedger(path, "this run"); err == nil {
			l.Close()
			t.Errorf("line %d is missing, and the ledger is taken", i+1)
		}
	}
}

func TestAnotherRunsLedgerAndOtherFilesAreRefused(t *testing.T) {
	path, b := written(t, 1)
	if _, err := OpenLedger(path, "another run"); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("another run's ledger: %v", err)
	}
	for _, text := range []string{"\n", "hello\n", "{}\n", "[1,2]\n", "\x00\x00", string(b[1:]), string(b[:10])} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenLedger(path, "this run"); err == nil {
			l.Close()
			t.Errorf("%q is taken for a ledger", text)
		}
	}
	if _, err := OpenLedger(t.TempDir(), "this run"); err == nil {
		t.Error("a folder is taken for a ledger")
	}
}

// disk is a file that tells what is done to it, and fails at the given call.
type disk struct {
	calls []string
	fails string
}

func (d *disk) do(call string) error {
	d.calls = append(d.calls, call)
	if call == d.fails {
		return errors.New("the disk is full")
	}
	return nil
}
func (d *disk) Read([]byte) (int, error)    { return 0, d.do("read") }
func (d *disk) Write(b []byte) (int, error) { return len(b), d.do("write") }
func (d *disk) Sync() error                 { return d.do("sync") }
func (d *disk) Close() error                { return nil }

func TestALineIsOnDiskBeforeItsReleaseMayBeMade(t *testing.T) {
	d := &disk{}
	l := &Ledger{f: d}
	if err := l.Spend(release(1)); err != nil || !slices.Equal(d.calls, []string{"write", "sync"}) {
		t.Errorf("%v after %v, want a write and then a sync", err, d.calls)
	}
	for _, fails := range []string{"write", "sync"} {
		d := &disk{fails: fails}
		l := &Ledger{f: d}
		if err := l.Spend(release(1)); err == nil {
			t.Errorf("%s fails, and the release may be made", fails)
		}
		d.fails = ""
		if err := l.Spend(release(1)); err == nil || len(l.Events()) != 0 {
			t.Errorf("after a %s that failed a line is written behind what may be half of one (%v)", fails, err)
		}
	}
}

func FuzzLedger(f *testing.F) {
	_, b := written(f, 1, 2, 1)
	for _, cut := range []int{0, 10, len(b) / 2, len(b) - 1, len(b)} {
		f.Add(b[:cut])
	}
	f.Add(append(slices.Clone(b), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &Ledger{owner: "this run"}
		if err := l.read(b); err != nil {
			return
		}
		one := rounds(l.Since(l.PeriodLine()))
		if one != rounds(l.Events()) || len(b) > 0 && l.n == 0 {
			t.Errorf("%d lines, %d releases one by one and %d together", l.n, one, rounds(l.Events()))
		}
	})
}
