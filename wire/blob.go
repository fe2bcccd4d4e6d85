package wire

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

// HashBlob returns the hash and size of a blob. The hash is also the digest of a report.
func HashBlob(b []byte) *pb.Blob {
	h := sha256.Sum256(b)
	return &pb.Blob{Hash: h[:], Bytes: uint64(len(b))}
}

func checkBlob(b *pb.Blob, what string) error {
	switch {
	case b == nil:
		return fmt.Errorf("%s is missing", what)
	case len(b.Hash) != HashBytes:
		return fmt.Errorf("%s has a hash of %d bytes: must be %d", what, len(b.Hash), HashBytes)
	case b.Bytes > MaxBlobBytes:
		return fmt.Errorf("%s has %d bytes: must be at most %d", what, b.Bytes, MaxBlobBytes)
	}
	return nil
}

// Assembly is a blob or a report that arrives in pieces.
type Assembly struct {
	hash [HashBytes]byte
	size int
	got  []byte
}

// Assemble starts the assembly of a blob of at most limit bytes. It allocates memory as pieces arrive.
func Assemble(blob *pb.Blob, limit uint64) (*Assembly, error) {
	if err := checkBlob(blob, "a blob"); err != nil {
		return nil, err
	}
	if blob.Bytes > limit {
		return nil, fmt.Errorf("blob of %d bytes: must be at most %d", blob.Bytes, limit)
	}
	a := &Assembly{size: int(blob.Bytes)}
	copy(a.hash[:], blob.Hash)
	return a, nil
}

// Next returns the offset of the next piece.
func (a *Assembly) Next() uint64 { return uint64(len(a.got)) }

// Done reports whether all bytes have arrived. Bytes checks them.
func (a *Assembly) Done() bool { return len(a.got) == a.size }

// Is reports whether this is the assembly of a blob.
func (a *Assembly) Is(blob *pb.Blob) bool {
	return bytes.Equal(a.hash[:], blob.GetHash()) && uint64(a.size) == blob.GetBytes()
}

// Add adds a piece. A piece may arrive twice if its bytes are the same. Add refuses a piece that leaves
// a gap.
func (a *Assembly) Add(offset uint64, data []byte) error {
	if offset > a.Next() || uint64(len(data)) > uint64(a.size)-offset {
		return fmt.Errorf("piece of %d bytes at offset %d after %d of %d bytes: pieces must be contiguous",
			len(data), offset, len(a.got), a.size)
	}
	known := a.got[offset:]
	n := min(len(known), len(data))
	if !bytes.Equal(known[:n], data[:n]) {
		return fmt.Errorf("piece at offset %d differs from the earlier one", offset)
	}
	data = data[n:]
	if len(data) == 0 {
		return nil
	}
	if need := len(a.got) + len(data); need > cap(a.got) {
		grown := make([]byte, len(a.got), min(a.size, max(need, 2*cap(a.got))))
		copy(grown, a.got)
		a.got = grown
	}
	a.got = append(a.got, data...)
	return nil
}

// Bytes returns the whole blob. It returns an error if bytes are missing or the hash does not match.
func (a *Assembly) Bytes() ([]byte, error) {
	if !a.Done() {
		return nil, fmt.Errorf("only %d of %d bytes have arrived", len(a.got), a.size)
	}
	if sha256.Sum256(a.got) != a.hash {
		return nil, fmt.Errorf("%d bytes do not match their hash %x", a.size, a.hash[:4])
	}
	return a.got, nil
}
