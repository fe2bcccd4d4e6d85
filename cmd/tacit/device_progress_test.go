package main

import (
	"bytes"
	"strings"
	"testing"

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
