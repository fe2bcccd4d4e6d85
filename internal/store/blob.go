package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// PutBlob keeps b under its hash and returns when it is synced. What is there
// already is not written again.
func (s *Store) PutBlob(b []byte) (Hash, error) {
	h := Hash(sha256.Sum256(b))
	s.blob.Lock()
	defer s.blob.Unlock()
	s.mu.RLock()
	_, there := s.state.blobs[h]
	s.mu.RUnlock()
	if there {
		return h, nil
	}
	t := &tail{kind: kindBlob, id: s.newID(), stream: "blob", slot: -1}
	if err := s.append(t, b); err != nil {
		return Hash{}, err
	}
	// It counts when the index has it; what a crash leaves is removed when the folder is opened.
	s.write.Lock()
	defer s.write.Unlock()
	return h, s.change(op{code: opBlob, key: string(h[:]), chain: t.id, size: uint64(len(b))})
}

// Blob returns the bytes with this hash, verified, or ErrNotFound. They are the
// caller's to keep.
func (s *Store) Blob(h Hash) ([]byte, error) {
	s.mu.RLock()
	at, ok := s.state.blobs[h]
	s.mu.RUnlock()
	if !ok {
		return nil, ErrNotFound
	}
	return s.readBlob(h, at)
}

func (s *Store) readBlob(h Hash, at blob) ([]byte, error) {
	var c chain
	var out []byte
	bad := func(what string) error {
		return damage(s.dir, fmt.Sprintf("blob %x", h), "%s", what)
	}
	part := func(_ uint64, _ string, data []byte) error {
		f, err := readFrame(data)
		if err == nil {
			var whole bool
			var record []byte
			if record, whole, err = c.next(&f); err == nil && whole {
				out = record
			}
		}
		if err != nil {
			return bad(err.Error())
		}
		return nil
	}
	err := s.reading(func(e *engine) error {
		c = chain{kind: kindBlob, id: at.chain, record: make([]byte, 0, at.size)}
		return e.read("blob", subject("blob", at.chain), part)
	})
	if err != nil {
		return nil, err
	}
	if c.count != 1 || uint64(len(out)) != at.size || sha256.Sum256(out) != h {
		return nil, bad("parts are missing, or not what was written")
	}
	return out, nil
}

// DropBlob removes a blob. Removing a missing one is not an error.
func (s *Store) DropBlob(h Hash) error {
	s.write.Lock()
	defer s.write.Unlock()
	at, ok := s.state.blobs[h]
	if !ok {
		return nil
	}
	if err := s.change(op{code: opDropBlob, key: string(h[:])}); err != nil {
		return err
	}
	return s.purge("blob", at.chain)
}

// Blobs lists all blobs with their sizes in bytes.
func (s *Store) Blobs() map[Hash]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[Hash]int64, len(s.state.blobs))
	for h, at := range s.state.blobs {
		out[h] = int64(at.size)
	}
	return out
}

// Verify reads the logs and the blobs that are named, or all blobs where none
// is, and returns the first damage.
func (s *Store) Verify(blobs ...Hash) error {
	for _, name := range s.Logs("") {
		if err := s.Replay(name, func([]byte) error { return nil }); err != nil {
			return err
		}
	}
	if len(blobs) == 0 {
		blobs = slices.SortedFunc(maps.Keys(s.Blobs()), func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
	}
	for _, h := range blobs {
		_, err := s.Blob(h)
		if err == ErrNotFound {
			return damage(s.dir, fmt.Sprintf("blob %x", h), "is not there")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
