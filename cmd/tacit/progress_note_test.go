package main

import (
	"bytes"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// A resumed run reads all settings from its folder, and must not say that the user set one in vain.
func TestResumedRunsDoNotRepeatNotes(t *testing.T) {
	var errs bytes.Buffer
	a := &app{err: &errs}
	a.noteSettings(experiment.Started{Job: &experiment.Job{Resume: true}})
	if errs.Len() > 0 {
		t.Errorf("a resumed run prints %q", errs.String())
	}
}
