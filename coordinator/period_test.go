package coordinator

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/account"
)

const runsDP = "epsilon=20,delta=1e-3,clip=0.5"

// Two runs share the budget: together they cost at most its epsilon. A third one waits for a reset,
// which begins another period. A device's cost is that of the releases since it enrolled.
func TestRunsShareOneBudget(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds, s.Runs = 2, 2
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(3)
	run := func() {
		t.Helper()
		r.play(d, 2)
		r.waitState(Finished)
	}
	run()
	half := *r.c.Status().Epsilon
	late := r.newDevice("late")
	if _, err := late.enrol(r.token, 3); err != nil {
		t.Fatal(err)
	}
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	if m, _ := r.model(); m.BudgetPeriod != 1 || m.RunInPeriod != 2 || r.planOf().Runs != 2 {
		t.Errorf("period %d, run %d of %d", m.BudgetPeriod, m.RunInPeriod, r.planOf().Runs)
	}
	d = append(d, late)
	run()
	st := r.c.Status()
	if e := *st.Epsilon; e > 20 || e < 0.99*20 || half >= e || *st.BudgetEpsilon != 20 || *st.Delta != 1e-3 {
		t.Errorf("the first run cost epsilon %v, both %v", half, e)
	}
	first, _ := r.c.DeviceEpsilon(0)
	second, _ := r.c.DeviceEpsilon(3)
	if math.Abs(first-*st.Epsilon) > 1e-9 || math.Abs(second-half) > 1e-9 {
		t.Errorf("the first device's epsilon is %v, and that of the late one %v: want %v and %v", first, second,
			*st.Epsilon, half)
	}
	if err := r.c.BeginNext(); err == nil || !strings.Contains(err.Error(), "tacit admin reset-budget") {
		t.Errorf("a third run: %v", err)
	}
	for want, change := range map[string]func(s *Settings){
		"method = fedavg": func(s *Settings) { s.Method = "fedavg" },
		"dim=4":           func(s *Settings) { s.Params = map[string]string{"dim": "4"} },
		"devices = 4":     func(s *Settings) { s.Devices = 4 },
		"server rate = 2": func(s *Settings) { s.Server.Rate = 2 },
	} {
		other := s
		change(&other)
		if err := r.c.checkPeriod(&other); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "reset-budget") {
			t.Errorf("%s: %v", want, err)
		}
	}
	other := s
	other.Rounds = 3
	if err := r.c.BeginRun(&other, nil); err == nil || !strings.Contains(err.Error(), "rounds = 3") {
		t.Errorf("other rounds in the same period: %v", err)
	}
	if err := r.c.ResetBudget(" "); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("a reset without a reason: %v", err)
	}
	if err := r.c.ResetBudget("consent was renewed"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the period", func() bool { m, _ := r.model(); return m.BudgetPeriod == 2 })
	if err := r.c.BeginRun(&other, nil); err != nil {
		t.Fatal(err)
	}
	if m, _ := r.model(); m.RunInPeriod != 1 || m.RunNumber != 3 || *r.c.Status().Epsilon != 0 {
		t.Errorf("run %d of the period, %d in all: epsilon %v", m.RunInPeriod, m.RunNumber, *r.c.Status().Epsilon)
	}
	r.play(d, 3)
	r.waitState(Finished)
	total, _ := r.c.DeviceEpsilon(0)
	if st := r.c.Status(); total <= first || *st.Epsilon >= total || !st.LedgerOK {
		t.Errorf("over the reset the first device's epsilon is %v after %v; the period's is %v", total, first,
			*st.Epsilon)
	}
	if _, ok := r.c.DeviceEpsilon(77); ok {
		t.Error("an unknown device has an epsilon")
	}
	r.stop()
	r = open(t, dir, nil, nil)
	if again, _ := r.c.DeviceEpsilon(0); math.Abs(again-total) > 1e-9 {
		t.Errorf("after a restart the device's epsilon is %v, want %v", again, total)
	}
}

