package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report says what Repair did.
type Report struct {
	Kept  []string // a line for the values, each log and each blob that is whole or has a whole beginning
	Lost  []string // a line for each thing of which something is lost; empty where nothing is
	Aside string   // the folder with the damaged files, as they were
	// Dropped are, by log, the records after the first damaged one that are still readable. They are not
	// kept, since others between them may be missing; a caller may say what they were.
	Dropped map[string][][]byte `json:"-"`
}

// place is a whole frame in a file.
type place struct {
	frame // without its payload
	path  string
	at    int
	size  int
}

// Repair makes a damaged folder one that opens. It keeps the values up to the
// first damaged change, of each log the records before the first damaged one, and
// the blobs that are whole; the damaged files are moved aside. What follows
// damage is never kept: a log with a hole is not what was written, and values
// that are older than a log's records are for the caller to notice, by Lost.
// It may be called again after a crash.
func Repair(dir string, o Options) (*Report, error) {
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if _, err := readFormat(dir); errors.As(err, new(*FormatError)) {
		return nil, err
	}
	fresh := filepath.Join(dir, "repaired")
	if _, err := os.Stat(filepath.Join(fresh, "format")); err == nil {
		// A repair was cut short after its work was done.
		aside, err := swap(dir, fresh)
		return &Report{Aside: aside}, err
	}
	if err := os.RemoveAll(fresh); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	known, err := loadHeads(dir)
	if err != nil {
		return nil, err
	}
	found, err := salvage(filepath.Join(dir, "jetstream"))
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := rebuild(fresh, found, known, o, r); err != nil {
		return nil, err
	}
	r.Aside, err = swap(dir, fresh)
	return r, err
}

// swap puts the repaired files in place of the damaged ones. The file format of
// the damaged folder goes first: until it is there again the folder does not open.
func swap(dir, fresh string) (aside string, err error) {
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte("a repair was cut short\n"), 0o600); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	aside = filepath.Join(dir, "damaged-"+time.Now().UTC().Format("20060102-150405.000"))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	moved := func(from, to string) {
		if e := os.Rename(from, to); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if _, e := os.Stat(filepath.Join(fresh, "jetstream")); e == nil {
		moved(filepath.Join(dir, "jetstream"), filepath.Join(aside, "jetstream"))
		moved(filepath.Join(dir, "heads"), filepath.Join(aside, "heads"))
		moved(filepath.Join(fresh, "heads"), filepath.Join(dir, "heads"))
		moved(filepath.Join(fresh, "jetstream"), filepath.Join(dir, "jetstream"))
	}
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	if err := writeFormat(dir); err != nil {
		return "", err
	}
	return aside, os.RemoveAll(fresh)
}

// salvage finds all whole frames under a folder, by chain, in their order.
func salvage(dir string) (map[uint64][]place, error) {
	found := map[uint64][]place{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".blk") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		scanFrames(b, func(f frame, at int) {
			p := place{frame: f, path: path, at: at, size: frameSize + len(f.payload)}
			p.payload = nil
			found[f.chain] = append(found[f.chain], p)
		})
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	for id, list := range found {
		slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(a.number, b.number) })
		// A block that JetStream was writing anew may hold a frame twice.
		found[id] = slices.CompactFunc(list, func(a, b place) bool { return a.sum == b.sum })
	}
	return found, nil
}

func (p *place) read() ([]byte, frame, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, frame{}, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	b := make([]byte, p.size)
	if _, err := f.ReadAt(b, int64(p.at)); err != nil {
		return nil, frame{}, fmt.Errorf("store: %w", err)
	}
	fr, err := readFrame(b)
	return b, fr, err
}

// follow calls each for the whole records at the beginning of a chain, and
// returns how many of its frames they take.
func follow(kind byte, id uint64, list []place, each func(record []byte) error) (frames int, c chain, err error) {
	c = chain{kind: kind, id: id}
	for i := range list {
		_, f, err := list[i].read()
		if err != nil {
			return frames, c, err
		}
		record, whole, bad := c.next(&f)
		if bad != nil {
			break
		}
		if whole {
			if err := each(record); err != nil {
				return frames, c, err
			}
		}
		if c.parts == 0 {
			frames = i + 1
		}
	}
	return frames, c, nil
}

