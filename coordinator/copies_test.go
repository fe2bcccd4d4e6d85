package coordinator

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// show checks in as a device that holds a model, and shows it if it is asked to.
func (h *testDevice) show(held *pb.SignedManifest) (asked bool, last *pb.CheckInResponse) {
	h.t.Helper()
	m := &pb.Manifest{}
	if err := proto.Unmarshal(held.Body, m); err != nil {
		h.t.Fatal(err)
	}
	q := &pb.CheckInRequest{ModelVersion: m.Version, LedgerLines: m.LedgerLines, LedgerHead: m.LedgerHead}
	for {
		a, err := h.CheckIn(context.Background(), q)
		if err != nil {
			h.t.Fatal(err)
		}
		if !a.ShowHeld || asked {
			return asked, a
		}
		asked, q.Held = true, held
	}
}

// Two copies of a state folder train to the same version with other devices. The first device that comes to the
// other copy stops it, whether its version is as new, older, or no longer on disk.
func TestACopiedFolderIsNoticed(t *testing.T) {
	s := withDP(small(3), runsDP)
	s.Rounds = 20
	old, _, held := restoredFolder(t, s) // after 2 of 4 rounds
	for _, rounds := range []int{4, 5, 14} {
		dir := copyDir(t, old)
		r := open(t, dir, nil, nil)
		d := r.enrolled(3)
		r.play(d, rounds)
		own := r.held()
		if asked, _ := d[1].show(own); asked {
			t.Error("a device that holds the newest model is asked to show it")
		}
		asked, a := d[0].show(held)
		if !asked || a.Manifest != nil || a.GetTask() != nil {
			t.Errorf("after round %d a device of the other copy is asked: %t; it gets %v", rounds, asked, a)
		}
		r.waitState(Outdated)
		if m := r.c.Status().Message; !strings.Contains(m, "another copy") || !strings.Contains(m, "reset-budget") {
			t.Errorf("the operator reads %q", m)
		}
		for _, h := range d[:2] {
			if w := h.check().GetWait(); strings.Contains(w.GetReason(), "tacit admin") || w.GetReason() == "" {
				t.Errorf("a device shows its user %q", w.GetReason())
			}
		}
		if rounds != 4 {
			r.stop()
			continue
		}
		if err := r.c.ResetBudget("two copies ran"); err != nil {
			t.Fatal(err)
		}
		r.waitState(Training)
		for _, m := range []*pb.SignedManifest{held, own} { // both kinds of devices take part again
			if _, a := d[0].show(m); a.Manifest == nil || r.c.Status().State == Outdated {
				t.Errorf("after the reset: %v, state %s", a, r.c.Status().State)
			}
		}
		if m, _ := r.model(); m.Rollbacks == 0 || m.BudgetPeriod != 2 {
			t.Error("devices would not answer a round that the other copy has asked for")
		}
		r.play(d, rounds+1)
		r.stop()
	}
}

// Copies of a folder continue a tree, or a round that a ledger line has paid for already, with noise of their own
// and with a line of their own in the ledger.
func TestCopiesOfATreeShareNoNewNoise(t *testing.T) {
	s := withDP(small(4), "epsilon=30,delta=1e-3,clip=0.5,mechanism=tree")
	s.Cohort.Kind, s.Cohort.Count = "cycle", 1
	s.Rounds, s.Deterministic = 8, false
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(4), 1)
	r.stop()
	var bits [2]string
	var held [2]*pb.SignedManifest
	for i, at := range []string{copyDir(t, dir), dir} {
		r = open(t, at, nil, nil)
		r.play(r.enrolled(4), 2)
		_, bits[i] = r.model()
		held[i] = r.held()
		if i == 0 {
			r.stop()
		}
	}
	if bits[0] == bits[1] {
		t.Error("two copies released other rounds with the same noise")
	}
	if asked, _ := r.newDeviceOf(0).show(held[0]); !asked {
		t.Error("a copy of a tree is not noticed")
	}
	r.waitState(Outdated)
	if err := r.c.ResetBudget("two copies ran"); err != nil {
		t.Fatal(err)
	}
	r.waitState(Stopped)
	if err := r.c.BeginNext(); err != nil { // as its message says
		t.Error(err)
	}
	r.play(r.enrolled(4), 1)
}

