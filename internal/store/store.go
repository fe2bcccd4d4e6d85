// Package store keeps a coordinator's state in one folder, in an embedded NATS
// JetStream that listens on no port and syncs each write before it answers.
//
// It stores small values by key, logs of records, and blobs by their SHA-256. All of them are
// chains of frames with checksums. Everything that is loaded is verified, and damage is an error
// that says what to do; the store never omits damaged data silently. A write that returned without
// an error is on disk; a write that was interrupted is there completely or not at all.
//
// Its one convention: one process has a folder open, and many goroutines may use a Store.
// Records of a log are in the order in which calls returned.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// Options say how to open a folder. The zero value is valid.
type Options struct {
	// Warn receives the warnings and errors of the embedded server, from any goroutine. Nil drops
	// them.
	Warn func(message string)
	// ProbeEvery is the time between attempts to write to a folder whose disk refused a write; 0 means 1 s.
	ProbeEvery time.Duration
	// Refuse returns an error if the disk is to act as if it refused a write; may be nil.
	Refuse func() error
	// SlowAfter is the time after which a write that has not ended counts as slow; 0 means 5 s.
	SlowAfter time.Duration
	// Now is the clock that says how long a disk has returned errors; nil means time.Now.
	Now func() time.Time

	part int                      // bytes of a record in one message; 0 is partSize
	fail func(point string) error // tests let a write or a probe fail
}

// Stats counts the writes since the folder was opened.
type Stats struct {
	Records uint64 `json:"records"` // whole records of values, logs and blobs
	Syncs   uint64 `json:"syncs"`   // writes that JetStream acknowledged, each after a sync
	Bytes   uint64 `json:"bytes"`   // with frames
}

// Store is an open folder.
type Store struct {
	dir   string
	part  int
	lock  *os.File
	fail  func(point string) error
	heads *heads
	epoch uint64
	ids   atomic.Uint64

	records, syncs, bytes atomic.Uint64

	write sync.Mutex // one index record at a time
	index *tail
	size  int // bytes of the index's records

	mu    sync.RWMutex // guards what follows; changed with write held
	state state

	blob sync.Mutex // one new blob at a time

	pins    int       // snapshots in progress; guarded by write, as dropped
	dropped []dropped // what the index does not name any more and is not purged yet

	healer
}

// dropped is a chain that was removed.
type dropped struct {
	stream string
	chain  uint64
}

// tail is the end of a chain, where its owner appends.
type tail struct {
	mu      sync.Mutex
	kind    byte
	id      uint64
	stream  string
	seq     uint64 // of the last message
	number  uint64
	sum     Hash
	slot    int // in heads; -1 for none
	err     error
	scratch []byte
}

func (t *tail) subject() string { return subject(t.stream, t.id) }

func subject(stream string, id uint64) string { return stream + "." + strconv.FormatUint(id, 10) }

// formatText is the content of the file that says that a folder is complete. Its number rises when a
// program can no longer read the state of the one before.
const formatText = "tacit store 2\n"

// Open opens or creates a folder. It verifies all values and logs, and that each blob has its
// parts; Verify also reads the blobs.
func Open(dir string, o Options) (_ *Store, err error) {
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, lock: lock, part: cmp.Or(o.part, partSize), fail: o.fail}
	if o.Refuse != nil && o.fail == nil {
		s.fail = func(point string) error {
			if strings.HasPrefix(point, "after") {
				return nil
			}
			return o.Refuse()
		}
	}
	s.quit, s.every = make(chan struct{}), cmp.Or(o.ProbeEvery, probeEvery)
	s.slow, s.now = cmp.Or(o.SlowAfter, slowAfter), time.Now
	s.purgeWithin, s.stopWithin = purgeWithin, stopWithin
	if o.Now != nil {
		s.now = o.Now
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.room(0); err != nil { // opening writes
		return nil, err
	}
	made, err := s.made()
	if err != nil {
		return nil, err
	}
	known, err := loadHeads(dir)
	if err != nil {
		return nil, err
	}
	if err := checkBlocks(dir, known); err != nil {
		return nil, err
	}
	if s.eng, err = start(dir, o.Warn); err != nil {
		return nil, err
	}
	ctx := context.Background()
	if !made {
		if err := s.eng.create(ctx); err != nil {
			return nil, err
		}
	}
	if name, what := s.eng.check(ctx); name != "" {
		return nil, damage(dir, "stream "+name, "%s", what)
	}
	if err := s.load(made, known); err != nil {
		return nil, err
	}
	if !made {
		if err := writeFormat(dir); err != nil {
			return nil, err
		}
	}
	s.live.Store(true)
	return s, nil
}

