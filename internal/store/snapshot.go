package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// purge removes a chain that the index does not name any more. write is held.
func (s *Store) purge(stream string, chain uint64) error {
	s.dropped = append(s.dropped, dropped{stream, chain})
	return s.purgeDropped()
}

// purgeDropped purges what was dropped, unless a snapshot may still read it or the disk is full: the
// server waits for itself if the disk refuses a purge. What stays is purged with the next chain that is
// dropped, or when the folder is opened. write is held.
func (s *Store) purgeDropped() error {
	for s.pins == 0 && len(s.dropped) > 0 {
		if s.room(0) != nil {
			return nil
		}
		err := s.purgeChain(s.dropped[0])
		if errors.Is(err, ErrInterrupted) {
			return nil
		}
		if err != nil {
			return err
		}
		s.dropped = s.dropped[1:]
	}
	return nil
}

// purgeChain returns when the chain is purged, or with ErrInterrupted. It does not wait for a server
// that is stuck.
func (s *Store) purgeChain(d dropped) error {
	quit := s.interrupted()
	defer s.pending.end(s.pending.begin(0))
	return s.writing(func(e *engine) error {
		ctx, cancel := context.WithTimeout(e.log.failed, s.purgeWithin)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- e.purge(ctx, d.stream, subject(d.stream, d.chain)) }()
		select {
		case err := <-done:
			return err
		case <-quit:
			return ErrInterrupted
		case <-ctx.Done():
			return fmt.Errorf("store: purge: %w", context.Cause(ctx))
		}
	})
}

// unpin purges what was removed during the last snapshot.
func (s *Store) unpin() {
	s.write.Lock()
	defer s.write.Unlock()
	s.pins--
	_ = s.purgeDropped() // what stays because of an error is removed when the folder is opened
}
