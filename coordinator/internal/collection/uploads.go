package collection

import (
	"fmt"
	"sync"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// Uploads are reports that devices send in pieces. The zero value is ready to use.
type Uploads struct {
	mu   sync.Mutex
	by   map[uint32]*wire.Assembly // by device ID
	held uint64                    // bytes of all pieces
}

// maxHeld bounds the memory of incomplete uploads.
const maxHeld = 512 << 20

// UploadError says why a piece is refused.
type UploadError struct {
	Reason Reason
	err    error
}

// Reason is the kind of an UploadError.
type Reason int

// The reasons.
const (
	Malformed Reason = iota
	Oversized
	BadDigest // the digest of the whole blob is another one
)

func (e *UploadError) Error() string { return e.err.Error() }

// Add adds a piece of the blob that a device sends. It returns the whole blob when it is complete,
// and otherwise the offset of the next piece. Offset 0 means that the device must start again.
func (u *Uploads) Add(id uint32, blob *pb.Blob, offset uint64, data []byte, limit uint64) (
	whole []byte, next uint64, err error,
) {
	switch {
	case blob.Bytes == 0:
		return nil, 0, &UploadError{Malformed, fmt.Errorf("empty report")}
	case blob.Bytes > limit:
		return nil, 0, &UploadError{Oversized, fmt.Errorf("%d bytes: must be at most %d", blob.Bytes, limit)}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	a, err := u.assembly(id, blob, limit)
	if err != nil {
		return nil, 0, &UploadError{Malformed, err}
	}
	if u.by[id] != a && offset > 0 {
		return nil, 0, nil // the earlier pieces were dropped
	}
	if uint64(len(data)) != blob.Bytes {
		u.makeRoom(id, uint64(len(data)))
	}
	before := a.Next()
	if err := a.Add(offset, data); err != nil {
		return nil, 0, &UploadError{Malformed, err}
	}
	if !a.Done() {
		u.by[id] = a
		u.held += a.Next() - before
		return nil, a.Next(), nil
	}
	u.drop(id, before)
	whole, err = a.Bytes()
	if err != nil {
		return nil, 0, &UploadError{BadDigest, err}
	}
	return whole, 0, nil
}

// assembly is the device's upload of a blob, or a new one. A device sends one blob at a time.
func (u *Uploads) assembly(id uint32, blob *pb.Blob, limit uint64) (*wire.Assembly, error) {
	a := u.by[id]
	if a != nil && a.Is(blob) {
		return a, nil
	}
	if a != nil {
		u.drop(id, a.Next())
	}
	if u.by == nil {
		u.by = map[uint32]*wire.Assembly{}
	}
	return wire.Assemble(blob, limit)
}

// makeRoom drops the pieces of other devices until n bytes fit. Those devices start again.
func (u *Uploads) makeRoom(id uint32, n uint64) {
	for other, b := range u.by {
		if u.held+n <= maxHeld {
			return
		}
		if other != id {
			u.drop(other, b.Next())
		}
	}
}

func (u *Uploads) drop(id uint32, bytes uint64) {
	u.held -= bytes
	delete(u.by, id)
}

// Clear drops all pieces, when the round that they are for is closed.
func (u *Uploads) Clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.by)
	u.held = 0
}
