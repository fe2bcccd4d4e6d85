package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A snapshot keeps neither records nor the lock of the index: while it is read, values, logs and blobs
// change and are removed, and it shows what was there before.
func TestWritesContinueDuringASnapshot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must(t, s.Put("value", []byte("old")))
	for i := range 3 {
		must(t, s.Append("log", fmt.Append(nil, i)))
		must(t, s.Append("removed", fmt.Append(nil, i)))
	}
	h, err := s.PutBlob([]byte("blob"))
	must(t, err)
	must(t, s.Snapshot(func() error { return nil }, func(x *Snapshot) error {
		must(t, s.Put("value", []byte("new")))
		must(t, s.Append("log", []byte("later")))
		must(t, s.Append("another", []byte("later")))
		must(t, s.Drop("removed"))
		must(t, s.DropBlob(h))
		if len(x.Logs) != 2 || string(x.Values["value"]) != "old" {
			t.Errorf("the snapshot has %v and %q", x.Logs, x.Values)
		}
		for _, log := range x.Logs {
			n := 0
			must(t, x.Replay(log, func(record []byte) error {
				if string(record) != fmt.Sprint(n) {
					t.Errorf("record %d of %s is %s", n, log, record)
				}
				n++
				return nil
			}))
			if n != 3 {
				t.Errorf("%s has %d records, want 3", log, n)
			}
		}
		b, err := x.Blob(h)
		if string(b) != "blob" {
			t.Errorf("the blob is %q, %v", b, err)
		}
		return nil
	}))
	if len(s.dropped) != 0 {
		t.Errorf("%d removals were not made", len(s.dropped))
	}
	must(t, s.Close())
	s = open(t, dir)
	if n := len(records(t, s, "log")); n != 4 || len(records(t, s, "removed")) != 0 || len(s.Blobs()) != 0 {
		t.Errorf("the log has %d records, and there are %d blobs", n, len(s.Blobs()))
	}
	must(t, s.Verify())
}

// After five minutes of errors that do not say what would end them, writes fail, and so do all later
// ones.
func TestADiskThatReturnsErrorsForTooLong(t *testing.T) {
	var passed atomic.Int64
	var broken atomic.Bool
	start := time.Now()
	s, err := Open(t.TempDir(), Options{
		ProbeEvery: time.Millisecond, Now: func() time.Time { return start.Add(time.Duration(passed.Load())) },
		fail: func(string) error {
			if broken.Load() {
				return syscall.EIO
			}
			return nil
		},
	})
	must(t, err)
	defer s.Close()
	broken.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- s.Append("log", []byte("x")) }()
	waitFault(t, s, DiskError)
	passed.Store(int64(giveUpAfter - time.Second))
	select {
	case err := <-ended:
		t.Fatalf("it gave up early: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	passed.Store(int64(giveUpAfter + time.Second))
	if err := <-ended; !errors.Is(err, ErrDiskFailed) {
		t.Errorf("it ended with %v", err)
	}
	broken.Store(false)
	if err := s.Put("value", nil); !errors.Is(err, ErrDiskFailed) {
		t.Errorf("a later write: %v", err)
	}
}

// A check shows a fault although nobody writes, and the fault ends by itself.
func TestACheckFindsAFault(t *testing.T) {
	var broken atomic.Bool
	s, err := Open(t.TempDir(), Options{ProbeEvery: time.Millisecond, fail: func(string) error {
		if broken.Load() {
			return syscall.EROFS
		}
		return nil
	}})
	must(t, err)
	must(t, s.Check())
	broken.Store(true)
	if err := s.Check(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a check returns %v", err)
	}
	waitFault(t, s, ReadOnly)
	broken.Store(false)
	waitFault(t, s, "")
	must(t, s.Append("log", []byte("x")))
	broken.Store(true)
	_ = s.Check() // Close ends the wait
	must(t, s.Close())
}
