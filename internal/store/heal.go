package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// A write that the disk refuses waits until the disk accepts writes again: callers see a slow
// write and no error. The embedded server does not recover from such a write, so it is stopped;
// when a probe succeeds, the folder is verified and the server started again. A write whose answer
// was lost may be on disk: it is looked for before it is repeated, so nothing is written twice.
// A server that does not stop, because it waits for itself, cannot be replaced safely: the store
// gives up with ErrDiskFailed, and the process has to be started again.

// ErrInterrupted says that a write waited for the disk when Interrupt was called. The record may be
// on disk or not, as after a crash.
var ErrInterrupted = errors.New("stopped while the disk refused writes")

// ErrDiskFailed says that the disk returned errors for too long.
var ErrDiskFailed = errors.New("the disk does not accept writes")

var errEngineStopped = errors.New("the embedded server is stopped")

// healer replaces the engine of a store after the disk refused a write.
type healer struct {
	live       atomic.Bool // the folder is open: faults are waited for
	fault      atomic.Pointer[Health]
	generation atomic.Uint64 // of the engine

	use sync.RWMutex // guards eng
	eng *engine      // nil while there is a fault

	one    sync.Mutex // one goroutine heals
	broken error      // why the folder cannot be used any more

	quitting sync.Mutex
	quit     chan struct{} // closed by Interrupt

	every time.Duration // between probes
	slow  time.Duration // after which a write counts as slow

	purgeWithin time.Duration // after which the engine counts as stuck
	stopWithin  time.Duration // that the engine has to stop

	now    func() time.Time
	healed time.Time // when the last fault ended
	checks sync.WaitGroup

	probing sync.Mutex // guards the file that probes write
	pending pending
	space   space
}

// once calls f with the engine.
func (s *Store) once(f func(e *engine) error) error {
	e := s.engine()
	if e == nil {
		return errEngineStopped
	}
	return f(e)
}

func (s *Store) engine() *engine {
	s.use.RLock()
	defer s.use.RUnlock()
	return s.eng
}

func (s *Store) setEngine(e *engine) {
	s.use.Lock()
	defer s.use.Unlock()
	s.eng = e
}

// writing calls f, and again each time the disk had refused a write and accepts writes again.
func (s *Store) writing(f func(e *engine) error) error {
	for {
		generation := s.generation.Load()
		err := s.once(f)
		final := errors.Is(err, ErrFenced) || errors.Is(err, ErrInterrupted) || errors.As(err, new(*Damage))
		if err == nil || final || !s.live.Load() {
			return err
		}
		if err := s.heal(generation, err); err != nil {
			return err
		}
	}
}

// reading is writing for reads: only an engine that was stopped is waited for.
func (s *Store) reading(f func(e *engine) error) error {
	for {
		generation := s.generation.Load()
		err := s.once(f)
		stopped := errors.Is(err, errEngineStopped) || errors.Is(err, nats.ErrConnectionClosed) ||
			errors.Is(err, nats.ErrNoResponders)
		if !stopped || !s.live.Load() {
			return err
		}
		if err := s.heal(generation, err); err != nil {
			return err
		}
	}
}

// Retry calls f until it returns nil or an error that the disk did not cause. In between it waits
// until the disk accepts writes again. It is for files beside the store; f may be called often.
func (s *Store) Retry(f func() error) error {
	defer s.pending.end(s.pending.begin(0))
	for {
		generation := s.generation.Load()
		err := f()
		if err == nil || faultOf(err) == "" || !s.live.Load() {
			return err
		}
		if err := s.heal(generation, err); err != nil {
			return err
		}
	}
}

// Interrupt lets all writes return that wait for the disk now, with ErrInterrupted.
func (s *Store) Interrupt() {
	s.quitting.Lock()
	defer s.quitting.Unlock()
	close(s.quit)
	s.quit = make(chan struct{})
}

func (s *Store) interrupted() <-chan struct{} {
	s.quitting.Lock()
	defer s.quitting.Unlock()
	return s.quit
}

// Check writes to the folder. If the disk refuses that, Check returns an error, and the fault is
// visible in Health until the disk accepts writes again.
func (s *Store) Check() error {
	generation := s.generation.Load()
	if s.fail != nil {
		if err := s.fail("check"); err != nil {
			return s.healLater(generation, err)
		}
	}
	return s.healLater(generation, s.tryWrite(4<<10))
}

// healLater heals in another goroutine, until Close.
func (s *Store) healLater(generation uint64, cause error) error {
	s.quitting.Lock()
	defer s.quitting.Unlock()
	if faultOf(cause) != "" && s.live.Load() {
		s.checks.Go(func() { _ = s.heal(generation, cause) }) // the next write sees the error
	}
	return cause
}