// The ledger of runs, composed independently, costs what status says.
func TestTheLedgerOfRunsIsWhatStatusSays(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=30,delta=1e-3,clip=0.5,mechanism=tree")
	s.Cohort.Kind, s.Cohort.Count = "cycle", 2
	s.Rounds, s.Runs, s.Deterministic = 3, 2, false
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	r.play(d, 3)
	r.waitState(Finished)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 3)
	r.waitState(Finished)
	var all []account.Event
	for range 2 { // each run starts two trees, of two rounds and of one
		for _, nodes := range []float64{2, 1} {
			all = append(all, account.Event{
				Mechanism: account.Tree, Adjacency: account.ZeroOut, Sampler: account.None, Q: 1, Nodes: nodes,
				Noise: r.c.engine.Stack.Noise, Rounds: 1,
			})
		}
	}
	want, err := account.Epsilon(1e-3, account.Options{}, all...)
	if got := *r.c.Status().Epsilon; err != nil || math.Abs(got-want.Epsilon) > 1e-9 || got > 30 {
		t.Errorf("status says epsilon %v, composed one by one it is %v (%v)", got, want.Epsilon, err)
	}
}

// A given noise multiplier that does not last is announced when the run begins, and its end is logged.
func TestABudgetThatEndsEarlyIsAnnounced(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), "epsilon=8,delta=1e-3,clip=0.5,noise=1.2")
	s.Rounds = 12
	var mu sync.Mutex
	var warnings []string
	said := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, text) })
	}
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.Warn = func(w string) { mu.Lock(); warnings = append(warnings, w); mu.Unlock() }
	})
	if !said("the budget is 8: training stops when it is spent") {
		t.Errorf("warnings: %q", warnings)
	}
	d := r.enrolled(3)
	for n := 1; r.c.Status().State != BudgetSpent && n <= s.Rounds; n++ {
		var wg sync.WaitGroup
		for _, h := range d {
			wg.Go(func() {
				waitFor(t, "a round", func() bool {
					if task := h.check().GetTask(); task != nil {
						_, _ = h.report(task)
					}
					st := r.c.Status()
					return st.Round >= n || st.State == BudgetSpent
				})
			})
		}
		wg.Wait()
	}
	st := r.c.Status()
	if st.State != BudgetSpent || st.Round >= s.Rounds || *st.Epsilon > 8 ||
		!said("the privacy budget is spent after round") {
		t.Errorf("%s after round %d, epsilon %v: %q", st.State, st.Round, *st.Epsilon, warnings)
	}
}

// After a repair that lost ledger entries nothing is released until the budget is reset: the error, the
// repair and the state name the same way out.
func TestALostLedgerNeedsAReset(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(3), 2)
	lines, head := r.c.budget.Head()
	r.stop()
	for name, change := range map[string]func(path string) error{
		"cut": func(path string) error { // two lines: half of one would be the work of a crash, which is mended
			b, err := os.ReadFile(path)
			lines := bytes.SplitAfter(b, []byte("\n"))
			return errors.Join(err, os.WriteFile(path, bytes.Join(lines[:2], nil), 0o600))
		},
		"missing": os.Remove,
	} {
		copied := copyDir(t, dir)
		if err := change(filepath.Join(copied, budget.File)); err != nil {
			t.Fatal(err)
		}
		r, report := mend(t, copied)
		if !slices.ContainsFunc(report.Lost, func(s string) bool { return strings.Contains(s, "reset-budget") }) {
			t.Errorf("%s: lost: %q", name, report.Lost)
		}
		r.waitState(BudgetSpent)
		if st := r.c.Status(); !strings.Contains(st.Message, "reset-budget") || st.LedgerOK {
			t.Errorf("%s: %+v", name, st)
		}
		if r.c.lacks(&proof{LedgerLines: lines, LedgerHead: head, Period: 1}) {
			t.Errorf("%s: a device that holds the newest model would make the ledger that of a copy", name)
		}
		if err := r.c.ResetBudget("the ledger was lost"); err != nil {
			t.Fatal(err)
		}
		r.play(r.enrolled(3), 4)
		if st := r.c.Status(); !st.LedgerOK || st.Epsilon == nil {
			t.Errorf("%s: after the reset: %+v", name, st.Budget)
		}
		r.stop()
	}
}

