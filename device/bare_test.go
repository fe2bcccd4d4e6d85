package device

import (
	"context"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// Without a policy only the other devices hide a device in a masked sum. A device therefore takes part in
// no sum of too few devices, in the first attempt or a later one.
func TestRequiresEnoughDevicesInAMaskedSumWithoutPolicy(t *testing.T) {
	f, members := newMasked(t, privacy.MinMaskedGroup, false)
	f.spec.Policy, f.devices = "none", 3
	f.publish()
	d := members[0].open()
	ctx := context.Background()
	if out, err := d.Step(ctx); err != nil || out.Action != "declined" || len(f.digests) > 0 {
		t.Fatalf("in a sum of %d: %+v, %v", f.maskRound().MinDevices, out, err)
	}
	task := members[0].maskedTask(privacy.MinMaskedSum)
	if _, err := d.compute(task, &StepResult{}); err != nil {
		t.Fatal(err)
	}
	task = members[0].maskedTask(privacy.MinMaskedSum - 1)
	task.Attempt++
	if out, err := d.perform(ctx, task); err != nil || out.Action != "declined" {
		t.Errorf("it masks its report among fewer in the next attempt: %+v, %v", out, err)
	}
}

// maskedTask is the task of the fake coordinator with a minimum number of devices.
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

// The last number says whether a device has training data. The mean is divided by its sum, and nobody sees
// single values.
func TestMaskedReportCountsDevicesWithTrainingData(t *testing.T) {
	for policy, want := range map[string]int64{"none": 1, "epsilon=2": 0} {
		f, members := newMasked(t, privacy.MinMaskedGroup, false)
		f.spec.Policy = policy
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
			t.Errorf("policy %s: the last number is %d, want %d", policy, got, want)
		}
	}
}
