package device

import (
	"context"
	"sync"
)

// memoryBlobs is a store of blobs in memory.
type memoryBlobs struct {
	mu      sync.Mutex
	blobs   map[[32]byte][]byte
	checked map[[32]byte]*byte    // where the bytes are that were checked when they came
	waiting map[[32]byte]*waiters // of those who fetch a blob
	kept    [2]map[[32]byte]bool  // what Keep was told last, and what before that
}

// NewMemoryBlobs returns a store in memory that devices of one process may share. It keeps
// what the newest two models are made of: a device that is further behind fetches anew.
func NewMemoryBlobs() Blobs {
	return &memoryBlobs{blobs: map[[32]byte][]byte{}, checked: map[[32]byte]*byte{}, waiting: map[[32]byte]*waiters{}}
}

// acquire is had by one of those who want a blob at a time: the others find it here.
func (c *memoryBlobs) acquire(ctx context.Context, hash [32]byte) (done func(), err error) {
	c.mu.Lock()
	t := c.waiting[hash]
	if t == nil {
		t = &waiters{free: make(chan struct{}, 1)}
		c.waiting[hash] = t
	}
	t.count++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.count--; t.count == 0 {
			delete(c.waiting, hash)
		}
	}
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// waiters is those who want a blob: one has it, in all.
type waiters struct {
	free  chan struct{}
	count int
}

// isChecked reports whether a blob is the one that was checked when it was put here.
func (c *memoryBlobs) isChecked(hash [32]byte, b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(b) > 0 && c.checked[hash] == &b[0]
}

func (c *memoryBlobs) Get(hash [32]byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blobs[hash], nil
}

func (c *memoryBlobs) Put(hash [32]byte, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blobs[hash] = b; len(b) > 0 {
		c.checked[hash] = &b[0]
	}
	return nil
}

func (c *memoryBlobs) Keep(hashes [][32]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := len(hashes) == len(c.kept[0])
	set := make(map[[32]byte]bool, len(hashes))
	for _, h := range hashes {
		set[h] = true
		same = same && c.kept[0][h]
	}
	if same || len(set) == 0 { // one of those who share it forgets: the others stay
		return nil
	}
	c.kept = [2]map[[32]byte]bool{set, c.kept[0]}
	for h := range c.blobs {
		if !c.kept[0][h] && !c.kept[1][h] {
			delete(c.blobs, h)
			delete(c.checked, h)
		}
	}
	return nil
}