// endChecks ends the goroutines of healLater.
func (s *Store) endChecks() {
	done := make(chan struct{})
	go func() { s.checks.Wait(); close(done) }()
	for {
		s.Interrupt()
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// heal waits until the folder can be written, and starts another engine. It returns nil at once
// if that has happened since the given generation.
func (s *Store) heal(generation uint64, cause error) error {
	quit := s.interrupted()
	s.one.Lock()
	defer s.one.Unlock()
	switch {
	case s.broken != nil:
		return s.broken
	case s.generation.Load() != generation:
		return nil
	}
	begun := s.now()
	s.note(cause, begun)
	if err := s.stopEngine(); err != nil {
		s.broken = fmt.Errorf("%w: %w", ErrDiskFailed, err)
		return s.broken
	}
	wait := time.Duration(0)
	if time.Since(s.healed) < 5*s.every { // a probe succeeds, and writes do not
		wait = s.every
	}
	for ; ; wait = s.every {
		select {
		case <-quit:
			return ErrInterrupted
		case <-time.After(wait):
		}
		err := s.probe()
		if err == nil {
			err = s.reopen()
		}
		if err == nil {
			break
		}
		if errors.As(err, new(*Damage)) {
			s.broken = err
			return err
		}
		if s.note(err, begun) == DiskError && s.now().Sub(begun) > giveUpAfter {
			s.broken = fmt.Errorf("%w: %s", ErrDiskFailed, DiskError.text(err))
			return s.broken
		}
	}
	s.generation.Add(1)
	s.fault.Store(nil)
	s.healed = time.Now()
	return nil
}

// note makes a fault visible.
func (s *Store) note(err error, begun time.Time) Fault {
	f := faultOf(err)
	if f == "" { // what the server said: a probe knows more
		if why := s.probe(); why != nil {
			err, f = why, faultOf(why)
		}
	}
	if old := s.fault.Load(); f == "" && old != nil {
		return old.Fault
	}
	f = cmp.Or(f, DiskError)
	s.fault.Store(&Health{Fault: f, Detail: f.text(err), Since: begun})
	return f
}

// stopEngine stops the engine. Calls that wait for it return an error.
func (s *Store) stopEngine() error {
	e := s.engine()
	if e == nil {
		return nil
	}
	s.setEngine(nil)
	return e.stop(s.stopWithin)
}

// reopen verifies the folder and starts an engine.
func (s *Store) reopen() error {
	known := s.heads.all()
	if err := checkBlocks(s.dir, known); err != nil {
		return err
	}
	if err := s.rewriteEnds(); err != nil {
		return err
	}
	// The server's own indexes may describe blocks that were cut: it makes new ones.
	if err := removeIndexes(s.dir); err != nil {
		return err
	}
	e, err := start(s.dir, nil)
	if err != nil {
		return err
	}
	if err := s.verifyEnds(e, known); err != nil {
		return errors.Join(err, e.stop(s.stopWithin))
	}
	s.setEngine(e)
	return nil
}

// rewriteEnds writes the last block of each stream anew. After a failed sync the operating system
// may believe that a page is on disk which is not; a new file is, when its sync succeeds.
func (s *Store) rewriteEnds() error {
	for _, c := range streams() {
		blocks, err := blockFiles(s.dir, c.Name)
		if err != nil || len(blocks) == 0 {
			return err
		}
		path := blocks[len(blocks)-1].path
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fresh := filepath.Join(s.dir, "rewritten")
		if err := writeSynced(fresh, b); err != nil {
			os.Remove(fresh)
			return err
		}
		if err := os.Rename(fresh, path); err != nil {
			return err
		}
		if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return nil
}

func removeIndexes(dir string) error {
	paths, err := filepath.Glob(filepath.Join(escape(dir), "jetstream", "$G", "streams", "*", "msgs", "index.db"))
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// verifyEnds checks that each chain has all that was acknowledged. checkBlocks has verified the
// checksums of what is before its end.
func (s *Store) verifyEnds(e *engine, known map[uint64]head) error {
	for id, h := range known {
		stream := "index"
		if h.kind == kindLog {
			stream = lane(id)
		}
		_, data, err := e.last(stream, subject(stream, id))
		if err != nil {
			return err
		}
		f, err := readFrame(data)
		if err != nil || f.number < h.number || f.number == h.number && f.sum != h.sum {
			return damage(s.dir, stream, "chain %d does not end with the record that was written last", id)
		}
	}
	_, err := s.countBlobs(e)
	return err
}

// publish adds the frame in t.scratch to its chain.
func (s *Store) publish(t *tail) (seq uint64, err error) {
	defer s.pending.end(s.pending.begin(len(t.scratch)))
	first := true
	err = s.writing(func(e *engine) (err error) {
		if !first {
			var there bool
			if seq, there, err = s.written(e, t); err != nil || there {
				return err
			}
		}
		first = false
		if s.fail != nil {
			if err := s.fail("before " + t.stream); err != nil {
				return err
			}
		}
		seq, err = e.publish(t.subject(), t.seq, t.scratch)
		if s.fail != nil && err == nil {
			err = s.fail("after " + t.stream)
		}
		return err
	})
	return seq, err
}

// written reports whether the frame in t.scratch is on disk.
func (s *Store) written(e *engine, t *tail) (seq uint64, there bool, err error) {
	seq, data, err := e.last(t.stream, t.subject())
	switch {
	case err != nil:
		return 0, false, err
	case bytes.Equal(data, t.scratch):
		return seq, true, nil
	case seq == t.seq:
		return 0, false, nil
	}
	return 0, false, damage(s.dir, "stream "+t.stream, "chain %d ends with another record than was written", t.id)
}
