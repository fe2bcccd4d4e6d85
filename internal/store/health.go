package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Fault names what keeps the folder from being written.
type Fault string

// The faults of a folder. All but DiskError are waited for without a limit.
const (
	DiskFull     Fault = "disk-full"
	ReadOnly     Fault = "read-only"
	SlowDisk     Fault = "slow-disk" // a write takes longer than 5 s
	TooManyFiles Fault = "too-many-files"
	LowMemory    Fault = "low-memory"
	DiskError    Fault = "disk-error"
)

// Health says whether the folder can be written.
type Health struct {
	Fault  Fault     // empty if writes succeed
	Detail string    // explains the fault to people
	Since  time.Time // when the fault began
	Free   uint64    // bytes of the file system that are free; 0 if unknown
	Size   uint64    // bytes of the file system; 0 if unknown
	Low    bool      // less than the reserve is free: accept nothing that can wait
}

const (
	slowAfter = 5 * time.Second
	// probeEvery is the time between attempts to write to a folder that has a fault.
	probeEvery = time.Second
	// probeBytes, and what waits to be written, must be free before a folder without space is used again.
	probeBytes = 1 << 20
	// giveUpAfter is how long a disk may return errors that do not say what would end them.
	giveUpAfter = 5 * time.Minute
	// Reserve, or a twentieth of a small file system, stays free for what must be written.
	Reserve = 64 << 20
)

// faultOf names the fault behind an error; empty if the disk did not cause it.
func faultOf(err error) Fault {
	for fault, all := range map[Fault][]syscall.Errno{
		DiskFull:     {syscall.ENOSPC, syscall.EDQUOT},
		ReadOnly:     {syscall.EROFS, syscall.EACCES, syscall.EPERM},
		TooManyFiles: {syscall.EMFILE, syscall.ENFILE},
		LowMemory:    {syscall.ENOMEM},
		DiskError:    {syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE, syscall.ETIMEDOUT},
	} {
		for _, e := range all {
			if errors.Is(err, e) {
				return fault
			}
		}
	}
	return ""
}

// text explains a fault to people.
func (f Fault) text(err error) string {
	switch f {
	case DiskFull:
		return "the coordinator's disk is full; when there is space again, training continues by itself"
	case ReadOnly:
		return fmt.Sprintf("the coordinator's folder cannot be written (%v); when it can, training continues by itself",
			reason(err))
	case TooManyFiles:
		return "the coordinator has too many open files; its limit (ulimit -n, LimitNOFILE=) is too low"
	case LowMemory:
		return "the system refuses memory to the coordinator"
	}
	return fmt.Sprintf("the coordinator's disk returns errors (%v)", reason(err))
}

// reason is the operating system's part of an error.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Health may be called at any time and never waits for the disk.
func (s *Store) Health() Health {
	h := Health{}
	if f := s.fault.Load(); f != nil {
		h = *f
	} else if since := s.pending.oldest(); !since.IsZero() && time.Since(since) > s.slow {
		h.Fault, h.Since = SlowDisk, since
		h.Detail = fmt.Sprintf("the coordinator's disk has not finished a write in %v",
			time.Since(since).Round(time.Second))
	}
	h.Free, h.Size = s.space.get(s.dir)
	h.Low = h.Fault == DiskFull || h.Size > 0 && h.Free < min(Reserve, h.Size/20)
	return h
}

// space caches the size of the file system: a full disk may answer slowly.
type space struct {
	mu         sync.Mutex
	at         time.Time
	free, size uint64
}

func (c *space) get(dir string) (free, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > 200*time.Millisecond {
		c.free, c.size = diskSpace(dir)
		c.at = time.Now()
	}
	return c.free, c.size
}

// pending are the writes that the disk has not finished.
type pending struct {
	mu    sync.Mutex
	began map[*write]bool
}

type write struct {
	at    time.Time
	bytes int
}

func (p *pending) begin(bytes int) *write {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == nil {
		p.began = map[*write]bool{}
	}
	w := &write{time.Now(), bytes}
	p.began[w] = true
	return w
}

func (p *pending) end(w *write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.began, w)
}

func (p *pending) oldest() (at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.began {
		if at.IsZero() || w.at.Before(at) {
			at = w.at
		}
	}
	return at
}

// bytes is the size of all of them.
func (p *pending) bytes() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.began {
		n += w.bytes
	}
	return n
}

// probe reports whether the folder can be written.
func (s *Store) probe() error {
	if s.fail != nil {
		if err := s.fail("probe"); err != nil {
			return err
		}
	}
	need := s.pending.bytes()
	if err := s.room(need); err != nil {
		return err
	}
	return s.tryWrite(probeBytes + need)
}

// room returns an error unless probeBytes and some more are free.
func (s *Store) room(more int) error {
	if free, size := diskSpace(s.dir); size > 0 && free < probeBytes+uint64(more) {
		return fmt.Errorf("the disk of %s is full: %d kB are free, at least %d kB are required: %w", s.dir, free>>10,
			(probeBytes+more)>>10, syscall.ENOSPC)
	}
	return nil
}

// tryWrite writes a file and removes it.
func (s *Store) tryWrite(bytes int) error {
	s.probing.Lock()
	defer s.probing.Unlock()
	path := filepath.Join(s.dir, "probe")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, bytes))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(path))
}