// A folder is copied between the ledger line of a round and its version. The copy releases the round again, with other
// noise and without another payment. A device that holds the version of the original stops it, also after a restart.
func TestACopyMadeBetweenALineAndItsVersionIsNoticed(t *testing.T) {
	t.Parallel()
	tree := withDP(small(4), "epsilon=30,delta=1e-3,clip=0.5,mechanism=tree")
	tree.Cohort.Kind, tree.Cohort.Count, tree.Deterministic = "cycle", 1, false
	for _, s := range []Settings{withDP(small(4), runsDP), tree} {
		s.Rounds = 8
		dir := filepath.Join(t.TempDir(), "state")
		var other string
		r := open(t, dir, &s, func(o *Options) {
			o.fault = func(at string) error {
				if at == "stepped" && other == "" {
					other = copyDir(t, dir)
				}
				return nil
			}
		})
		r.play(r.enrolled(4), 1)
		held := r.held()
		r.stop()
		for range 2 {
			r = open(t, other, nil, nil)
			r.play(r.enrolled(4), 1)
			own := r.held()
			if asked, _ := r.newDeviceOf(1).show(own); asked {
				t.Error("a device of the copy is asked to show its model")
			}
			r.stop()
		}
		r = open(t, other, nil, nil)
		if asked, _ := r.newDeviceOf(0).show(held); !asked {
			t.Error("a device of the original is not asked to show its model")
		}
		r.waitState(Outdated)
		if n := r.c.budget.Unused(); n != 0 {
			t.Errorf("%d ledger lines are unused", n)
		}
		r.stop()
	}
}

// Ledger lines that another copy of the folder has written pay for nothing here.
func TestLinesOfAnotherCopyAreNotReclaimed(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds = 12
	old, newest, _ := restoredFolder(t, s) // after 2 of 4 rounds
	copyFiles(t, newest, old, budget.File)
	r := open(t, old, nil, nil)
	if n := r.c.budget.Unused(); n != 0 {
		t.Errorf("%d ledger lines are unused", n)
	}
	r.play(r.enrolled(3), 4)
	if n := paidRounds(r); n != 6 {
		t.Errorf("6 rounds were released, and the ledger has %d", n)
	}
}

// A folder that has released a round of its own gets the newest ledger, which lacks that round: it notices this itself.
// The reset that ends it says that releases are missing, so the cost of devices that were there is unknown.
func TestAReplacedLedgerLacksTheFoldersOwnReleases(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds = 12
	old, newest, held := restoredFolder(t, s) // after 2 of 4 rounds
	r := open(t, old, nil, nil)
	d := r.enrolled(3)
	r.play(d, 3)
	d[0].show(held)
	r.waitState(Outdated)
	r.stop()
	copyFiles(t, newest, old, budget.File, models.PublishedFile)
	r = open(t, old, nil, nil)
	r.waitState(Outdated)
	if m := r.c.Status().Message; !strings.Contains(m, "newest ledger.jsonl") || !strings.Contains(m, "reset-budget") {
		t.Errorf("the operator reads %q", m)
	}
	if err := r.c.ResetBudget("two copies ran"); err != nil {
		t.Fatal(err)
	}
	r.play(r.enrolled(3), 4)
	if epsilon, ok := r.c.DeviceEpsilon(0); ok {
		t.Errorf("the cost of a device that both copies have asked is shown as %g", epsilon)
	}
	if _, err := r.newDevice("later").enrol(r.token); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.c.DeviceEpsilon(3); !ok {
		t.Error("the cost of a device that enrolled after the reset is unknown")
	}
}

// A repair loses the lines of resets. The next reset gets beyond the budget period that devices know.
func TestAResetAfterLostResets(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds = 12
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(3)
	for rounds := range 2 {
		r.play(d, rounds+1)
		if err := r.c.ResetBudget("a test"); err != nil {
			t.Fatal(err)
		}
	}
	r.play(d, 3)
	r.stop()
	file := filepath.Join(dir, budget.File)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.IndexByte(b, '\n')+40] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(dir); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir, nil, nil)
	r.waitState(BudgetSpent)
	if err := r.c.ResetBudget("a test"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new period", func() bool { m, _ := r.model(); return m.BudgetPeriod == 4 })
	r.play(r.enrolled(3), 4)
}

