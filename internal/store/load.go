package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// load reads and verifies the index and all logs, removes what no index names,
// and makes this handle the owner. made is false for a folder that is new, or
// whose making was cut short.
func (s *Store) load(made bool, known map[uint64]head) error {
	old, err := s.loadIndex(known)
	if err != nil {
		return err
	}
	switch {
	case s.index == nil && made:
		return damage(s.dir, "index", "is missing")
	case !made && len(s.state.values)+len(s.state.logs)+len(s.state.blobs) > 0:
		return damage(s.dir, "file format", "is not there, and the folder is in use")
	}
	if err := s.loadLogs(known); err != nil {
		return err
	}
	if err := s.findBlobs(); err != nil {
		return err
	}
	for _, id := range old {
		if err := s.eng.purge(context.Background(), "index", subject("index", id)); err != nil {
			return err
		}
	}
	return s.own()
}

// own claims every chain and begins a new file of heads.
func (s *Store) own() error {
	if s.index == nil {
		s.state, s.epoch = newState(), 1
		s.index = &tail{kind: kindIndex, id: s.newID(), stream: "index"}
		if err := s.append(s.index, nil); err != nil {
			return err
		}
	} else if err := s.claim(s.index); err != nil {
		return err
	}
	tails := []*tail{s.index}
	for _, name := range names(s.state.logs, "") {
		t := s.state.logs[name]
		if t.number > 0 {
			if err := s.claim(t); err != nil {
				return err
			}
		}
		tails = append(tails, t)
	}
	list := make([]head, len(tails))
	for i, t := range tails {
		list[i] = head{kind: t.kind, chain: t.id, number: t.number, sum: t.sum}
	}
	var slots []int
	var err error
	if s.heads, slots, err = newHeads(s.dir, list); err != nil {
		return fmt.Errorf("store: heads: %w", err)
	}
	for i, t := range tails {
		t.slot = slots[i]
	}
	return nil
}

// A reader verifies one chain against its head.
type reader struct {
	chain
	seq  uint64
	head *head // nil if the chain has none
}

func (r *reader) take(data []byte, seq uint64) (record []byte, whole bool, err error) {
	f, err := readFrame(data)
	if err == nil {
		record, whole, err = r.next(&f)
	}
	if err == nil && r.head != nil && f.number == r.head.number && f.sum != r.head.sum {
		err = fmt.Errorf("frame %d is not the one that was written", f.number)
	}
	r.seq = seq
	return record, whole, err
}

// end reports whether the chain is as long as its head says.
func (r *reader) end() bool { return r.head == nil || r.number >= r.head.number }

func (r *reader) tail(t *tail) { t.seq, t.number, t.sum = r.seq, r.number, r.sum }

func newReader(kind byte, id uint64, known map[uint64]head) *reader {
	r := &reader{chain: chain{kind: kind, id: id}}
	if h, ok := known[id]; ok && h.kind == kind {
		r.head = &h
	}
	return r
}

func chainOf(subject string) (uint64, error) {
	_, text, _ := strings.Cut(subject, ".")
	return strconv.ParseUint(text, 10, 64)
}

// index is a chain of operations while it is read.
type index struct {
	*reader
	state state
	size  int
	err   error
}

// readIndexes reads all indexes that are there: an old one stays until the one
// that replaces it is whole.
func (s *Store) readIndexes(known map[uint64]head) (map[uint64]*index, error) {
	all := map[uint64]*index{}
	return all, s.eng.read("index", "index.*", func(seq uint64, subject string, data []byte) error {
		id, err := chainOf(subject)
		if err != nil {
			return damage(s.dir, "index", "has a message on %s", subject)
		}
		x := all[id]
		if x == nil {
			x = &index{reader: newReader(kindIndex, id, known), state: newState()}
			all[id] = x
		}
		if x.err != nil {
			return nil
		}
		record, whole, err := x.take(data, seq)
		if err == nil && whole {
			x.size += len(record)
			err = readOps(record, x.state.apply)
		}
		x.err = err
		return nil
	})
}

// loadIndex finds the latest index, and returns those that it has replaced.
func (s *Store) loadIndex(known map[uint64]head) (old []uint64, err error) {
	all, err := s.readIndexes(known)
	if err != nil {
		return nil, err
	}
	var best *index
	for id, x := range all {
		if x.count > 0 && (best == nil || id > best.id) {
			best = x
		}
	}
	for _, h := range known {
		if h.kind == kindIndex && (best == nil || best.id < h.chain) {
			return nil, damage(s.dir, "index", "is not there, or its beginning is damaged")
		}
	}
	if best == nil {
		return nil, nil
	}
	if best.err != nil {
		return nil, damage(s.dir, "index", "record %d: %v", best.count+1, best.err)
	}
	if !best.end() {
		return nil, damage(s.dir, "index", "ends after %d records, and more were written", best.count)
	}
	for id := range all {
		if id != best.id {
			old = append(old, id)
		}
	}
	s.state, s.size, s.epoch = best.state, best.size, best.epoch+1
	s.index = &tail{kind: kindIndex, id: best.id, stream: "index", slot: -1}
	best.tail(s.index)
	return old, nil
}

// loadLogs verifies each log against its head, and removes chains that belong to no log.
func (s *Store) loadLogs(known map[uint64]head) error {
	readers := map[uint64]*reader{}
	logs := map[uint64]string{}
	for name, t := range s.state.logs {
		logs[t.id] = name
		readers[t.id] = newReader(kindLog, t.id, known)
	}
	for i := range lanes {
		stream := "log" + strconv.Itoa(i)
		stray := map[string]bool{}
		err := s.eng.read(stream, stream+".*", func(seq uint64, subject string, data []byte) error {
			id, err := chainOf(subject)
			r := readers[id]
			if err != nil || r == nil {
				stray[subject] = true
				return nil
			}
			if _, _, err := r.take(data, seq); err != nil {
				return damage(s.dir, "log "+logs[id], "record %d: %v", r.count+1, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for subject := range stray {
			if err := s.eng.purge(context.Background(), stream, subject); err != nil {
				return err
			}
		}
	}
	for _, name := range names(s.state.logs, "") {
		t := s.state.logs[name]
		r := readers[t.id]
		if !r.end() {
			return damage(s.dir, "log "+name, "ends after %d records, and more were written", r.count)
		}
		r.tail(t)
	}
	return nil
}

// findBlobs checks that each blob has its parts, without reading them, and
// removes parts that are no blob's.
func (s *Store) findBlobs() error {
	rest, err := s.countBlobs(s.eng)
	if err != nil {
		return err
	}
	for subject := range rest {
		if err := s.eng.purge(context.Background(), "blob", subject); err != nil {
			return err
		}
	}
	return nil
}

// countBlobs checks that each blob has its parts, and returns the parts that are no blob's.
func (s *Store) countBlobs(e *engine) (rest map[string]uint64, err error) {
	stream, err := e.js.Stream(context.Background(), "blob")
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	info, err := stream.Info(context.Background(), jetstream.WithSubjectFilter("blob.*"))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	there := info.State.Subjects
	s.mu.RLock()
	defer s.mu.RUnlock()
	for h, b := range s.state.blobs {
		part := uint64(s.part)
		parts := max(1, (b.size+part-1)/part)
		if got := there[subject("blob", b.chain)]; got != parts {
			return nil, damage(s.dir, fmt.Sprintf("blob %x", h), "has %d of its %d parts", got, parts)
		}
		delete(there, subject("blob", b.chain))
	}
	return there, nil
}
