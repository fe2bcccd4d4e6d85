// Package batch commits values in groups: one goroutine collects what arrives within a few
// milliseconds and commits it with one call, so that many callers share one disk sync. It never
// reorders, repeats or drops a value that it accepted. Its one convention: a caller waits until
// the commit that holds its value has returned.
package batch

import (
	"errors"
	"sync"
	"time"
)

// ErrStopped says that the queue accepts no more values.
var ErrStopped = errors.New("the queue is stopped")

// Limits of a group.
const (
	maxValues = 256
	maxWait   = 4 * time.Millisecond
)

// Queue commits values in groups.
type Queue[T any] struct {
	commit func([]T) error
	in     chan entry[T]
	quit   chan struct{}
	done   sync.WaitGroup
	once   sync.Once
}

type entry[T any] struct {
	value  T
	answer chan error
}

// New starts a queue. Only one call of commit runs at a time.
func New[T any](commit func([]T) error) *Queue[T] {
	q := &Queue[T]{commit: commit, in: make(chan entry[T]), quit: make(chan struct{})}
	q.done.Go(q.run)
	return q
}

// Do adds a value and waits until it is committed. It returns the error of the commit.
func (q *Queue[T]) Do(value T) error {
	e := entry[T]{value, make(chan error, 1)}
	select {
	case q.in <- e:
		return <-e.answer
	case <-q.quit:
		return ErrStopped
	}
}

// Stop commits the values that were accepted and accepts no more.
func (q *Queue[T]) Stop() {
	q.once.Do(func() { close(q.quit) })
	q.done.Wait()
}

func (q *Queue[T]) run() {
	for {
		entries, ok := q.next()
		if !ok {
			return
		}
		values := make([]T, len(entries))
		for i, e := range entries {
			values[i] = e.value
		}
		err := q.commit(values)
		for _, e := range entries {
			e.answer <- err
		}
	}
}

// next collects one group; false when the queue is stopped.
func (q *Queue[T]) next() (group []entry[T], ok bool) {
	select {
	case e := <-q.in:
		group = append(group, e)
	case <-q.quit:
		return nil, false
	}
	wait := time.NewTimer(maxWait)
	defer wait.Stop()
	for len(group) < maxValues {
		select {
		case e := <-q.in:
			group = append(group, e)
		case <-wait.C:
			return group, true
		}
	}
	return group, true
}