// takeLock creates the folder and locks it for this process.
func takeLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	f, owner, err := LockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: %s is open in process %s; stop it, or choose another folder", ErrLocked, dir, owner)
	}
	return f, nil
}

// LockFile creates a file and locks it until the file is closed or the process ends. If it is locked already, the
// file is nil, and owner is the number of the process that locked it.
func LockFile(path string) (f *os.File, owner string, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, "", err
	}
	free, err := lockFile(f)
	if err == nil && !free {
		pid := make([]byte, 32)
		n, _ := f.ReadAt(pid, 0)
		return nil, strings.TrimSpace(string(pid[:n])), f.Close()
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return f, "", nil
}

// made reports whether the folder was created completely.
func (s *Store) made() (bool, error) {
	b, err := readFormat(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if b != formatText {
		return false, damage(s.dir, "file format", "says %.40q, this program reads %q", b, formatText)
	}
	return true, nil
}

// readFormat reads the file format. It refuses a folder of another version of Tacit.
func readFormat(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "format"))
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	var found, known int
	fmt.Sscanf(formatText, "tacit store %d", &known)
	if n, _ := fmt.Sscanf(string(b), "tacit store %d", &found); n == 1 && found != known {
		return "", &FormatError{Dir: dir, Found: found, Known: known}
	}
	return string(b), nil
}

// writeFormat writes, atomically, that the folder is complete.
func writeFormat(dir string) error {
	path := filepath.Join(dir, "format")
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.WriteString(formatText)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return atomicfile.SyncDir(dir)
}

// Close closes the folder. Everything that was acknowledged is on disk, also if Close returns an error.
func (s *Store) Close() error {
	s.live.Store(false)
	s.endChecks()
	err := s.stopEngine()
	if s.heads != nil {
		err = errors.Join(err, s.heads.f.Close())
		s.heads = nil
	}
	return errors.Join(err, s.lock.Close())
}

// Epoch counts how often the folder was opened.
func (s *Store) Epoch() uint64 { return s.epoch }

// Stats may be called at any time.
func (s *Store) Stats() Stats {
	return Stats{Records: s.records.Load(), Syncs: s.syncs.Load(), Bytes: s.bytes.Load()}
}

// newID is the number of a new chain. No chain of the folder ever had it, since each owner has
// another epoch.
func (s *Store) newID() uint64 { return s.epoch<<32 | s.ids.Add(1) }

// append adds a record to a chain, and returns when it is synced and in heads.
// After an error this owner cannot add to the chain any more.
func (s *Store) append(t *tail, record []byte) error {
	parts := max(1, (len(record)+s.part-1)/s.part)
	if parts > maxParts {
		return fmt.Errorf("store: a record of %d bytes: must be at most %d", len(record), maxParts*s.part)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range parts {
		f := frame{
			kind: t.kind, chain: t.id, epoch: s.epoch, part: uint32(p), parts: uint32(parts),
			payload: record[p*s.part : min(len(record), (p+1)*s.part)],
		}
		if err := s.add(t, &f); err != nil {
			return err
		}
	}
	s.records.Add(1)
	return s.mark(t)
}

// claim makes this owner the only one that can add to a chain.
func (s *Store) claim(t *tail) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.add(t, &frame{kind: t.kind, claim: true, chain: t.id, epoch: s.epoch}); err != nil {
		return err
	}
	return s.mark(t)
}

func (s *Store) add(t *tail, f *frame) error {
	if t.err != nil {
		return t.err
	}
	f.number, f.prev = t.number+1, t.sum
	t.scratch = appendFrame(t.scratch[:0], f)
	seq, err := s.publish(t)
	if err != nil {
		t.err = err
		return err
	}
	s.syncs.Add(1)
	s.bytes.Add(uint64(len(t.scratch)))
	t.seq, t.number, t.sum = seq, f.number, f.sum
	if cap(t.scratch) > 1<<16 {
		t.scratch = nil
	}
	return nil
}

func (s *Store) mark(t *tail) error {
	if t.slot < 0 || s.heads == nil {
		return nil
	}
	t.err = s.Retry(func() error {
		return s.heads.set(t.slot, head{kind: t.kind, chain: t.id, number: t.number, sum: t.sum})
	})
	return t.err
}
