package device

import (
	"context"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// offer lets the fake coordinator ask for a round with a new model version, and returns the result.
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

// A device reports at most once per interval, whatever the coordinator says: it counts its own reports.
func TestLyingCoordinatorGetsOneReportPerInterval(t *testing.T) {
	for _, state := range []string{counted, closed} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		f.spec.ReportEvery, f.spec.Runs = 4, 2
		f.protect("noise=1,mechanism=tree", "checkin:1/4")
		if state == closed { // the coordinator claims that the report is not counted
			f.closes = true
		}
		dev := members[0]
		if out := f.offer(t, dev, 1); out.Action != "trained" || out.State != state {
			t.Fatalf("%+v", out)
		}
		f.closes = false
		declined := func(what string, round uint32) {
			t.Helper()
			n := len(f.digests)
			if out := f.offer(t, dev, round); out.State != "" || out.Reason == "" || len(f.digests) != n {
				t.Errorf("%s: %s: %+v, and %d reports instead of %d", state, what, out, len(f.digests), n)
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
		if out := f.offer(t, dev, 4); out.Action != "trained" || out.State != counted {
			t.Errorf("%s: the next epoch: %+v", state, out)
		}
		declined("the rest of it", 7)
		run := f.run
		f.run = []byte("another run.....")
		declined("another run with the same number", 1)
		f.number++
		if out := f.offer(t, dev, 1); out.State != counted {
			t.Errorf("%s: the next run: %+v", state, out)
		}
		f.run = run
		declined("the first run with the number of the second", 9)
		f.number--
		declined("the first run again", 9)
		for who, seen := range f.digests {
			if len(seen) != 1 {
				t.Errorf("%s: %s has sent %d different reports", state, who, len(seen))
			}
		}
	}
}

// Sending the same report again is not a second report, and evaluations do not count.
func TestRepeatedReportAndEvaluationDoNotCountAgainstTheLimit(t *testing.T) {
	ctx := context.Background()
	f, members := start(t, "pfedrec", 2, "dim", "4")
	f.spec.ReportEvery = 4
	dev := members[0]
	f.lost = true
	if out := f.offer(t, dev, 1); out.State != counted {
		t.Fatalf("%+v", out)
	}
	if out, err := dev.open().Step(ctx); err != nil || out.State != counted { // the coordinator has lost the report
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

// A device refuses a plan without a report limit if the guarantee depends on one.
func TestRefusesTreeMechanismWithoutReportLimit(t *testing.T) {
	for every, want := range map[uint32]string{0: "", 3: "", 4: "trained"} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		f.spec.ReportEvery = 4
		f.protect("epsilon=2,mechanism=tree", "checkin:1/4")
		f.spec.ReportEvery = every
		if out := f.offer(t, members[0], 1); out.Action != want {
			t.Errorf("one answer in %d rounds: %+v, want %q", every, out, want)
		}
	}
}
