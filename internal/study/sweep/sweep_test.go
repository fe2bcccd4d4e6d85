package sweep

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// jobs are n jobs that return their index and note in ran that they ran.
func jobs(n int, run func(i int) (int, error)) []*Job[int] {
	var out []*Job[int]
	for i := range n {
		out = append(out, &Job[int]{
			Name: fmt.Sprint("job ", i), Cost: 1, Weight: 1,
			Run: func(context.Context, int) (int, error) { return run(i) },
		})
	}
	return out
}

func start(t *testing.T, jobs []*Job[int], c Config[int]) *Sweep[int] {
	t.Helper()
	s, err := New(jobs, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRunsEachJobOnceForAnyNumberAtATime(t *testing.T) {
	for _, parallel := range []int{1, 4, 50} {
		var events []string
		s := start(t, jobs(20, func(i int) (int, error) { return i * i, nil }), Config[int]{
			Parallel: parallel,
			OnEnd:    func(e Ended[int]) { events = append(events, fmt.Sprint(e.Done, "/", e.Done+e.Left > 0)) },
		})
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, j := range s.Jobs {
			if j.Status != Finished || j.Result != i*i {
				t.Errorf("job %d: status %d, result %d", i, j.Status, j.Result)
			}
		}
		if len(events) != 20 || s.Done() != 20 || len(s.Left()) != 0 {
			t.Errorf("%d events, %d done, %d left; want 20, 20, 0", len(events), s.Done(), len(s.Left()))
		}
	}
}

func TestTakesStoredResultsAndRunsTheRest(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	sweep := func() *Sweep[*int] {
		var all []*Job[*int]
		for i := range 4 {
			file := File[int]{Path: filepath.Join(dir, fmt.Sprint(i)), Valid: func(x *int) bool { return *x == i }}
			all = append(all, &Job[*int]{
				Name: fmt.Sprint(i), Load: file.Load, Store: file.Store,
				Run: func(context.Context, int) (*int, error) {
					runs++
					if i == 2 && runs == 3 {
						return nil, errors.New("disk on fire")
					}
					return &i, nil
				},
			})
		}
		s, err := New(all, Config[*int]{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := sweep().Run(t.Context()); err == nil || runs != 3 {
		t.Fatalf("error %v after %d runs, want the failure of job 2 after 3", err, runs)
	}
	s := sweep()
	if s.Done() != 2 || s.Jobs[0].Status != Stored || *s.Jobs[1].Result != 1 {
		t.Fatalf("%d jobs are stored, want 2", s.Done())
	}
	if err := s.Run(t.Context()); err != nil || runs != 5 {
		t.Errorf("error %v after %d runs, want 5", err, runs)
	}
}

func TestStoresInTheOrderOfTheList(t *testing.T) {
	var stored []int
	release := make(chan struct{})
	all := jobs(6, func(i int) (int, error) {
		if i == 0 {
			<-release // the first job ends last
		}
		return i, nil
	})
	for _, j := range all {
		j.Store = func(i int) error {
			stored = append(stored, i)
			return nil
		}
	}
	s := start(t, all, Config[int]{Parallel: 2, InOrder: true, OnEnd: func(e Ended[int]) {
		if e.Done == 5 {
			close(release)
		}
	}})
	if err := s.Run(t.Context()); err != nil || !slices.Equal(stored, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("stored %v, %v", stored, err)
	}
}

func TestInterruptKeepsWhatIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	all := jobs(5, func(i int) (int, error) {
		if i == 2 {
			cancel()
			return 0, ctx.Err()
		}
		return i, nil
	})
	s := start(t, all, Config[int]{})
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	if s.Done() != 2 || all[2].Status != Waiting || all[3].Reason() != "not run" {
		t.Errorf("%d done; job 2 has status %d; job 3: %s", s.Done(), all[2].Status, all[3].Reason())
	}
}

func TestStartsOnlyJobsThatFitIntoTheLimit(t *testing.T) {
	all := jobs(3, func(i int) (int, error) { return i, nil })
	all[1].Cost = 3601
	all[2].Skip = "no features"
	s := start(t, all, Config[int]{Limit: time.Hour})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !all[0].Done() || all[1].Status != NotStarted || all[2].Status != Impossible {
		t.Errorf("statuses %d %d %d", all[0].Status, all[1].Status, all[2].Status)
	}
	if !strings.Contains(all[1].Reason(), "exceeds the time left") || all[2].Reason() != "no features" {
		t.Errorf("reasons %q and %q", all[1].Reason(), all[2].Reason())
	}
}

func TestStopsAJobAtTheLimit(t *testing.T) {
	var ended []Status
	slow := &Job[int]{Name: "slow", Run: func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	s := start(t, []*Job[int]{slow}, Config[int]{
		Limit: time.Millisecond, OnEnd: func(e Ended[int]) { ended = append(ended, e.Job.Status) },
	})
	if err := s.Run(t.Context()); err != nil || slow.Status != TimedOut || !slices.Equal(ended, []Status{TimedOut}) {
		t.Errorf("error %v, status %d, events %v", err, slow.Status, ended)
	}
	if strings.Contains(slow.Reason(), "context") {
		t.Errorf("the reason is %q, want one that users understand", slow.Reason())
	}
}

// The first job takes 200 times as long as estimated: jobs of other groups are scaled by it, those
// of its own group are estimated at its time.
func TestLearnsTheSpeedOfTheMachine(t *testing.T) {
	all := jobs(4, nil)
	for i, j := range all {
		j.Cost = float64(10 + i/2)
		j.Group = fmt.Sprint(i / 2)
	}
	s := start(t, all, Config[int]{Limit: 2100 * time.Second})
	first := s.next(t.Context())
	if err := s.end(t.Context(), first, 0, nil, 2000*time.Second); err != nil {
		t.Fatal(err)
	}
	next := s.next(t.Context())
	if first != all[0] || next != all[1] || all[2].Status != Waiting && all[2].Status != NotStarted {
		t.Fatalf("after %s comes %v", first.Name, next)
	}
	if s.next(t.Context()) != nil || all[2].Status != NotStarted || all[3].Status != NotStarted {
		t.Errorf("jobs of 11 s, which take 2200 s here, have the statuses %d and %d", all[2].Status, all[3].Status)
	}
}
