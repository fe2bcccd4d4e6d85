package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/store/disktest"
)

// fillDisk leaves no space on the disk of a folder, and returns a function that frees it.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	must(t, err)
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	must(t, f.Close())
	return func() { must(t, os.Remove(path)) }
}

func waitFault(t *testing.T, s *Store, want Fault) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); s.Health().Fault != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the fault is %+v, want %q", s.Health(), want)
		}
	}
}

// A full disk delays writes and fails none. When there is space again they continue: everything
// is there once, in its order, also after a reopen.
func TestAFullDiskDelaysWrites(t *testing.T) {
	disk := disktest.Small(t, 8)
	dir := filepath.Join(disk, "state")
	s, err := Open(dir, Options{ProbeEvery: 10 * time.Millisecond})
	must(t, err)
	const logs = 3
	var wrote [logs]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := s.Append(fmt.Sprint(i), []byte(strconv.Itoa(n))); err != nil {
					t.Error(err)
					return
				}
				if err := s.Put(fmt.Sprint(i), []byte(strconv.Itoa(n))); err != nil {
					t.Error(err)
					return
				}
				wrote[i].Store(int64(n + 1))
			}
		})
	}
	more := func(n int64) {
		for i := range logs {
			for was := wrote[i].Load(); wrote[i].Load() < was+n && !t.Failed(); time.Sleep(time.Millisecond) {
			}
		}
	}
	for range 2 {
		more(5)
		free := fillDisk(t, disk)
		waitFault(t, s, DiskFull)
		if h := s.Health(); h.Detail == "" || h.Size == 0 || !h.Low {
			t.Errorf("a full disk: %+v", h)
		}
		free()
		waitFault(t, s, "")
	}
	more(5)
	stop.Store(true)
	wg.Wait()
	check := func() {
		for i := range logs {
			all := records(t, s, fmt.Sprint(i))
			for n, r := range all {
				if string(r) != strconv.Itoa(n) {
					t.Fatalf("record %d of log %d is %s", n, i, r)
				}
			}
			if int64(len(all)) != wrote[i].Load() {
				t.Errorf("log %d has %d records, and %d were written", i, len(all), wrote[i].Load())
			}
		}
	}
	check()
	must(t, s.Close())
	s = open(t, dir)
	check()
	must(t, s.Verify())
}

// A blob that does not fit waits until it does.
func TestALargeBlobWaitsForSpace(t *testing.T) {
	disk := disktest.Small(t, 12)
	s, err := Open(filepath.Join(disk, "state"), Options{ProbeEvery: 10 * time.Millisecond})
	must(t, err)
	defer s.Close()
	must(t, os.WriteFile(filepath.Join(disk, "other"), make([]byte, 8<<20), 0o600))
	done := make(chan error)
	var h Hash
	go func() {
		var err error
		h, err = s.PutBlob(make([]byte, 6<<20))
		done <- err
	}()
	waitFault(t, s, DiskFull)
	must(t, os.Remove(filepath.Join(disk, "other")))
	must(t, <-done)
	if b, err := s.Blob(h); err != nil || len(b) != 6<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// Whatever fails, and whether the record was written before or not, it is there once.
func TestAWriteThatFailsIsWrittenOnce(t *testing.T) {
	for fault, errno := range map[Fault]error{
		DiskFull: syscall.ENOSPC, ReadOnly: syscall.EROFS, TooManyFiles: syscall.EMFILE, DiskError: syscall.EIO,
		LowMemory: syscall.ENOMEM,
	} {
		for _, point := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s %s", fault, point), func(t *testing.T) {
				t.Parallel()
				var broken atomic.Bool
				var failed atomic.Int64
				dir := t.TempDir()
				o := Options{part: 1 << 10, ProbeEvery: 10 * time.Millisecond, fail: func(at string) error {
					if broken.Load() && (at == "probe" || strings.HasPrefix(at, point)) {
						failed.Add(1)
						return &os.PathError{Op: "write", Path: dir, Err: errno}
					}
					return nil
				}}
				s, err := Open(dir, o)
				must(t, err)
				defer func() { s.Close() }()
				long := make([]byte, 5000)
				must(t, s.Append("log", []byte("first")))
				var wg sync.WaitGroup
				for i, write := range []func() error{
					func() error { return s.Put("value", []byte("x")) },
					func() error { return s.Append("log", long) },
					func() error { return s.Append("other", []byte("y")) },
					func() error { _, err := s.PutBlob(long); return err },
				} {
					broken.Store(true)
					was := failed.Load()
					wg.Go(func() {
						if err := write(); err != nil {
							t.Errorf("write %d: %v", i, err)
						}
					})
					waitFault(t, s, fault)
					for failed.Load() < was+2 { // the write and a probe
						time.Sleep(time.Millisecond)
					}
					broken.Store(false)
					wg.Wait()
				}
				must(t, s.Close())
				s, err = Open(dir, o)
				must(t, err)
				must(t, s.Verify())
				if v, _ := s.Get("value"); string(v) != "x" {
					t.Errorf("the value is %q", v)
				}
				if all := records(t, s, "log"); len(all) != 2 || !slices.Equal(all[1], long) {
					t.Errorf("the log has %d records, want 2", len(all))
				}
				if n := len(records(t, s, "other")); n != 1 || len(s.Blobs()) != 1 {
					t.Errorf("the other log has %d records and there are %d blobs, want 1 of each", n, len(s.Blobs()))
				}
			})
		}
	}
}