// held is the signed manifest of the newest version.
func (r *harness) held() *pb.SignedManifest { return r.c.models.Signed() }

// claim checks in with a version, and with m unless it is nil.
func (h *testDevice) claim(version uint64, m *pb.SignedManifest) *pb.CheckInResponse {
	h.t.Helper()
	a, err := h.CheckIn(context.Background(), &pb.CheckInRequest{ModelVersion: version, Held: m})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// restoredFolder is a folder after round 2 of a run that reached round 4, and the manifest of round 4.
func restoredFolder(t *testing.T, s Settings) (old, newest string, held *pb.SignedManifest) {
	t.Helper()
	newest = filepath.Join(t.TempDir(), "state")
	r := open(t, newest, &s, nil)
	r.play(r.enrolled(3), 2)
	r.stop()
	old = copyDir(t, newest)
	r = open(t, newest, nil, nil)
	r.play(r.enrolled(3), 4)
	held = r.held()
	r.stop()
	return old, newest, held
}

// copyLedger replaces the ledger and the file of releases of a folder by those of another.
func copyLedger(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{budget.File, models.PublishedFile} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func versionOf(t *testing.T, s *pb.SignedManifest) uint64 {
	t.Helper()
	m := &pb.Manifest{}
	if err := proto.Unmarshal(s.Body, m); err != nil {
		t.Fatal(err)
	}
	return m.Version
}

// A backup of the state folder is restored after later releases. The first device that shows a newer
// manifest stops releases: the ledger would spend budget a second time. A claim without proof does
// nothing. The state survives a restart; the newest ledger or a reset ends it.
func TestARestoredFolderReleasesNothing(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds = 6
	old, newest, held := restoredFolder(t, s)
	version := versionOf(t, held)
	r := open(t, old, nil, nil)
	d := r.enrolled(3)
	lines := r.c.budget.Lines()
	forged := proto.Clone(held).(*pb.SignedManifest)
	forged.Body[len(forged.Body)-1] ^= 1
	for _, lie := range []*pb.SignedManifest{nil, forged, {Body: held.Body}, r.held()} {
		a := d[0].claim(1<<63, lie)
		if a.ShowHeld != (lie == nil) || r.c.Status().State == Outdated {
			t.Errorf("a claim without proof: show %t, state %s", a.ShowHeld, r.c.Status().State)
		}
	}
	if a := d[1].claim(version, nil); !a.ShowHeld || a.GetTask() != nil {
		t.Errorf("a newer version: %v", a)
	}
	d[1].claim(version, held)
	r.waitState(Outdated)
	if m := r.c.Status().Message; !strings.Contains(m, "tacit admin restore") || !strings.Contains(m, "reset-budget") {
		t.Errorf("outdated: %s", m)
	}
	if b := r.c.Budget(); !b.EpsilonTooLow || b.LedgerOK {
		t.Errorf("outdated: %+v", b)
	}
	if err := r.c.BeginNext(); err == nil {
		t.Error("another run begins on an old ledger")
	}
	for _, h := range d {
		if h.check().GetTask() != nil {
			t.Error("a device gets a task")
		}
	}
	r.stop()
	r = open(t, old, nil, nil)
	r.waitState(Outdated)
	if r.c.budget.Lines() != lines {
		t.Errorf("the ledger had %d lines and has %d", lines, r.c.budget.Lines())
	}
	r.stop()
	reset := copyDir(t, old)
	// One way out: the newest ledger and the file of releases.
	copyLedger(t, newest, old)
	r = open(t, old, nil, nil)
	r.play(r.enrolled(3), 3)
	if m, _ := r.model(); m.Version <= version || m.LedgerLines <= uint64(lines) || m.Rollbacks == 0 {
		t.Errorf("version %d after %d, %d lines after %d", m.Version, version, m.LedgerLines, lines)
	}
	r.stop()
	// The other one: a reset.
	r = open(t, reset, nil, nil)
	if err := r.c.ResetBudget("the newest ledger was lost"); err != nil {
		t.Fatal(err)
	}
	r.play(r.enrolled(3), 3)
	if m, _ := r.model(); m.Version <= version || m.BudgetPeriod != 2 {
		t.Errorf("version %d after %d, period %d", m.Version, version, m.BudgetPeriod)
	}
}

// Without a privacy guarantee versions continue after the proven one, and training resumes.
func TestARestoredFolderWithoutAGuaranteeCatchesUp(t *testing.T) {
	t.Parallel()
	s := small(3)
	s.Rounds = 6
	old, _, held := restoredFolder(t, s)
	version := versionOf(t, held)
	r := open(t, old, nil, nil)
	d := r.enrolled(3)
	if a := d[0].claim(version, nil); !a.ShowHeld {
		t.Error("the device need not show its manifest")
	}
	d[0].claim(version, held)
	waitFor(t, "a newer version", func() bool { return r.c.models.Last() > version })
	if m, _ := r.model(); m.Rollbacks == 0 || !m.RolledBack || m.Round != 2 {
		t.Errorf("round %d after %d rollbacks", m.Round, m.Rollbacks)
	}
	r.play(d, s.Rounds)
}

// The same, if the backup is of an earlier run.
func TestARestoredFolderOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := small(3)
	s.Rounds = 2
	newest := filepath.Join(t.TempDir(), "state")
	r := open(t, newest, &s, nil)
	d := r.enrolled(3)
	r.play(d, 1)
	first := r.c.runID()
	r.stop()
	old := copyDir(t, newest)
	r = open(t, newest, nil, nil)
	d = r.enrolled(3)
	r.play(d, 2)
	r.waitState(Finished)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 1)
	held := r.held()
	r.stop()
	r = open(t, old, nil, nil)
	d = r.enrolled(3)
	d[0].claim(versionOf(t, held), held)
	waitFor(t, "a newer version", func() bool { return r.c.models.Last() > versionOf(t, held) })
	if m, _ := r.model(); m.RunNumber != 3 || m.Round != 1 || bytes.Equal(m.Run, first) {
		t.Errorf("run %d (%x), round %d: devices refuse a run below 3, and another number of run %x", m.RunNumber,
			m.Run, m.Round, first)
	}
	r.stop()
	r = open(t, old, nil, nil)
	d = r.enrolled(3)
	r.play(d, 2)
	r.waitState(Finished)
	if r.c.BeginNext() != nil || r.c.runNumber() != 4 {
		t.Errorf("the next run is run %d", r.c.runNumber())
	}
}

