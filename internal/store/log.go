package store

import (
	"errors"
)

// Append adds a record to a log, which it creates if necessary, and returns when the
// record is synced. Once it has returned an error, that log takes no
// more records until the folder is opened again: the record may be there or not.
func (s *Store) Append(log string, record []byte) error {
	t, err := s.log(log)
	if err != nil {
		return err
	}
	return s.append(t, record)
}

// log finds a log or makes it.
func (s *Store) log(name string) (*tail, error) {
	if err := checkKey(name); err != nil {
		return nil, err
	}
	find := func() *tail {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.state.logs[name]
	}
	if t := find(); t != nil {
		return t, nil
	}
	s.write.Lock()
	defer s.write.Unlock()
	if t := find(); t != nil {
		return t, nil
	}
	if err := s.change(op{code: opLog, key: name, chain: s.newID()}); err != nil {
		return nil, err
	}
	return find(), nil
}

var errDone = errors.New("done")

// Replay calls each with the records of a log that are synced at its call, in
// their order, and verifies them. A record is each's to keep. A log that is not
// there has no records.
func (s *Store) Replay(log string, each func(record []byte) error) error {
	s.mu.RLock()
	t := s.state.logs[log]
	s.mu.RUnlock()
	if t == nil {
		return nil
	}
	return s.replay(log, t.end(), each)
}

// end is where a chain ended at one moment.
type end struct {
	*tail
	number uint64
	sum    Hash
}

func (t *tail) end() end {
	t.mu.Lock()
	defer t.mu.Unlock()
	return end{t, t.number, t.sum}
}

// replay reads a log up to an end.
func (s *Store) replay(log string, t end, each func(record []byte) error) error {
	if t.number == 0 {
		return nil
	}
	seen := uint64(0) // records that each has
	var c chain
	var err error
	deliver := func(record []byte) error {
		if c.count <= seen {
			return nil
		}
		seen = c.count
		return each(record)
	}
	scan := func(_ uint64, _ string, data []byte) error {
		f, err := readFrame(data)
		if err == nil {
			var record []byte
			var whole bool
			if record, whole, err = c.next(&f); err == nil && whole {
				if err := deliver(record); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return damage(s.dir, "log "+log, "record %d: %v", c.count+1, err)
		}
		if c.number == t.number {
			return errDone
		}
		return nil
	}
	err = s.reading(func(e *engine) error {
		c = chain{kind: t.kind, id: t.id}
		return e.read(t.stream, t.subject(), scan)
	})
	if err == errDone {
		err = nil
	}
	if err == nil && (c.number != t.number || c.sum != t.sum) {
		err = damage(s.dir, "log "+log, "ends after %d records, and more were written", c.count)
	}
	return err
}

// Logs lists the logs whose names begin with prefix, sorted.
func (s *Store) Logs(prefix string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return names(s.state.logs, prefix)
}

// Drop removes a log with its records. Removing a missing one is not an error.
func (s *Store) Drop(log string) error {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.RLock()
	t := s.state.logs[log]
	s.mu.RUnlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The index says it first: what a crash leaves of the log is removed when the folder is opened.
	if err := s.change(op{code: opDrop, key: log}); err != nil {
		return err
	}
	t.err = ErrNotFound
	if err := s.Retry(func() error { return s.heads.release(t.slot) }); err != nil {
		return err
	}
	return s.purge(t.stream, t.id)
}
