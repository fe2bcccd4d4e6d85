package coordinator

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

// damageFile changes a file of a folder.
func damageFile(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// blocks are the files of a folder that hold what was written, the largest stream first.
func blocks(t *testing.T, dir, stream string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") && strings.Contains(path, string(filepath.Separator)+stream+
			string(filepath.Separator)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	return out
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// mend expects damage at a start, repairs, and starts.
func mend(t *testing.T, dir string) (*harness, *store.Report) {
	t.Helper()
	_, err := tryOpen(t, dir, nil, nil)
	var d *store.Damage
	if !errors.As(err, &d) || d.Where == "" || !strings.Contains(d.Hint, "tacit serve") {
		t.Fatalf("a damaged folder opens with %v", err)
	}
	t.Logf("damage: %v", err)
	report, err := Repair(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tryOpen(t, dir, nil, nil)
	if err != nil {
		t.Fatalf("after the repair (%q lost): %v", report.Lost, err)
	}
	return r, report
}

// Flipped bits and truncated files, in finished and unfinished runs: a start reports them and the
// command to type, the repair lists what is lost, and the run resumes. Devices accept the versions
// that follow, and report in repeated rounds.
func TestDamageIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	s := small(4)
	s.Rounds = 6
	whole := filepath.Join(t.TempDir(), "state")
	r := open(t, whole, &s, nil)
	d := r.enrolled(4)
	r.play(d, 3)
	task := d[0].task()
	if _, err := d[0].report(task); err != nil { // half a round
		t.Fatal(err)
	}
	before, _ := r.model()
	r.stop()
	last := d[0].last
	for name, change := range map[string]func(dir string){
		"the index is cut": func(dir string) { cutTail(t, blocks(t, dir, "index"), 0.4) },
		"a bit of the index": func(dir string) {
			damageFile(t, blocks(t, dir, "index")[0], func(b []byte) []byte {
				b[bytes.LastIndex(b, []byte(`":`))] ^= 1 // in a value: a frame of JetStream alone loses nothing
				return b
			})
		},
		"a bit of a blob":   func(dir string) { flip(t, blocks(t, dir, "blob"), 0.95) },
		"the blobs are cut": func(dir string) { cutTail(t, blocks(t, dir, "blob"), 0.1) },
		"the mark":          func(dir string) { flip(t, []string{filepath.Join(dir, models.PublishedFile)}, 0.5) },
		"no mark":           func(dir string) { os.Remove(filepath.Join(dir, models.PublishedFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, whole)
			change(dir)
			r, report := mend(t, dir)
			if len(report.Lost) == 0 {
				t.Error("the repair reports no loss")
			}
			t.Logf("lost: %q", report.Lost)
			m, _ := r.model()
			back := r.c.Status().Round < int(before.Round)
			if m.Version <= before.Version && (back || strings.Contains(name, "mark")) {
				t.Errorf("version %d was told to devices, and the newest is %d: they do not take it", before.Version,
					m.Version)
			}
			if back && m.Rollbacks <= before.Rollbacks {
				t.Errorf("after %d turns there are %d: devices do not answer rounds again", before.Rollbacks,
					m.Rollbacks)
			}
			again := make([]*testDevice, 4)
			for i := range again { // a repair may have lost enrolments
				again[i] = r.newDevice(i)
				if _, err := again[i].enrol(r.token, uint32(i)); err != nil {
					t.Fatal(err)
				}
			}
			again[0].last = last
			if back {
				waitFor(t, "a round", func() bool { n, sum := r.sums(); return sum != nil || n > 0 })
				again[0].check()
				again[0].check()
				if n := r.c.Status().Lost; n != 1 {
					t.Errorf("one acknowledged report is lost, and %d are noticed", n)
				}
			}
			r.play(again, s.Rounds)
		})
	}
}

func flip(t *testing.T, files []string, at float64) {
	t.Helper()
	damageFile(t, files[len(files)-1], func(b []byte) []byte {
		b[int(at*float64(len(b)))] ^= 0x10
		return b
	})
}

func cutTail(t *testing.T, files []string, share float64) {
	t.Helper()
	damageFile(t, files[len(files)-1], func(b []byte) []byte { return b[:int((1-share)*float64(len(b)))] })
}

// If the ledger is shorter than it was, or missing, nothing may be released.
func TestAShortLedgerIsRefused(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), "epsilon=20,delta=1e-3,clip=0.5")
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(3), 3)
	r.stop()
	path := filepath.Join(dir, budget.File)
	for name, change := range map[string]func(b []byte) []byte{
		"a line less": func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] },
		"empty":       func(b []byte) []byte { return nil },
		"half a line": func(b []byte) []byte { return b[:20] },
		"a bit":       func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		copied := copyDir(t, dir)
		damageFile(t, filepath.Join(copied, budget.File), change)
		_, err := tryOpen(t, copied, nil, nil)
		var d *store.Damage
		if !errors.As(err, &d) || d.Where != budget.File {
			t.Errorf("%s: it opens with %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(t, dir, nil, nil); err == nil {
		t.Error("without its ledger it opens")
	}
}

