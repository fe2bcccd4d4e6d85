package device

import (
	"context"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// offers has a fake coordinator ask for a round, on a new version, and returns what the
// device made of it.
func (f *fakeCoordinator) offer(t *testing.T, r *testDevice, round uint32) StepResult {
	t.Helper()
	f.round = round
	clear(f.counted)
	f.publish()
	out, err := r.open().Step(context.Background())
	if err != nil {
		out.Reason = err.Error()
	}
	return out
}

// A device answers one round at most of each so many, whatever the coordinator says: it
// keeps its own count, and what it has made counts as sent.
func TestLyingCoordinatorGetsOneReportPerInterval(t *testing.T) {
	for _, fate := range []string{counted, closed} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		f.spec.ReportEvery, f.spec.Policy = 4, "noise=1,mechanism=tree"
		if fate == closed { // it says that the report is in no sum
			f.closes = true
		}
		dev := members[0]
		if out := f.offer(t, dev, 1); out.Action != "trained" || out.State != fate {
			t.Fatalf("%+v", out)
		}
		f.closes = false
		declined := func(what string, round uint32) {
			t.Helper()
			n := len(f.digests)
			if out := f.offer(t, dev, round); out.Action != "declined" &&
				!strings.Contains(out.Reason, "reports once per round") ||
				len(f.digests) != n {
				t.Errorf("%s: %s: %+v, and %d reports instead of %d", fate, what, out, len(f.digests), n)
			}
		}
		declined("a later round of the epoch", 2)
		declined("its last round", 3)
		f.rollbacks++
		declined("after a rollback that there was not", 1)
		declined("an earlier round after it", 0)
		f.spec.ReportEvery = 0
		declined("a plan that forgets it", 3)
		f.spec.ReportEvery = 1
		declined("a plan with shorter epochs", 3)
		f.spec.ReportEvery, f.spec.Rounds = 4, 60
		declined("a plan with more rounds", 5)
		f.spec.Rounds = 50
		run := f.run
		f.run = []byte("another run.....")
		if out := f.offer(t, dev, 1); out.State != counted {
			t.Errorf("%s: another run: %+v", fate, out)
		}
		f.run = run
		declined("the first run again", 3)
		if out := f.offer(t, dev, 4); out.Action != "trained" || out.State != counted {
			t.Errorf("%s: the next epoch: %+v", fate, out)
		}
		declined("the rest of it", 7)
		for who, seen := range f.digests {
			if len(seen) != 1 {
				t.Errorf("%s: %s has sent %d different reports", fate, who, len(seen))
			}
		}
	}
}

// What a device has made for a round is sent again as it is, and is no second answer;
// evaluations are not counted.
func TestRepeatedReportAndEvaluationDoNotCountAgainstTheLimit(t *testing.T) {
	ctx := context.Background()
	f, members := start(t, "pfedrec", 2, "dim", "4")
	f.spec.ReportEvery = 4
	dev := members[0]
	f.lost = true
	if out := f.offer(t, dev, 1); out.State != counted {
		t.Fatalf("%+v", out)
	}
	if out, err := dev.open().Step(ctx); err != nil || out.State != counted { // the coordinator has lost it
		t.Errorf("the same round again: %+v, %v", out, err)
	}
	f.kind = pb.Kind_EVALUATE
	f.bound.Levels, f.bound.Clip, f.bound.Max = 1<<20, 16, 1<<20+1
	f.round = 2
	f.publish()
	if out := dev.evaluates(); len(out) != int(f.numbers()) {
		t.Errorf("an evaluation: %v", out)
	}
	f.kind = pb.Kind_TRAIN
	if out := f.offer(t, dev, 3); out.Action != "declined" {
		t.Errorf("a second answer: %+v", out)
	}
}

func TestLimitsTheNumberOfSparseRuns(t *testing.T) {
	r := &record{}
	plan := &pb.Plan{ReportEvery: 2, Rounds: 10}
	for n := range maxSparseRuns {
		run := make([]byte, 16)
		run[0] = byte(n)
		if err := r.noteReport(&pb.Task{Run: run}, plan); err != nil {
			t.Fatal(err)
		}
	}
	last := &pb.Task{Run: []byte("one more run....")}
	if err := r.noteReport(last, plan); err == nil {
		t.Error("a device forgets a run")
	}
	if err := r.noteReport(last, &pb.Plan{Rounds: 10}); err != nil {
		t.Errorf("a run without such a limit: %v", err)
	}
}

// Where a promise rests on turns, a plan without them is not answered.
func TestDeclinesTreeMechanismWithoutReportLimit(t *testing.T) {
	for every, want := range map[uint32]string{0: "declined", 4: "trained"} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		f.spec.ReportEvery, f.spec.Policy = every, "epsilon=2,mechanism=tree"
		if out := f.offer(t, members[0], 1); out.Action != want {
			t.Errorf("one answer in %d rounds: %+v, want %s", every, out, want)
		}
	}
}
