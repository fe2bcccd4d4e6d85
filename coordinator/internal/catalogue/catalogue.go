// Package catalogue keeps the items of a run and their public features, and the additions and
// changes of an operator until the coordinator takes them in between two rounds. It never learns
// which device has which item. Its one convention: an addition is on disk when Add returns.
package catalogue

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// Catalogue is the items of a run. Its methods may be called from many goroutines.
type Catalogue struct {
	store *store.Store

	writing sync.Mutex // one change at a time; mu is not held while the disk is written

	mu       sync.Mutex
	current  *pb.Catalogue
	features *rows.Features
	pending  []*pb.Item
}

// pendingLog holds the items that wait for the next round.
const pendingLog = "pending"

// Open loads the items that wait. Set must follow before Add.
func Open(st *store.Store) (*Catalogue, error) {
	c := &Catalogue{store: st}
	err := st.Replay(pendingLog, func(b []byte) error {
		r := &pb.Catalogue{}
		if err := proto.Unmarshal(b, r); err != nil {
			return fmt.Errorf("the log of pending items is corrupt: %w", err)
		}
		c.pending = append(c.pending, r.Items...)
		return nil
	})
	return c, err
}

// Set replaces the items and their features. They must not be changed afterwards.
func (c *Catalogue) Set(items *pb.Catalogue, features *rows.Features) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.features = items, features
}

// Current is the catalogue; nil before Set. It must not be changed.
func (c *Catalogue) Current() *pb.Catalogue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Features are the public features of the items; nil if the method reads none.
func (c *Catalogue) Features() *rows.Features {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.features
}

// Added is what Add queued. The change takes effect in the next round.
type Added struct {
	Version uint64 `json:"catalogue_version"`
	Added   int    `json:"added"`   // items
	Changed int    `json:"changed"` // items
	Waiting int    `json:"waiting"` // earlier changes that have not taken effect yet
}

// Add queues items to be added or changed. An invalid one leaves the queue as it was.
func (c *Catalogue) Add(items []*pb.Item) (*Added, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	current, features, waiting := c.current, c.features, c.pending
	c.mu.Unlock()
	pending := append(slices.Clone(waiting), items...)
	after, err := Merge(current, pending)
	if err != nil {
		return nil, &InvalidError{err}
	}
	if _, err := mergeFeatures(features, current, pending); err != nil {
		return nil, &InvalidError{err}
	}
	before, err := Merge(current, waiting)
	if err != nil {
		return nil, err
	}
	b, err := proto.Marshal(&pb.Catalogue{Items: items})
	if err != nil {
		return nil, err
	}
	if err := c.store.Append(pendingLog, b); err != nil {
		return nil, err
	}
	out := &Added{
		Version: after.Catalogue.Version, Added: after.Added - before.Added, Changed: after.Changed - before.Changed,
		Waiting: len(waiting),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = pending
	return out, nil
}

// InvalidError says which item or feature is invalid.
type InvalidError struct{ err error }

func (e *InvalidError) Error() string { return e.err.Error() }

// Pending is the number of items that wait.
func (c *Catalogue) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// Next is the catalogue and the features with the first n pending items merged in.
func (c *Catalogue) Next(n int) (*pb.Catalogue, *rows.Features, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	merged, err := Merge(c.current, c.pending[:n])
	if err != nil {
		return nil, nil, err
	}
	features, err := mergeFeatures(c.features, c.current, c.pending[:n])
	return merged.Catalogue, features, err
}

// Remove removes the first n pending items. The log on disk stays until the queue is empty: merging
// items a second time changes nothing.
func (c *Catalogue) Remove(n int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.pending = c.pending[n:]
	left := len(c.pending)
	c.mu.Unlock()
	if left > 0 {
		return nil
	}
	return c.store.Drop(pendingLog)
}

// Merged is a catalogue after Merge.
type Merged struct {
	Catalogue *pb.Catalogue
	Added     int
	Changed   int
}

// Merge returns a copy of a catalogue with items added, or changed if their ID is known.
func Merge(c *pb.Catalogue, items []*pb.Item) (Merged, error) {
	out := Merged{Catalogue: proto.Clone(c).(*pb.Catalogue)}
	next := out.Catalogue
	next.Version++
	at := map[string]int{}
	for i, it := range next.Items {
		at[it.Id] = i
	}
	for _, it := range items {
		it = proto.Clone(it).(*pb.Item)
		it.Features = nil // mergeFeatures keeps them
		i, known := at[it.Id]
		if !known {
			at[it.Id] = len(next.Items)
			next.Items = append(next.Items, it)
			out.Added++
			continue
		}
		if it.Title == "" {
			it.Title = next.Items[i].Title
		}
		next.Items[i] = it
		out.Changed++
	}
	b, err := wire.Marshal(next)
	if err != nil {
		return out, err
	}
	_, err = wire.ReadCatalogue(b, len(next.Items))
	return out, err
}
