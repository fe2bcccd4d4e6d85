package models

import (
	"encoding/hex"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/internal/store"
)

// cache is public blobs in memory, so that a blob that thousands of devices fetch at once is read
// from disk once.
type cache struct {
	mu      sync.Mutex
	version uint64 // whose blobs they are
	blobs   map[store.Hash][]byte
}

// Blob returns a blob that a recent manifest names, and nil for all others: the server's own
// state is not public.
func (m *Models) Blob(h store.Hash) []byte {
	newest := m.Newest()
	if newest == nil {
		return nil
	}
	c := &m.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != newest.Version {
		old := c.blobs
		c.version, c.blobs = newest.Version, map[store.Hash][]byte{}
		for h, b := range old {
			if newest.names(h) {
				c.blobs[h] = b
			}
		}
	}
	if b := c.blobs[h]; b != nil {
		return b
	}
	if !newest.names(h) && !m.olderNames(h) {
		return nil
	}
	b, err := m.store.Blob(h)
	if err != nil {
		return nil
	}
	c.blobs[h] = b
	return b
}

// names reports whether the version's manifest names a blob.
func (v *Version) names(h store.Hash) bool {
	name := hex.EncodeToString(h[:])
	return name == v.Plan || name == v.Catalogue || name == v.Features || slices.Contains(v.Public, name) ||
		slices.Contains(v.Patches, name)
}

// olderNames reports whether any version names a blob. A device may still fetch one when a round
// ends.
func (m *Models) olderNames(h store.Hash) bool {
	all, err := m.List()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(v *Version) bool { return v.names(h) })
}
