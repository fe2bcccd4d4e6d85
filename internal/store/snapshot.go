package store

import (
	"bytes"
	"maps"
)

// Snapshot is all of a store at one moment. Logs and blobs are read from disk when they are asked
// for, also if they are removed meanwhile.
type Snapshot struct {
	Values map[string][]byte
	Logs   []string // sorted
	Blobs  []Hash

	s     *Store
	ends  map[string]end
	blobs map[Hash]blob
}

// Replay is Store.Replay for the records that the log had at the moment of the snapshot.
func (x *Snapshot) Replay(log string, each func(record []byte) error) error {
	at, ok := x.ends[log]
	if !ok {
		return nil
	}
	return x.s.replay(log, at, each)
}

// Blob is Store.Blob for the blobs that the store had at the moment of the snapshot.
func (x *Snapshot) Blob(h Hash) ([]byte, error) {
	at, ok := x.blobs[h]
	if !ok {
		return nil, ErrNotFound
	}
	return x.s.readBlob(h, at)
}

// Snapshot calls each with the store as it is at one moment; the snapshot can be read until each
// returns. It calls beside at that same moment, while nothing of the store's index can change: for
// files whose content belongs to that of the store. Writes wait for beside, not for each.
func (s *Store) Snapshot(beside func() error, each func(*Snapshot) error) error {
	out, err := s.freeze(beside)
	if err != nil {
		return err
	}
	defer s.unpin()
	return each(out)
}

// freeze copies what changes, and keeps logs and blobs from being purged.
func (s *Store) freeze(beside func() error) (*Snapshot, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if err := beside(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := &Snapshot{
		Values: map[string][]byte{}, Logs: names(s.state.logs, ""), s: s, ends: map[string]end{},
		blobs: maps.Clone(s.state.blobs),
	}
	for key, v := range s.state.values {
		out.Values[key] = bytes.Clone(v)
	}
	for h := range out.blobs {
		out.Blobs = append(out.Blobs, h)
	}
	for name, t := range s.state.logs {
		out.ends[name] = t.end()
	}
	s.pins++
	return out, nil
}

// purge removes a chain that the index does not name any more, if necessary after the last snapshot.
// write is held.
func (s *Store) purge(stream string, chain uint64) error {
	remove := func(e *engine) error { return e.purge(stream, subject(stream, chain)) }
	if s.pins > 0 { // a snapshot may still read it
		s.dropped = append(s.dropped, remove)
		return nil
	}
	return s.writing(remove)
}

// unpin purges what was removed during the last snapshot.
func (s *Store) unpin() {
	s.write.Lock()
	defer s.write.Unlock()
	if s.pins--; s.pins > 0 {
		return
	}
	for _, remove := range s.dropped {
		_ = s.writing(remove) // what stays because of an error is removed when the folder is opened
	}
	s.dropped = nil
}