// Writes that wait return when they are interrupted, and the folder is that of a crash.
func TestAnInterruptedWaitReturns(t *testing.T) {
	var broken atomic.Bool
	dir := t.TempDir()
	s, err := Open(dir, Options{fail: func(string) error {
		if broken.Load() {
			return syscall.EROFS
		}
		return nil
	}})
	must(t, err)
	must(t, s.Append("log", []byte("first")))
	broken.Store(true)
	ended := make(chan error, 2)
	go func() { ended <- s.Append("log", []byte("second")) }()
	go func() { ended <- s.Retry(func() error { return syscall.ENOSPC }) }()
	waitFault(t, s, ReadOnly)
	for range 2 {
		for done := false; !done; {
			s.Interrupt()
			select {
			case err := <-ended:
				done = true
				if !errors.Is(err, ErrInterrupted) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
	must(t, s.Close())
	if n := len(records(t, open(t, dir), "log")); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// A purge that the disk refuses blocks the embedded server for ever. The store gives up on it: drops and
// Close return, and whoever opens the folder when there is space finds everything that was acknowledged.
func TestAPurgeOnAFullDiskEnds(t *testing.T) {
	disk := disktest.Small(t, 8)
	dir := filepath.Join(disk, "state")
	s, err := Open(dir, Options{ProbeEvery: 10 * time.Millisecond, SlowAfter: time.Nanosecond})
	must(t, err)
	must(t, s.Append("log", []byte("kept")))
	s.pins++ // purges wait
	for i := range 400 {
		h, err := s.PutBlob([]byte(strconv.Itoa(i)))
		must(t, err)
		must(t, s.DropBlob(h))
	}
	s.pins--
	free := fillDisk(t, disk)

	// Without space, the server is not asked to purge anything.
	must(t, s.purgeDropped())
	if len(s.dropped) != 400 {
		t.Errorf("a full disk was asked to purge %d chains", 400-len(s.dropped))
	}

	// If it is asked, a stop ends the wait, and otherwise a limit.
	s.stopWithin = 10 * time.Millisecond
	ended := make(chan error)
	for err = nil; err == nil; { // until the server is stuck: one of the purges needs another page
		s.purgeWithin = time.Hour
		go func() {
			var err error
			for i := 0; i < len(s.dropped) && err == nil; i++ {
				err = s.purgeChain(s.dropped[i])
			}
			ended <- err
		}()
		for end := false; !end; {
			select {
			case err := <-ended:
				if end = true; !errors.Is(err, ErrInterrupted) {
					t.Fatalf("the purge ended with %v", err)
				}
			case <-time.After(50 * time.Millisecond): // again and again: it may come between two purges
				s.Interrupt()
			}
		}
		s.purgeWithin = 10 * time.Millisecond
		err = s.purgeChain(s.dropped[0])
	}
	if !errors.Is(err, ErrDiskFailed) {
		t.Errorf("the purge of a stuck server ended with %v", err)
	}
	if err := s.Put("value", nil); !errors.Is(err, ErrDiskFailed) {
		t.Errorf("a write after it ended with %v", err)
	}
	must(t, s.Close())
	if _, err := Open(dir, Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk was opened: %v", err)
	}
	free()
	s = open(t, dir)
	must(t, s.Verify())
	if n := len(records(t, s, "log")); n != 1 {
		t.Errorf("the log has %d records, want 1", n)
	}
}
