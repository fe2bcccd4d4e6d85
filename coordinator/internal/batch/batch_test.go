package batch

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

func TestEveryValueIsCommittedOnce(t *testing.T) {
	var got []int
	calls := 0
	q := New(func(values []int) error {
		calls++
		got = append(got, values...)
		return nil
	})
	const n = 1000
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := q.Do(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	q.Stop()
	slices.Sort(got)
	if len(got) != n || got[0] != 0 || got[n-1] != n-1 || len(slices.Compact(got)) != n {
		t.Errorf("%d of %d values were committed", len(got), n)
	}
	if calls < n/maxValues || calls > n {
		t.Errorf("%d commits for %d values", calls, n)
	}
}

func TestAFailedCommitAnswersItsCallers(t *testing.T) {
	bad := errors.New("disk full")
	q := New(func([]int) error { return bad })
	if err := q.Do(1); !errors.Is(err, bad) {
		t.Errorf("the error is %v", err)
	}
	q.Stop()
	q.Stop()
	if err := q.Do(2); !errors.Is(err, ErrStopped) {
		t.Errorf("after Stop the error is %v", err)
	}
}
