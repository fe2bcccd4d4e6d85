package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// crashAt kills a device at its n-th boundary: before or after a save or a call. It reports whether the
// boundary was reached.
func crashAt(r *testDevice, n int) (reached func() bool) {
	var mu sync.Mutex
	at, hit := 0, false
	r.crash = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if at++; at > n {
			hit = true
			return errDead
		}
		return nil
	}
	return func() bool { mu.Lock(); defer mu.Unlock(); return hit }
}

// crashOn kills a device at the n-th boundary of a name.
func crashOn(r *testDevice, name string, n int) (reached func() bool) {
	var mu sync.Mutex
	at, hit := 0, false
	r.crash = func(what string) error {
		mu.Lock()
		defer mu.Unlock()
		if what == name {
			at++
		}
		if hit = hit || what == name && at == n; hit {
			return errDead
		}
		return nil
	}
	return func() bool { mu.Lock(); defer mu.Unlock(); return hit }
}

// rounds lets devices step one after the other until n rounds are over.
func (f *fakeCoordinator) rounds(n int, members []*testDevice) {
	f.t.Helper()
	for range 100 {
		for _, r := range members {
			if len(f.sums) >= n {
				return
			}
			if _, err := r.open().Step(context.Background()); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.t.Fatal("the rounds do not end")
}

func start(t testing.TB, method string, n int, set ...string) (*fakeCoordinator, []*testDevice) {
	f := newFake(t, method, n, set...)
	f.publish()
	var members []*testDevice
	for i := range n {
		members = append(members, f.device(i))
	}
	return f, members
}

// A device that is killed at any boundary and restarted sends the same bytes as without the kill: the sums
// of all rounds are equal, and no device sends two digests in a round.
func TestKillAtAnyBoundaryChangesNothing(t *testing.T) {
	for _, method := range []string{"pfedrec", "fedrap"} {
		if testing.Short() && method == "pfedrec" {
			continue // the other method has more state
		}
		const rounds = 3
		f, members := start(t, method, 3, "dim", "4")
		f.rounds(rounds, members)
		want := f.sums
		kill := 0
		for ; ; kill++ {
			f, members := start(t, method, 3, "dim", "4")
			f.piece = 1024
			reached := crashAt(members[1], kill)
			if d, err := members[1].tryOpen(); err == nil {
				for range 4 {
					if _, err = d.Step(context.Background()); err != nil {
						break
					}
					members[0].open().Step(context.Background())
					members[2].open().Step(context.Background())
				}
			}
			if !reached() {
				break
			}
			members[1].crash = func(string) error { return nil }
			f.rounds(rounds, members)
			for i := range want {
				if !slices.Equal(f.sums[i], want[i]) {
					t.Fatalf("%s: killed at boundary %d: the sum of round %d is another", method, kill, i+1)
				}
			}
			for who, seen := range f.digests {
				if len(seen) != 1 {
					t.Fatalf("%s: killed at boundary %d: %s has sent %d different reports", method, kill, who,
						len(seen))
				}
			}
		}
		if kill < 20 {
			t.Errorf("%s: only %d boundaries were found", method, kill)
		}
	}
}

func TestSendsALostReportAgain(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	f.rounds(1, members)
	want := slices.Clone(f.sums[0])
	f, members = start(t, "pfedrec", 2, "dim", "4")
	f.lost = true
	f.rounds(1, members)
	if !slices.Equal(f.sums[0], want) {
		t.Error("the sum is not that of both devices")
	}
	for who, seen := range f.digests {
		if len(seen) != 1 {
			t.Errorf("%s has sent %d different reports", who, len(seen))
		}
	}
}

func TestDoesNotReportInAnOlderRound(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.rounds(2, members)
	f.round = 0
	f.counted = map[string]map[uint32][]byte{}
	if out, err := members[0].open().Step(context.Background()); err == nil {
		t.Errorf("round 1 is answered again: %+v", out)
	}
}

func TestClosesAReportThatIsNotCounted(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	dead := false
	members[0].crash = func(what string) error {
		if dead = dead || what == "before report"; dead {
			return errDead
		}
		return nil
	}
	if _, err := members[0].open().Step(context.Background()); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	members[0].crash = func(string) error { return nil }
	f.round++ // the round ends without it
	f.publish()
	out, err := members[0].open().Step(context.Background())
	a, _ := members[0].open().About()
	if err != nil || out.Round != 1 || len(a.Log) != 2 || a.Log[0].State != closed || a.Log[1].State != counted {
		t.Errorf("%+v, %v; the log is %+v", out, err, a.Log)
	}
}

func TestRealDeviceRefusesDeterministicFederation(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	members[0].change = func(o *Options) { o.Deterministic = false }
	if _, err := members[0].open().Step(context.Background()); !errors.Is(err, ErrDeterministic) || len(f.ids) > 0 {
		t.Errorf("%v, and %d are enrolled", err, len(f.ids))
	}
}

func TestRefusesAnotherCoordinator(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	if _, err := members[0].open().Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.key[0] ^= 1
	f.fed = bytes.Repeat([]byte{7}, 16)
	if _, err := members[0].open().Step(context.Background()); !errors.Is(err, ErrWrongCoordinator) {
		t.Error(err)
	}
}

func TestRefusesUnsignedManifests(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.signed.Body[len(f.signed.Body)-1] ^= 1
	if _, err := members[0].open().Step(context.Background()); err == nil || len(f.digests) > 0 {
		t.Errorf("%v", err)
	}
	f.publish()
	for h, b := range f.blobs { // the coordinator, or an attacker in between, changes the model
		b[len(b)/2] ^= 1
		f.blobs[h] = b
	}
	if _, err := members[0].open().Step(context.Background()); err == nil || len(f.digests) > 0 {
		t.Errorf("%v", err)
	}
}

func TestRefusesTooLargePlanBeforeBuildingIt(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	members[0].workspace.Memory = 10_000
	_, err := members[0].open().Step(context.Background())
	if !errors.Is(err, ErrTooLarge) || members[0].workspace.mem != nil || len(f.digests) > 0 {
		t.Error(err)
	}
}

func TestRefusesPlansThatDoNotMatchThisProgram(t *testing.T) {
	for what, change := range map[string]func(p *pb.Plan){
		"a method that is not known": func(p *pb.Plan) { p.Method = "pfedrek" },
		"an unknown parameter":       func(p *pb.Plan) { p.Params[0].Key = "dimm" },
		"another shape":              func(p *pb.Plan) { p.Shape[1]++ },
		"a slot less":                func(p *pb.Plan) { p.Shape = p.Shape[:2] },
		"a feature":                  func(p *pb.Plan) { p.Features = []string{"age"} },
		"a central method":           func(p *pb.Plan) { p.Method, p.Params = "mf", nil },
	} {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		change(f.spec)
		f.version = 5
		f.publish()
		if _, err := members[0].open().Step(context.Background()); err == nil || len(f.digests) > 0 {
			t.Errorf("%s is taken", what)
		}
	}
}

func TestDownloadsOnlyChangedBlobs(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.piece = 1 << 20
	f.rounds(1, members)
	first := f.fetched
	f.rounds(2, members)
	if again := f.fetched - first; first != 3 || again != 1 {
		t.Errorf("%d blobs are fetched at first and %d after a round, want plan, catalogue and table, then the table",
			first, again)
	}
}

func TestPausedOrIneligibleDeviceStaysAway(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	d := members[0].open()
	if err := d.Pause(true); err != nil {
		t.Fatal(err)
	}
	if out, err := members[0].open().Step(context.Background()); err != nil || out.Action != "paused" ||
		len(f.ids) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	d.Pause(false)
	members[0].change = func(o *Options) { o.Eligible = func() (bool, string) { return false, "on battery" } }
	if out, err := members[0].open().Step(context.Background()); err != nil || out.Action != "stayed away" ||
		len(f.ids) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestForgetDeletesEverything(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.rounds(1, members)
	d := members[0].open()
	key := d.Key()
	if err := d.Forget(context.Background()); err != nil || f.left != 1 {
		t.Error(err)
	}
	if b, _ := members[0].store.Load(); b != nil {
		t.Error("something is left")
	}
	if again := members[0].open(); again.Key().Equal(key) {
		t.Error("it has the same key as before")
	}
}

// Devices that share a Workspace give the same sums as devices that do not.
func TestDevicesMayShareAWorkspace(t *testing.T) {
	f, members := start(t, "fedrap", 3, "dim", "4")
	f.rounds(3, members)
	want := f.sums
	f, members = start(t, "fedrap", 3, "dim", "4")
	for _, r := range members {
		r.workspace, r.blobs = members[0].workspace, members[0].blobs
	}
	f.rounds(3, members)
	for i := range want {
		if !slices.Equal(f.sums[i], want[i]) {
			t.Errorf("round %d has another sum", i+1)
		}
	}
}

// The randomness of a real device is secret: nobody can repeat it from public values.
func TestRealDeviceUsesASecretSeed(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		if _, err := members[0].open().Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		d := members[0].open()
		d.record.Deterministic = false
		f.round, f.counted = 1, map[string]map[uint32][]byte{}
		if _, err := d.compute(&pb.Task{
			Kind: pb.Kind_TRAIN, Run: f.run, Round: 1, Bound: f.bound, ModelVersion: 1,
			Length: uint64(len(f.sum)),
		}, &StepResult{}); err != nil {
			t.Fatal(err)
		}
		seen[string(d.record.Train.Digest)] = true
	}
	if len(seen) != 3 {
		t.Errorf("three devices with one history send %d different reports", len(seen))
	}
}

func TestLogShowsWhatWasSent(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.protect("epsilon=2", "all")
	f.publish()
	f.rounds(2, members)
	a, err := members[0].open().About()
	if err != nil || len(a.Log) != 2 {
		t.Fatal(err, a)
	}
	e := a.Log[1]
	if e.Kind != "train" || e.Round != 1 || e.State != counted || e.Bytes == 0 || len(e.Digest) != 64 ||
		e.Policy != "epsilon=2" ||
		!strings.HasPrefix(e.Guarantee, "epsilon 2 at delta 1e-06 for 1 run of 50 rounds") ||
		e.CreatedAt.IsZero() || e.SettledAt.IsZero() ||
		e.ModelVersion != 3 {
		t.Errorf("%+v", e)
	}
}

func TestLogIsBounded(t *testing.T) {
	r := &record{}
	for i := range maxLog + 5 {
		r.log(LogEntry{Round: uint32(i)})
	}
	if len(r.Log) != maxLog || r.Log[0].Round != 5 {
		t.Errorf("%d entries from %d", len(r.Log), r.Log[0].Round)
	}
}

func FuzzRecord(f *testing.F) {
	r := &record{ // small, because fuzzing varies large inputs slowly
		Key: make([]byte, 32), Seed: 5, Train: &savedReport{
			Run: make([]byte, 16), Digest: make([]byte, 32),
			data: []byte{1, 0},
		},
		History: history{Events: []Event{{"a", 1, "k=v"}}}, state: []byte("abc"), Log: []LogEntry{{Kind: "train"}},
	}
	b, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add([]byte{1, 2, '{', '}', 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			if !strings.Contains(err.Error(), "state file") {
				t.Errorf("an error that does not name the state file: %v", err)
			}
			return
		}
		out, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeRecord(out); err != nil {
			t.Fatal(err)
		} else if second, _ := again.encode(); !bytes.Equal(out, second) {
			t.Error("a record changes when it is read and written")
		}
	})
}

func TestRefusesRecordsOfOtherVersions(t *testing.T) {
	_, members := start(t, "pfedrec", 1, "dim", "4")
	b, _ := members[0].store.Load()
	b = bytes.Clone(b)
	b[0]++
	members[0].store.Save(b)
	if _, err := members[0].tryOpen(); err == nil || !strings.Contains(err.Error(), "another release") {
		t.Error(err)
	}
	for cut := range len(b) - 1 {
		b[0] = recordVersion
		if _, err := decodeRecord(b[:cut]); err == nil {
			t.Fatal(fmt.Sprint("cut at ", cut))
		}
	}
}
