package device

import (
	"context"
	"sync"
)

// memoryBlobs is a Blobs in memory.
type memoryBlobs struct {
	mu      sync.Mutex
	blobs   map[[32]byte][]byte
	checked map[[32]byte]*byte    // first byte of blobs whose hash was checked
	waiting map[[32]byte]*waiters // devices that download a blob
	kept    [2]map[[32]byte]bool  // the last two sets of Keep
}

// NewMemoryBlobs returns a Blobs in memory that the devices of one process may share. It keeps the
// newest two model versions. A device with an older version downloads the whole model again.
func NewMemoryBlobs() Blobs {
	return &memoryBlobs{blobs: map[[32]byte][]byte{}, checked: map[[32]byte]*byte{}, waiting: map[[32]byte]*waiters{}}
}

// acquire makes the devices that need a blob wait for each other: the first one downloads it, the
// others find it in the store. The caller must call release.
func (c *memoryBlobs) acquire(ctx context.Context, hash [32]byte) (release func(), err error) {
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

// waiters are the devices that need a blob. One at a time holds free.
type waiters struct {
	free  chan struct{}
	count int
}

// isChecked reports whether b is the very slice whose hash was checked before Put.
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
	if same || len(set) == 0 { // an empty set comes from one device that is wiped: the others need their blobs
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