// copyFiles replaces files of a folder by those of another.
func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// paidRounds is the number of rounds of the budget period that the ledger has.
func paidRounds(r *harness) (n int64) {
	for _, e := range r.c.budget.All() {
		n += e.Rounds
	}
	return n
}

// newDeviceOf is a device that is enrolled already.
func (r *harness) newDeviceOf(id uint32) *testDevice {
	h := r.newDevice(int(id))
	h.id = id
	return h
}

// A tree that is stopped after each round keeps the keys of the nodes whose noise is in the model, and of no others.
// The test of package noise shows that a key gives the same noise again.
func TestATreeContinuesAfterRestarts(t *testing.T) {
	s := withDP(small(4), "epsilon=30,delta=1e-3,clip=0.5,mechanism=tree")
	s.Cohort.Kind, s.Cohort.Count = "cycle", 1
	s.Rounds, s.Deterministic = 4, false
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	for rounds, nodes := range []int{1: 1, 2: 1, 3: 2, 4: 1} { // the binary digits of the number of rounds
		if rounds == 0 {
			continue
		}
		r.play(r.enrolled(4), rounds)
		saved := r.c.models.Newest().TreeNoise
		r.stop()
		if n := bytes.Count(saved, []byte(`"key"`)); n != nodes {
			t.Errorf("%d nodes are kept after round %d, want %d", n, rounds, nodes)
		}
		r = open(t, dir, nil, nil)
		if !bytes.Equal(r.c.noise.NodeBytes(), saved) {
			t.Errorf("the noise after round %d is lost in a restart", rounds)
		}
	}
}

// A backup from before the first run with a privacy guarantee has no ledger. A device that holds a model of a later
// run stops it.
func TestARestoredFolderWithoutALedger(t *testing.T) {
	s := small(3)
	s.Rounds = 1
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(3), 1)
	r.waitState(Finished)
	r.stop()
	old := copyDir(t, dir)
	r = open(t, dir, nil, nil)
	private := withDP(s, runsDP)
	if err := r.c.BeginRun(&private, nil); err != nil {
		t.Fatal(err)
	}
	r.play(r.enrolled(3), 1)
	held := r.held()
	r.stop()

	r = open(t, old, nil, nil)
	d := r.enrolled(3)
	d[0].show(held)
	r.waitState(Outdated)
	r.stop()
	r = open(t, old, nil, nil)
	r.waitState(Outdated)
	if err := r.c.BeginNext(); err == nil {
		t.Error("a run without a privacy guarantee begins")
	}
	if err := r.c.ResetBudget("the newest backup was lost"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new period", func() bool { m, _ := r.model(); return m.BudgetPeriod == 2 })
	if m, _ := r.model(); m.Version <= versionOf(t, held) || m.RunNumber < 2 {
		t.Errorf("version %d of run %d: devices would refuse it", m.Version, m.RunNumber)
	}
}

// Devices that enrolled after the backup are unknown to the restored folder. Their proof counts all the same, without
// a token; a forged one does not.
func TestAnUnknownDeviceProvesThatAFolderIsOld(t *testing.T) {
	t.Parallel()
	old, _, held := restoredFolder(t, withDP(small(3), runsDP))
	r := open(t, old, nil, nil)
	r.enrolled(3)
	h := r.newDevice("enrolled after the backup")
	forged := proto.Clone(held).(*pb.SignedManifest)
	forged.Body[len(forged.Body)-1] ^= 1
	enrol := func(held *pb.SignedManifest) {
		_, err := h.Enrol(context.Background(), &pb.EnrolRequest{Key: h.key.Public().(ed25519.PublicKey), Held: held})
		r.refused(err, rpc.BadToken)
	}
	enrol(forged)
	r.c.mu.Lock()
	shown := r.c.shown
	r.c.mu.Unlock()
	if shown != nil || r.c.Status().State == Outdated {
		t.Error("a forged manifest is a proof")
	}
	enrol(held)
	r.waitState(Outdated)
	if st := r.c.Status(); st.Enrolled != 3 {
		t.Errorf("%d devices are enrolled", st.Enrolled)
	}
}
