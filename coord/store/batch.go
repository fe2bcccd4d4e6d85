package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the answer of a Batch that takes no more items.
var ErrClosed = errors.New("store: closed")

// A Batch makes one record of many items, so that they share one sync. Many
// goroutines hand items in; one owner calls merge for each and commit for a
// group of them, never two calls at once, so that both may use a running sum
// without a lock.
type Batch[T any] struct {
	max    int
	wait   time.Duration
	merge  func(T) error
	commit func([]T) error

	in   chan request[T]
	quit chan struct{}
	done chan struct{}
	once sync.Once

	items, refused, records atomic.Uint64
}

type request[T any] struct {
	item   T
	answer chan error
}

// BatchStats counts what a Batch did.
type BatchStats struct {
	Items   uint64 // that are on disk
	Refused uint64 // that merge refused
	Records uint64 // that they are in
}

// NewBatch starts an owner. A group is committed when it has max items, or wait
// after its first one. merge takes an item in, or refuses it with an error that
// its sender gets; nil takes all. commit returns when the group is on disk. An
// error of commit is the answer to its group and to all items after it: the
// owner can no longer say what is on disk.
func NewBatch[T any](max int, wait time.Duration, merge func(T) error, commit func([]T) error) *Batch[T] {
	if max < 1 {
		panic("store: a batch of less than one item")
	}
	if merge == nil {
		merge = func(T) error { return nil }
	}
	b := &Batch[T]{
		max: max, wait: wait, merge: merge, commit: commit,
		in: make(chan request[T], max), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go b.own()
	return b
}

// Do hands an item in and returns when it is on disk, or refused. After ctx's
// end the item may be on disk or not.
func (b *Batch[T]) Do(ctx context.Context, item T) error {
	r := request[T]{item, make(chan error, 1)}
	select {
	case b.in <- r:
	case <-b.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-b.done:
	}
	// The owner is gone; it has answered, or the item came too late for it.
	select {
	case err := <-r.answer:
		return err
	default:
		return ErrClosed
	}
}

// Close commits what was handed in and ends the owner.
func (b *Batch[T]) Close() {
	b.once.Do(func() { close(b.quit) })
	<-b.done
}

// Stats may be called at any time.
func (b *Batch[T]) Stats() BatchStats {
	return BatchStats{Items: b.items.Load(), Refused: b.refused.Load(), Records: b.records.Load()}
}

func (b *Batch[T]) own() {
	defer close(b.done)
	var broken error
	for {
		select {
		case r := <-b.in:
			broken = b.group(r, broken)
		case <-b.quit:
			for {
				select {
				case r := <-b.in:
					broken = b.group(r, broken)
				default:
					return
				}
			}
		}
	}
}

// group collects items after the first and commits them.
func (b *Batch[T]) group(r request[T], broken error) error {
	if broken != nil {
		r.answer <- broken
		return broken
	}
	var items []T
	var answers []chan error
	take := func(r request[T]) {
		if err := b.merge(r.item); err != nil {
			b.refused.Add(1)
			r.answer <- err
			return
		}
		items = append(items, r.item)
		answers = append(answers, r.answer)
	}
	take(r)
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	for waiting := true; waiting && len(items) < b.max; {
		select {
		case r := <-b.in:
			take(r)
			continue
		default:
		}
		select {
		case r := <-b.in:
			take(r)
		case <-timer.C:
			waiting = false
		case <-b.quit:
			waiting = false
		}
	}
	if len(items) == 0 {
		return nil
	}
	err := b.commit(items)
	if err == nil {
		b.items.Add(uint64(len(items)))
		b.records.Add(1)
	}
	for _, a := range answers {
		a <- err
	}
	return err
}
