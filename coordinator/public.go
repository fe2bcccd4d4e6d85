package coordinator

import (
	"encoding/hex"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
)

// shelf is blobs in memory: what thousands of devices fetch at once is read from disk
// once.
type shelf struct {
	mu    sync.Mutex
	of    uint64 // the version that they are of
	blobs map[store.Hash][]byte
}

// public is a blob that a manifest names which a device may still be at: that of the
// newest version, or of one before it. What the coordinator keeps for itself is none.
func (c *Coordinator) public(h store.Hash) ([]byte, error) {
	c.mu.Lock()
	newest := c.newest
	c.mu.Unlock()
	missing := rpc.Refuse("no_such_blob", connect.CodeNotFound,
		"no manifest of a recent model names it: check in again")
	if newest == nil {
		return nil, missing
	}
	c.shelf.mu.Lock()
	defer c.shelf.mu.Unlock()
	if c.shelf.of != newest.Version {
		old := c.shelf.blobs
		c.shelf.of, c.shelf.blobs = newest.Version, map[store.Hash][]byte{}
		for h, b := range old {
			if named(newest, h) {
				c.shelf.blobs[h] = b
			}
		}
	}
	if b := c.shelf.blobs[h]; b != nil {
		return b, nil
	}
	if !named(newest, h) && !c.wasNamed(h) {
		return nil, missing
	}
	b, err := c.st.Blob(h)
	if err != nil {
		return nil, missing
	}
	c.shelf.blobs[h] = b
	return b, nil
}

// named reports whether a version's manifest names a blob.
func named(v *version, h store.Hash) bool {
	name := hex.EncodeToString(h[:])
	return name == v.Plan || name == v.Catalogue || name == v.Features || slices.Contains(v.Shown, name) ||
		slices.Contains(v.Changes, name)
}

// wasNamed is for a device that fetches while a round ends.
func (c *Coordinator) wasNamed(h store.Hash) bool {
	all, err := c.versions()
	if err != nil {
		return false
	}
	for _, v := range all {
		if named(v, h) {
			return true
		}
	}
	return false
}
