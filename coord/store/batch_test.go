package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// The use it is for: items are merged into a running sum, the record holds the
// ids of a group and its sum.
func TestABatchMakesOneRecordOfManyItems(t *testing.T) {
	s := open(t, t.TempDir())
	const senders, each = 50, 20
	var sum uint64
	inside := false
	odd := errors.New("odd")
	b := NewBatch(64, 2*time.Millisecond, func(n uint64) error {
		if inside {
			t.Error("merge is called while another call is at work")
		}
		if n%2 == 1 {
			return odd
		}
		sum += n
		return nil
	}, func(items []uint64) error {
		inside = true
		defer func() { inside = false }()
		if len(items) < 1 || len(items) > 64 {
			t.Errorf("a group of %d items, want 1 to 64", len(items))
		}
		record := binary.LittleEndian.AppendUint64(nil, sum)
		for _, n := range items {
			record = binary.LittleEndian.AppendUint64(record, n)
		}
		sum = 0
		return s.Append("reports", record)
	})
	before := s.Stats().Syncs
	var wg sync.WaitGroup
	for i := range uint64(senders) {
		wg.Go(func() {
			for j := range uint64(each) {
				n := i*each + j
				if err := b.Do(t.Context(), n); (n%2 == 1) != errors.Is(err, odd) {
					t.Errorf("item %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	b.Close()
	if err := b.Do(t.Context(), 2); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed batch answers %v", err)
	}
	got := reported(t, s)
	slices.Sort(got)
	for i, n := range got {
		if n != uint64(2*i) {
			t.Fatalf("item %d is %d: lost, or counted twice", i, n)
		}
	}
	st, syncs := b.Stats(), s.Stats().Syncs-before
	if len(got) != senders*each/2 || st.Items != uint64(len(got)) || st.Refused != senders*each/2 {
		t.Errorf("%d items on disk, stats %+v; want %d", len(got), st, senders*each/2)
	}
	if syncs != st.Records+1 || st.Records*2 > st.Items {
		t.Errorf("%d items took %d records and %d syncs; want fewer than half as many", st.Items, st.Records, syncs)
	}
}

// reported lists the items of all records, and checks each record's sum.
func reported(t *testing.T, s *Store) (got []uint64) {
	t.Helper()
	for _, r := range records(t, s, "reports") {
		total := binary.LittleEndian.Uint64(r)
		for r = r[8:]; len(r) > 0; r = r[8:] {
			n := binary.LittleEndian.Uint64(r)
			total -= n
			got = append(got, n)
		}
		if total != 0 {
			t.Errorf("a record's sum is off by %d", int64(total))
		}
	}
	return got
}

func TestABatchThatCouldNotCommitTakesNothingMore(t *testing.T) {
	full := errors.New("disk full")
	calls := 0
	b := NewBatch(8, time.Millisecond, nil, func([]int) error { calls++; return full })
	defer b.Close()
	for range 3 {
		if err := b.Do(t.Context(), 1); !errors.Is(err, full) {
			t.Errorf("got %v, want %v", err, full)
		}
	}
	if st := b.Stats(); calls != 1 || st.Items != 0 || st.Records != 0 {
		t.Errorf("commit was called %d times, stats %+v; want once, nothing on disk", calls, st)
	}
}

func TestABatchDoesNotKeepACallerThatLeaves(t *testing.T) {
	hold := make(chan struct{})
	b := NewBatch(1, 0, nil, func([]int) error { <-hold; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := b.Do(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(hold)
	b.Close()
	if b.Stats().Items != 1 {
		t.Error("an item that was taken in is not on disk after Close")
	}
}
