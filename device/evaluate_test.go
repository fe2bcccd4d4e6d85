package device

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// evaluationTask is the fake coordinator's task for an evaluation that a device takes part in.
func (r *testDevice) evaluationTask() *pb.Task {
	f := r.f
	was := f.devices
	f.devices = privacy.MinMaskedSum
	round := f.maskRound()
	f.devices = was
	return &pb.Task{
		Kind: f.kind, Run: f.run, Round: f.round, Attempt: f.attempt, Bound: f.bound, ModelVersion: f.version,
		RemainingMs: 60000,
		Length:      uint64(f.numbers()),
		Masking:     wire.EncodeMasking(&round, int(r.id)),
	}
}

// evaluates returns the report that a device would mask.
func (r *testDevice) evaluates() []int64 {
	t := r.f.t
	t.Helper()
	d := r.open()
	if out, err := d.Step(context.Background()); err != nil || out.Action != "declined" {
		t.Fatalf("unmasked: %+v, %v", out, err)
	}
	task := r.evaluationTask()
	if _, err := d.compute(task, &StepResult{}); err != nil {
		t.Fatal(err)
	}
	out := make([]int64, task.Length)
	if err := wire.ReadUpdate((*d.record.report(task.Kind)).data, len(out), task.Bound.Max, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func counting(f *fakeCoordinator) {
	f.kind, f.bound = pb.Kind_COUNT, &pb.Bound{Clip: 1, Levels: 1, Max: 1}
}

func TestItemCountsLeaveOutTheHeldOutItem(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	counting(f)
	for _, r := range members {
		got, want := r.evaluates(), make([]int64, f.plan.Items)
		task, held, ok, err := r.workspace.prepare(r.open().source(true), &record{}, 0)
		if err != nil || !ok || slices.Contains(task.Train, held) {
			t.Fatal(err)
		}
		for _, i := range task.Train {
			want[i] = 1
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	f, members = start(t, "pfedrec", 2, "dim", "4")
	f.protect("epsilon=2", "all")
	counting(f)
	f.publish()
	d := members[0].open()
	_, _ = d.Step(context.Background()) // adopts the manifest
	if out, err := d.perform(context.Background(), members[0].evaluationTask()); err != nil ||
		out.Action != "declined" ||
		d.record.Count != nil {
		t.Errorf("under a policy: %+v, %v", out, err)
	}
}

// Whatever the plan says, a device evaluates only in a masked sum of enough devices, and counts its items
// once per run.
func TestDeclinesUnsafeEvaluations(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []pb.Kind{pb.Kind_COUNT, pb.Kind_EVALUATE} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		if counting(f); kind == pb.Kind_EVALUATE {
			f.bound, _ = evaluationBound()
			f.kind = kind
		}
		members[0].evaluates()
		d := members[0].open()
		task := members[0].evaluationTask()
		task.Masking = nil // the device has a report now
		if out, err := d.perform(ctx, task); err != nil || out.Action != "declined" {
			t.Errorf("%v without masks: %+v, %v", kind, out, err)
		}
		d.resolvePending(ctx)
		task = members[0].evaluationTask()
		task.Masking.MinDevices--
		if out, err := d.perform(ctx, task); err != nil || out.Action != "declined" {
			t.Errorf("%v of too few: %+v, %v", kind, out, err)
		}
		if len(f.digests) > 0 {
			t.Errorf("%v: a report came", kind)
		}
		f.mem.Value(f.plan.SentSlots()[0])[0]++
		f.publish()
		_, _ = d.Step(ctx)
		if out, err := d.perform(ctx, members[0].evaluationTask()); err == nil {
			t.Errorf("%v: a round is answered on a second version: %+v", kind, out)
		}
		if err := d.setReportState(kind, *d.record.report(kind), counted, ""); err != nil {
			t.Fatal(err)
		}
		f.round++
		task = members[0].evaluationTask()
		task.Attempt++ // the fake coordinator answers with ENDED
		_, err := d.perform(ctx, task)
		if s := *d.record.report(kind); kind == pb.Kind_COUNT && (err != nil || s.answers(task)) ||
			kind == pb.Kind_EVALUATE &&
				!s.answers(task) {
			t.Errorf("%v in a later round: %v, %+v", kind, err, s)
		}
	}
}

// A coordinator may know a revealed sum, whatever it says. A second sum over other devices would reveal
// one device's values.
func TestRevealedEvaluationIsTheOnlyOne(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []pb.Kind{pb.Kind_COUNT, pb.Kind_EVALUATE} {
		for _, later := range []uint32{0, 1} {
			f, members := start(t, "pfedrec", 2, "dim", "4")
			if counting(f); kind == pb.Kind_EVALUATE {
				f.bound, _ = evaluationBound()
				f.kind = kind
			}
			members[0].evaluates()
			d := members[0].open()
			err := d.update(func(r *record) error {
				(*r.report(kind)).Started, (*r.report(kind)).Revealed = true, true
				return nil
			})
			if err == nil {
				err = d.setReportState(kind, *d.record.report(kind), closed, "there was no sum")
			}
			if err != nil {
				t.Fatal(err)
			}
			f.round += later
			task := members[0].evaluationTask()
			task.Attempt += 7
			if out, err := d.perform(ctx, task); err != nil || out.Action != "declined" {
				t.Errorf("%v, %d rounds later: %+v, %v", kind, later, out, err)
			}
		}
	}
}

// A device evaluates without a policy, or if the policy covers evaluations.
func TestDeclinesEvaluationsThatThePolicyDoesNotCover(t *testing.T) {
	for policy, want := range map[string]bool{
		"none": true, "epsilon=2": false, "epsilon=2,trust=distributed,min-devices=5": false,
		"epsilon=2,metrics=20": true, "epsilon=2,metrics=20,clip-rate=0.3": false,
		"gibberish": false,
	} {
		f, members := start(t, "pfedrec", 8, "dim", "4")
		f.bound, _ = evaluationBound()
		f.kind, f.spec.Policy = pb.Kind_EVALUATE, policy
		f.spec.Masked = strings.Contains(policy, "distributed")
		if !strings.Contains(policy, "clip-rate") {
			f.spec.Evaluations = 1
		}
		f.publish()
		d := members[0].open()
		_, _ = d.Step(context.Background()) // adopts the manifest
		task := members[0].evaluationTask()
		task.Attempt++ // the fake coordinator answers with ENDED
		out, err := d.perform(context.Background(), task)
		if (d.record.Eval != nil) != want || want == (out.Action == "declined" || errors.Is(err, ErrNoModel)) {
			t.Errorf("under %s: %+v, %v", policy, out, err)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The sum of masked evaluations equals the sum of the plain ones.
func TestMaskedEvaluationEqualsPlainOne(t *testing.T) {
	const n = privacy.MinMaskedSum
	for _, kind := range []pb.Kind{pb.Kind_COUNT, pb.Kind_EVALUATE} {
		f, members := start(t, "pfedrec", n, "dim", "4")
		if counting(f); kind == pb.Kind_EVALUATE {
			f.bound, _ = evaluationBound()
			f.kind = kind
		}
		want := make([]int64, f.numbers())
		for _, r := range members {
			for i, x := range r.evaluates() {
				want[i] += x
			}
		}
		f.masking = true
		f.begin()
		together(t, members, f.isSummed)
		if len(f.sums) != 1 || !slices.Equal(f.sums[0][:len(want)], want) || len(f.digests) > 0 {
			t.Fatalf("%v: the sum is %v, want %v", kind, f.sums, want)
		}
		for i, r := range members {
			if s := *r.open().record.report(kind); s.State != counted || !s.Masked {
				t.Errorf("%v: device %d has %+v", kind, i, s)
			}
		}
	}
}

// A device stops asking for an evaluation whose attempt ended without a sum.
func TestClosesAnEvaluationWithoutASum(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	counting(f)
	members[0].evaluates()
	d := members[0].open()
	if err := d.update(func(r *record) error { r.Count.Revealed = true; return nil }); err != nil {
		t.Fatal(err)
	}
	f.masking = true
	f.begin()
	f.attempt += 5
	d = members[0].open()
	if _, err := d.Step(canceled()); err != nil && d.record == nil {
		t.Fatal(err)
	}
	if d.record.Count.State != closed {
		t.Errorf("its state is %q", d.record.Count.State)
	}
}
