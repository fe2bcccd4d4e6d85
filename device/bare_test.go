package device

import (
	"context"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// Without a promise a device is hidden by the others of a sum alone: it is in none of few,
// in the first attempt or in a later one.
func TestRequiresEnoughDevicesInAMaskedSumWithoutPolicy(t *testing.T) {
	f, members := newMasked(t, 3, false)
	f.spec.Policy = "none"
	f.publish()
	d := members[0].open()
	if out, err := d.Step(context.Background()); err != nil || out.Action != "declined" || len(f.digests) > 0 {
		t.Fatalf("in a sum of %d: %+v, %v", f.maskRound().MinDevices, out, err)
	}
	task := members[0].maskedTask(privacy.MinMaskedSum)
	if _, err := d.compute(task, &StepResult{}); err != nil {
		t.Fatal(err)
	}
	task = members[0].maskedTask(privacy.MinMaskedSum - 1)
	task.Attempt++
	if _, err := d.sendMasked(context.Background(), task); err == nil {
		t.Error("it masks its report among fewer in the next attempt")
	}
}

// maskedTask is the fake's task, among so many devices that all must stay.
func (r *testDevice) maskedTask(devices int) *pb.Task {
	f, was := r.f, r.f.devices
	f.devices = devices
	round := f.maskRound()
	f.devices, round.MinDevices = was, devices
	return &pb.Task{
		Kind: f.kind, Run: f.run, Round: f.round, Attempt: f.attempt, Bound: f.bound, ModelVersion: f.version,
		RemainingMs: 60000,
		Length:      uint64(f.numbers()),
		Masking:     wire.EncodeMasking(&round, int(r.id)),
	}
}

// The last number says whether a device had something to learn from: their count is what a
// mean is divided by, and only the sum of it is ever seen.
func TestMaskedReportCountsDevicesWithTrainingData(t *testing.T) {
	for promise, want := range map[string]int64{"none": 1, "epsilon=2": 0} {
		f, members := newMasked(t, 3, false)
		f.spec.Policy = promise
		f.masking = false
		f.publish()
		d := members[0].open()
		if out, err := d.Step(context.Background()); err != nil || out.Action != "declined" {
			t.Fatalf("without masks: %+v, %v", out, err)
		}
		task := members[0].maskedTask(privacy.MinMaskedSum)
		if _, err := d.compute(task, &StepResult{}); err != nil {
			t.Fatal(err)
		}
		v := make([]int64, task.Length)
		if err := wire.ReadUpdate(d.record.Train.data, len(v), task.Bound.Max, v); err != nil {
			t.Fatal(err)
		}
		if got := v[len(v)-1]; got != want {
			t.Errorf("promise %s: the last number is %d, want %d", promise, got, want)
		}
	}
}
