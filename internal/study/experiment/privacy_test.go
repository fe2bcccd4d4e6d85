package experiment

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var private = []string{"method=fedmf", "cohort=poisson:0.2", "dp=noise=1,clip=0.5,adaptive=geometric,bit-noise=4"}

// stopAfter runs a job and interrupts it after a round.
func stopAfter(t *testing.T, j *Job, round int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j.OnEvent = func(e Event) {
		if ev, ok := e.(RoundEnded); ok && ev.Round == round {
			cancel()
		}
	}
	var s *Stopped
	if _, err := j.Run(ctx); !errors.As(err, &s) {
		t.Fatalf("error is %v, want Stopped", err)
	}
}

func TestAResumedRunSpendsAtLeastAsMuchAsAnUninterruptedOne(t *testing.T) {
	whole, err := job(t, t.TempDir(), private...).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stopAfter(t, job(t, dir, private...), 3)
	again := job(t, dir, private...)
	again.Resume = true
	res, err := again.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if res.Privacy.Epsilon != whole.Privacy.Epsilon || res.Privacy.Clip != whole.Privacy.Clip ||
		res.Test.Sampled["hr@10"] != whole.Test.Sampled["hr@10"] {
		t.Errorf("resumed: %+v\nwhole: %+v", res.Privacy, whole.Privacy)
	}
	// A run that crashed before a checkpoint starts again and pays twice.
	dir = t.TempDir()
	stopAfter(t, job(t, dir, private...), 3)
	if err := os.Remove(filepath.Join(dir, checkpointFile)); err != nil {
		t.Fatal(err)
	}
	again = job(t, dir, private...)
	again.Resume = true
	if res, err = again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if res.Privacy.Rounds != 9 || res.Privacy.Epsilon.(float64) <= whole.Privacy.Epsilon.(float64) {
		t.Errorf("three rounds that were run twice: %d rounds cost %v, and six %v", res.Privacy.Rounds,
			res.Privacy.Epsilon, whole.Privacy.Epsilon)
	}
}

func TestARunDoesNotResumeWithoutItsLedger(t *testing.T) {
	dir := t.TempDir()
	stopAfter(t, job(t, dir, private...), 3)
	path := filepath.Join(dir, ledgerFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, text := range map[string][]byte{
		"none": nil, "two lines less": bytes.Join(lines[:len(lines)-3], nil),
		"another's": []byte("{}\n"),
	} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		again := job(t, dir, private...)
		again.Resume = true
		var in *InputError
		if _, err := again.Run(context.Background()); !errors.As(err, &in) || in.Hint == "" {
			t.Errorf("%s: the run resumes with %v", name, err)
		}
	}
}

// A crash may have spent the budget of the last rounds: the run reports its last evaluation and stays
// within the budget.
func TestACrashThatSpentTheBudgetEndsTheRun(t *testing.T) {
	words := []string{"method=fedmf", "cohort=poisson:0.2", "dp=noise=1,clip=0.5,epsilon=8", "rounds=40"}
	whole, err := job(t, t.TempDir(), words...).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	last := whole.Privacy.SpentBefore - 1
	if last < 4 {
		t.Fatalf("the budget ends after %d rounds: nothing is shown", last)
	}
	dir := t.TempDir()
	stopAfter(t, job(t, dir, words...), 2)
	state, err := os.ReadFile(filepath.Join(dir, checkpointFile))
	if err != nil {
		t.Fatal(err)
	}
	again := job(t, dir, words...)
	again.Resume = true
	stopAfter(t, again, last-1)
	// as if no checkpoint had been saved since
	if err := os.WriteFile(filepath.Join(dir, checkpointFile), state, 0o644); err != nil {
		t.Fatal(err)
	}
	again = job(t, dir, words...)
	again.Resume = true
	res, err := again.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if e := res.Privacy.Epsilon.(float64); e > 8*(1+1e-9) || res.SelectedRound < 2 || res.SelectedRound >= last ||
		res.Privacy.SpentBefore == 0 {
		t.Errorf("epsilon %v, round %d of %d is reported, stopped before %d", e, res.SelectedRound, last,
			res.Privacy.SpentBefore)
	}
}

// Without a checkpoint too, a ledger that is gone or cut is missed: the metrics tell
// how many rounds there were.
func TestAShortenedLedgerIsDetectedWithoutACheckpoint(t *testing.T) {
	for _, keep := range []int{0, 2} {
		dir := t.TempDir()
		first := job(t, dir, private...)
		if _, err := first.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{ResultFile, "checkpoint"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, ledgerFile)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		if err := os.WriteFile(path, bytes.Join(lines[:keep], nil), 0o644); err != nil {
			t.Fatal(err)
		}
		again := job(t, dir, private...)
		again.Resume = true
		if _, err := again.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "shortened") {
			t.Errorf("with %d lines of the ledger left: %v", keep, err)
		}
	}
}