// A crash while the ledger is created leaves half of its first line: nothing was released, so a run can begin.
func TestARunBeginsAfterHalfAFirstLine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, nil, nil)
	if err := os.WriteFile(filepath.Join(dir, budget.File), []byte(`{"n":0,"before":"","has`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := withDP(small(3), "epsilon=20,delta=1e-3,clip=0.5")
	if err := r.c.BeginRun(&s, stock(10)); err != nil {
		t.Fatal(err)
	}
	r.play(r.enrolled(3), 1)
	r.stop()
	if r = open(t, dir, nil, nil); r.paid() != 1 {
		t.Errorf("%d releases are paid for, want 1", r.paid())
	}
}

// After a repair that takes the model back no noise is drawn twice, the ledger has what it
// had and more, and cohorts are others.
func TestARepairUsesNoNoiseTwice(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=100,delta=1e-3,clip=0.5")
	s.Deterministic, s.Rounds = false, 6
	dir := filepath.Join(t.TempDir(), "state")
	drawn := map[string]string{}
	look := func(r *harness, when string) {
		t.Helper()
		for round := range s.Rounds {
			b := make([]byte, 16)
			if _, err := r.c.engine.Random(privacy.Node{Index: round}, 0).Read(b); err != nil {
				t.Fatal(err)
			}
			if other, twice := drawn[string(b)]; twice {
				t.Errorf("the noise of %s is that of %s", when, other)
			}
			drawn[string(b)] = when
		}
	}
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(4), 4)
	look(r, "before")
	seed, lines := r.c.groupSeed(), r.c.budget.Lines()
	r.stop()
	cutTail(t, blocks(t, dir, "index"), 0.4)
	r, report := mend(t, dir)
	t.Logf("lost: %q", report.Lost)
	if n := r.c.Status().Round; n >= 4 {
		t.Fatalf("%d rounds are left: the test wants some lost", n)
	}
	if r.c.budget.Lines() < lines || r.c.budget.Unused() != 0 {
		t.Errorf("the ledger had %d lines and has %d, of which %d are used again", lines, r.c.budget.Lines(),
			r.c.budget.Unused())
	}
	if r.c.groupSeed() == seed {
		t.Error("the cohorts are those of before")
	}
	var again []*testDevice
	for i := range 4 {
		h := r.newDevice(i)
		if _, err := h.enrol(r.token, uint32(i)); err != nil {
			t.Fatal(err)
		}
		again = append(again, h)
	}
	r.play(again, r.c.Status().Round+1)
	look(r, "after")
	if st := r.c.Status(); !st.LedgerOK || r.c.budget.Lines() != lines+1 {
		t.Errorf("the ledger had %d lines, and a round later it has %d", lines, r.c.budget.Lines())
	}
}

// A tree that lost rounds releases nothing more: its noise would be taken off itself.
func TestATreeThatLostRoundsStops(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=100,delta=1e-3,clip=0.5,mechanism=tree")
	s.Deterministic, s.Rounds = false, 6
	s.Cohort.Kind, s.Cohort.Count = "cycle", 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(4), 4)
	r.stop()
	cutTail(t, blocks(t, dir, "index"), 0.4)
	r, _ = mend(t, dir)
	for range 2 {
		waitFor(t, "the end", func() bool { return strings.Contains(r.c.Status().Message, "tree") })
		if _, err := r.admin.Status(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.stop()
		r = open(t, dir, nil, nil) // and so it stays
	}
}
