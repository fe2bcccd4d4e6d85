package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/device"
)

func TestPausedStepNamesItsReasonOnce(t *testing.T) {
	var b bytes.Buffer
	if err := writeStep(&b, device.StepResult{Action: "paused", Reason: "paused by its owner"}); err != nil {
		t.Fatal(err)
	}
	if want := "paused by its owner (model version 0)\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// A waiting device says what the coordinator does, and how long it waits.
func TestAWaitingDeviceSaysHowLong(t *testing.T) {
	var b bytes.Buffer
	out := device.StepResult{
		Action: "waited", Reason: "no device is active", Coordinator: "no-devices",
		After: 5*time.Minute + 3*time.Millisecond,
	}
	if err := writeStep(&b, out); err != nil {
		t.Fatal(err)
	}
	want := "waited: no device is active; state of the coordinator: no devices; next check-in in 5m0s " +
		"(model version 0)\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestStatusCountsLateDevicesApart(t *testing.T) {
	for enrolled, want := range map[int]string{
		12: "12 of 943 enrolled", 944: "940 active, 944 enrolled; the run is planned for 943",
	} {
		p := coordinator.Population{Enrolled: enrolled, Devices: 943, Active: 940}
		if got := enrolment(&coordinator.Status{Population: p}); got != want {
			t.Errorf("%d: %q, want %q", enrolled, got, want)
		}
	}
}

// After a repair the operator sees that the budget counts as spent, and how to go on.
func TestStatusSaysThatEntriesOfTheLedgerWereLost(t *testing.T) {
	delta := 1e-6
	s := &coordinator.Status{Budget: coordinator.Budget{Policy: "epsilon=8", Delta: &delta}}
	s.Method = "fedmf"
	var b bytes.Buffer
	if err := writeStatus(&b, s); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "counts as spent; tacit admin reset-budget") {
		t.Errorf("the status is\n%s", got)
	}
}

// A round whose cohort is a secret sample has no number of reports to print.
func TestSecretSampleHasNoCountOfReports(t *testing.T) {
	s := &coordinator.Status{State: coordinator.Training, RunStatus: coordinator.RunStatus{Rounds: 2}}
	if got, want := inProgress(s), "round 1 of 2, which is in progress"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A paused device prints that once, and again when it resumes.
func TestRunningDevicePrintsOnlyNews(t *testing.T) {
	var b bytes.Buffer
	say := (&app{err: &b}).deviceProgress("my.state")
	for _, did := range []string{"waited", "waited", "paused", "paused", "waited", "waited", "trained", "trained"} {
		say(device.StepResult{Action: did, ModelVersion: 1}, nil)
	}
	for word, want := range map[string]int{"waited": 2, "paused": 1, "trained": 2, "model downloaded": 1} {
		if n := strings.Count(b.String(), word); n != want {
			t.Errorf("it says %q %d times, want %d:\n%s", word, n, want, b.String())
		}
	}
}
