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
	end      string // the run to end; empty for none
	reset    bool   // the budget was reset
}

const (
	pauseKey    = "paused"
	rollbackKey = "rollback"
	endKey      = "end"
)

func openRequests(st *store.Store) (*requests, error) {
	r := &requests{store: st, wake: make(chan struct{}, 1)}
	if err := st.GetJSON(pauseKey, &r.pause); err != nil {
		return nil, err
	}
	if err := st.GetJSON(endKey, &r.end); err != nil {
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

// setEnd asks for the end of a run.
func (r *requests) setEnd(run string) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.store.PutJSON(endKey, run); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = run
	r.notify()
	return nil
}

// ends reports whether an operator ended a run.
func (r *requests) ends(run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end == run
}

// noteReset notes that the budget was reset, which the ledger keeps.
func (r *requests) noteReset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reset = true
	r.notify()
}

// takeReset reports whether the budget was reset since the last call.
func (r *requests) takeReset() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.reset
	r.reset = false
	return was
}