// resetOffline writes a reset into the ledger of a stopped coordinator, as one that is killed after the write.
func (r *harness) resetOffline() {
	r.t.Helper()
	b, err := budget.Open(r.dir, hex.EncodeToString(r.c.identity.id[:]))
	if err == nil {
		err = errors.Join(b.Reset("a test", time.Now(), true, false), b.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// A restored ledger that has grown by as many other lines as were lost is not the ledger of the newest model: the
// lost releases would never be charged.
func TestARestoredLedgerThatGrewIsOutdated(t *testing.T) {
	s := withDP(small(3), runsDP)
	s.Rounds = 8
	old, _, held := restoredFolder(t, s)
	r := open(t, old, nil, nil)
	d := r.enrolled(3)
	r.play(d, 5)
	m := &pb.Manifest{}
	if err := proto.Unmarshal(held.Body, m); err != nil || uint64(r.c.budget.Lines()) < m.LedgerLines {
		t.Fatalf("the ledger has %d lines, want at least %d (%v)", r.c.budget.Lines(), m.LedgerLines, err)
	}
	r.c.noteProof(&proof{ // as of a device that trained in both
		Version: m.Version + 100, Run: r.c.runHex(), RunNumber: 1, Round: 4, LedgerLines: int(m.LedgerLines),
		LedgerHead: m.LedgerHead, Period: 1,
	})
	r.waitState(Outdated)
	// A reset ends it, also if the coordinator is killed before it acts on the reset.
	r.stop()
	r.resetOffline()
	r = open(t, old, nil, nil)
	waitFor(t, "the new period", func() bool {
		now, _ := r.model()
		return now.BudgetPeriod == 2 && now.Version > m.Version+100
	})
	r.play(r.enrolled(3), 6)
}

// A reset that the coordinator was killed after reaches the devices at the next start. One that ends the
// state outdated gets beyond the budget period that devices know.
func TestAResetIsNotForgotten(t *testing.T) {
	s := withDP(small(3), runsDP)
	s.Rounds = 6
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(3), 1)
	r.stop()
	r.resetOffline()
	r = open(t, dir, nil, nil)
	waitFor(t, "the new period", func() bool { m, _ := r.model(); return m.BudgetPeriod == 2 })
	r.c.noteProof(&proof{
		Version: 100, Run: r.c.runHex(), RunNumber: 1, LedgerLines: 40, LedgerHead: make([]byte, 32), Period: 4,
	})
	r.waitState(Outdated)
	if err := r.c.ResetBudget("a test"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the period", func() bool { m, _ := r.model(); return m.BudgetPeriod == 5 && m.Version > 100 })
}

// A folder of an earlier run gets the newest ledger and file of releases. Its run becomes another one, which counts
// once, and the ledger covers its model.
func TestTheNewestLedgerInAFolderOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	s := withDP(small(3), runsDP)
	s.Rounds, s.Runs = 1, 4
	newest := filepath.Join(t.TempDir(), "state")
	r := open(t, newest, &s, nil)
	r.play(r.enrolled(3), 1)
	r.waitState(Finished)
	r.stop()
	old := copyDir(t, newest)
	r = open(t, newest, nil, nil)
	d := r.enrolled(3)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 1)
	r.waitState(Finished)
	spent := *r.c.Budget().Epsilon
	r.stop()
	copyLedger(t, newest, old)
	for range 2 {
		r = open(t, old, nil, nil)
		r.waitState(Finished)
		if b := r.c.Budget(); b.RunInPeriod != 3 || !b.LedgerOK || *b.Epsilon != spent {
			t.Errorf("run %d of the period, ledger ok %t, epsilon %v of %v", b.RunInPeriod, b.LedgerOK, *b.Epsilon,
				spent)
		}
		r.stop()
	}
	r = open(t, old, nil, nil)
	d = r.enrolled(3)
	if err := r.c.BeginNext(); err != nil {
		t.Fatal(err)
	}
	r.play(d, 1)
	if b := r.c.Budget(); b.RunInPeriod != 4 || !b.LedgerOK || r.c.runNumber() != 4 {
		t.Errorf("run %d, %d of the period, ledger ok %t", r.c.runNumber(), b.RunInPeriod, b.LedgerOK)
	}
}

// Status computes no privacy cost under the lock that devices need.
func TestTheBudgetIsComputedOutsideOfTheLock(t *testing.T) {
	s := withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5")
	s.Rounds = 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.play(r.enrolled(2), 1)
	r.waitState(Finished)
	if b := r.c.Budget(); b.Epsilon == nil || *b.Epsilon <= 0 || !b.LedgerOK || b.Guarantee == "" {
		t.Errorf("%+v", b)
	}
	x := r.c.releases()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if x.epsilon() <= 0 || !x.covers(r.c.models.Newest(), r.c.latest.Load()) { // would wait for ever
		t.Errorf("epsilon %v", x.epsilon())
	}
}

// Reasons of a reset have one limit, whoever calls.
func TestReasonsOfAResetHaveOneLimit(t *testing.T) {
	s := withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5")
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	for n, ok := range map[int]bool{0: false, maxReason: true, maxReason + 1: false} {
		_, err := r.admin.ResetBudget(context.Background(), strings.Repeat("x", n))
		if (err == nil) != ok {
			t.Errorf("a reason of %d bytes: %v", n, err)
		}
	}
	if err := r.c.ResetBudget("a\xffb"); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("a reason that the ledger cannot keep: %v", err)
	}
}
