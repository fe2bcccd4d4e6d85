package coordinator

import (
	"sync"
	"time"
)

// batch is a queue with one owner, which has what came in a few milliseconds done at once.
type batch[T any] struct {
	commit func([]T) error
	in     chan item[T]
	quit   chan struct{}
	done   sync.WaitGroup
	once   sync.Once
}

type item[T any] struct {
	value  T
	answer chan error
}

const (
	batchMost = 256
	batchWait = 4 * time.Millisecond
)

func newBatch[T any](commit func([]T) error) *batch[T] {
	b := &batch[T]{commit: commit, in: make(chan item[T]), quit: make(chan struct{})}
	b.done.Go(b.run)
	return b
}

// do hands a value in and waits until it is done.
func (b *batch[T]) do(v T) error {
	it := item[T]{v, make(chan error, 1)}
	select {
	case b.in <- it:
		return <-it.answer
	case <-b.quit:
		return errClosed
	}
}

// stop finishes what was handed in and takes nothing more.
func (b *batch[T]) stop() {
	b.once.Do(func() { close(b.quit) })
	b.done.Wait()
}

func (b *batch[T]) run() {
	var items []item[T]
	var values []T
	for {
		items, values = items[:0], values[:0]
		select {
		case it := <-b.in:
			items, values = append(items, it), append(values, it.value)
		case <-b.quit:
			return
		}
		wait := time.NewTimer(batchWait)
	gather:
		for len(items) < batchMost {
			select {
			case it := <-b.in:
				items, values = append(items, it), append(values, it.value)
			case <-wait.C:
				break gather
			}
		}
		wait.Stop()
		err := b.commit(values)
		for _, it := range items {
			it.answer <- err
		}
	}
}
