package coordinator

import (
	"sync"

	"github.com/tacit-rec/tacit/internal/store"
)

// requests are what an operator asked for and the loop has not done yet. They are on disk before
// they are answered.
type requests struct {
	store *store.Store
	wake  chan struct{} // wakes the loop

	writing sync.Mutex // one change at a time; mu is not held while the disk is written

	mu       sync.Mutex
	pause    bool
	rollback uint64 // the version to roll back to; 0 for none
}

const (
	pauseKey    = "paused"
	rollbackKey = "back"
)

func openRequests(st *store.Store) (*requests, error) {
	r := &requests{store: st, wake: make(chan struct{}, 1)}
	if err := st.GetJSON(pauseKey, &r.pause); err != nil {
		return nil, err
	}
	return r, st.GetJSON(rollbackKey, &r.rollback)
}

// notify wakes the loop.
func (r *requests) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *requests) setPause(pause bool) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.store.PutJSON(pauseKey, pause); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = pause
	r.notify()
	return nil
}

func (r *requests) paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause
}

func (r *requests) setRollback(version uint64) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.store.PutJSON(rollbackKey, version); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rollback = version
	r.notify()
	return nil
}

func (r *requests) rollbackTo() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rollback
}

// endRollback removes a request that is done, unless another one replaced it meanwhile.
func (r *requests) endRollback(version uint64) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.rollbackTo() != version {
		return nil
	}
	if err := r.store.PutJSON(rollbackKey, 0); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rollback = 0
	return nil
}
