package store

import "bytes"

// Snapshot is all of a store at one moment.
type Snapshot struct {
	Values map[string][]byte
	Logs   map[string][][]byte // records
	Blobs  []Hash
}

// Snapshot calls each with all values and logs and the names of all blobs, as they are at one
// moment; until it returns, the blobs can be read with the given function even if they are removed
// meanwhile. It calls beside at that same moment, while nothing of the store can change: for files
// whose content belongs to that of the store. Writes to logs continue meanwhile; others wait for
// beside, not for each.
func (s *Store) Snapshot(beside func() error, each func(Snapshot, func(Hash) ([]byte, error)) error) error {
	out, blobs, err := s.freeze(beside)
	if err != nil {
		return err
	}
	defer s.unpin()
	return each(out, func(h Hash) ([]byte, error) {
		at, ok := blobs[h]
		if !ok {
			return nil, ErrNotFound
		}
		return s.readBlob(h, at)
	})
}

// freeze copies what changes, and keeps blobs from being purged.
func (s *Store) freeze(beside func() error) (out Snapshot, blobs map[Hash]blob, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if err := beside(); err != nil {
		return out, nil, err
	}
	out = Snapshot{Values: map[string][]byte{}, Logs: map[string][][]byte{}}
	blobs = map[Hash]blob{}
	s.mu.RLock()
	for key, v := range s.state.values {
		out.Values[key] = bytes.Clone(v)
	}
	for h, at := range s.state.blobs {
		blobs[h] = at
		out.Blobs = append(out.Blobs, h)
	}
	logs := names(s.state.logs, "")
	s.mu.RUnlock()
	for _, name := range logs {
		out.Logs[name] = [][]byte{}
		err := s.Replay(name, func(record []byte) error {
			out.Logs[name] = append(out.Logs[name], record)
			return nil
		})
		if err != nil {
			return out, nil, err
		}
	}
	s.pins++
	return out, blobs, nil
}

// unpin purges the blobs that were removed during the last snapshot.
func (s *Store) unpin() {
	s.write.Lock()
	defer s.write.Unlock()
	if s.pins--; s.pins > 0 {
		return
	}
	for _, chain := range s.dropped {
		// What stays because of an error is removed when the folder is opened.
		_ = s.writing(func(e *engine) error { return e.purge("blob", subject("blob", chain)) })
	}
	s.dropped = nil
}
