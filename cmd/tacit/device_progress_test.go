package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/device"
)

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