// rebuild writes everything that is intact to a new folder.
func rebuild(fresh string, found map[uint64][]place, known map[uint64]head, o Options, r *Report) error {
	st, err := lastIndex(found, known, r)
	if err != nil {
		return err
	}
	eng, err := newEngine(fresh, o)
	if err != nil {
		return err
	}
	s := &Store{dir: fresh, part: cmp.Or(o.part, partSize), epoch: 1}
	s.eng = eng
	defer func() {
		if s.heads != nil {
			s.heads.f.Close()
		}
		_ = s.eng.stop(stopWithin) // everything was synced
	}()
	for _, list := range found {
		s.epoch = max(s.epoch, list[len(list)-1].epoch+1)
	}
	for _, name := range names(st.logs, "") {
		if err := s.keepLog(name, st.logs[name], found, known, r); err != nil {
			return err
		}
	}
	for h, b := range st.blobs {
		if err := s.keepBlob(h, b, found, r, st); err != nil {
			return err
		}
	}
	slices.Sort(r.Kept)
	s.state = st
	s.index = &tail{kind: kindIndex, id: s.newID(), stream: "index", slot: -1}
	if err := s.append(s.index, st.snapshot()); err != nil {
		return err
	}
	return writeFormat(fresh)
}

func newEngine(dir string, o Options) (*engine, error) {
	eng, err := start(dir, o.Warn)
	if err != nil {
		return nil, err
	}
	if err := eng.create(context.Background()); err != nil {
		_ = eng.stop(stopWithin)
		return nil, err
	}
	return eng, nil
}

// lastIndex is the state up to the first damage of the latest index.
func lastIndex(found map[uint64][]place, known map[uint64]head, r *Report) (state, error) {
	var ids []uint64
	for id, list := range found {
		if list[0].kind == kindIndex {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	latest := uint64(0)
	for id, h := range known {
		if h.kind == kindIndex {
			latest = max(latest, id)
		}
	}
	for i := len(ids) - 1; i >= 0; i-- {
		id := ids[i]
		st := newState()
		frames, c, err := follow(kindIndex, id, found[id],
			func(record []byte) error { return readOps(record, st.apply) })
		if err != nil {
			return state{}, err
		}
		if c.count == 0 {
			latest = max(latest, id)
			continue
		}
		r.Kept = append(r.Kept, fmt.Sprintf("values: %d, by %d changes", len(st.values), c.count))
		switch {
		case id < latest:
			r.Lost = append(r.Lost, "values, names of logs and of blobs: all changes since the index was last "+
				"written anew")
		case frames < len(found[id]) || known[id].number > uint64(frames):
			r.Lost = append(r.Lost, fmt.Sprintf("values, names of logs and of blobs: all changes after number %d",
				c.count))
		}
		return st, nil
	}
	r.Lost = append(r.Lost, "everything: no index is whole, and it alone knows the names of logs and blobs")
	return newState(), nil
}

// keepLog copies the whole records at the beginning of a log, frame by frame.
func (s *Store) keepLog(name string, t *tail, found map[uint64][]place, known map[uint64]head, r *Report) error {
	list := found[t.id]
	frames, c, err := follow(kindLog, t.id, list, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	if err := s.copyFrames(t, list[:frames]); err != nil {
		return err
	}
	r.Kept = append(r.Kept, fmt.Sprintf("log %s: records: %d", name, c.count))
	if last := max(known[t.id].number, lastNumber(list)); last > uint64(frames) && !abandoned(list[frames:], last,
		known[t.id]) {
		r.Lost = append(r.Lost, fmt.Sprintf("log %s: all after record %d", name, c.count))
		for i := range list[frames:] {
			if _, f, err := list[frames+i].read(); err == nil && f.parts == 1 {
				if r.Dropped == nil {
					r.Dropped = map[string][][]byte{}
				}
				r.Dropped[name] = append(r.Dropped[name], f.payload)
			}
		}
	}
	return nil
}

func lastNumber(list []place) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].number
}

// abandoned reports whether frames are only the parts of a record that its owner
// had not finished: nothing that was acknowledged.
func abandoned(rest []place, last uint64, h head) bool {
	if len(rest) == 0 || h.number >= rest[0].number || rest[len(rest)-1].number != last {
		return false
	}
	for i, p := range rest {
		if p.claim || p.part != uint32(i) || p.part+1 == p.parts {
			return false
		}
	}
	return true
}

func (s *Store) copyFrames(t *tail, list []place) error {
	for i := range list {
		b, _, err := list[i].read()
		if err != nil {
			return err
		}
		if t.seq, err = s.eng.publish(t.subject(), t.seq, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) keepBlob(h Hash, b blob, found map[uint64][]place, r *Report, st state) error {
	list, whole := found[b.chain], false
	_, _, err := follow(kindBlob, b.chain, list, func(record []byte) error {
		whole = sha256.Sum256(record) == h
		return nil
	})
	if err != nil {
		return err
	}
	if !whole {
		delete(st.blobs, h)
		r.Lost = append(r.Lost, fmt.Sprintf("blob %x: %d bytes", h, b.size))
		return nil
	}
	r.Kept = append(r.Kept, fmt.Sprintf("blob %x: %d bytes", h, b.size))
	return s.copyFrames(&tail{kind: kindBlob, id: b.chain, stream: "blob"}, list)
}
