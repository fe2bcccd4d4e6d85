package wire

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

// HashBlob is the blob that some bytes are: their SHA-256 and how many they are. The hash
// is also the digest of a report.
func HashBlob(b []byte) *pb.Blob {
	h := sha256.Sum256(b)
	return &pb.Blob{Hash: h[:], Bytes: uint64(len(b))}
}

func checkBlob(b *pb.Blob, what string) error {
	switch {
	case b == nil:
		return fmt.Errorf("wire: %s is not named", what)
	case len(b.Hash) != HashBytes:
		return fmt.Errorf("wire: %s has a hash of %d bytes: want %d", what, len(b.Hash), HashBytes)
	case b.Bytes > MaxBlobBytes:
		return fmt.Errorf("wire: %s has %d bytes: want at most %d", what, b.Bytes, MaxBlobBytes)
	}
	return nil
}

// Assembly is a blob, or a report, that comes in pieces.
type Assembly struct {
	hash [HashBytes]byte
	size int
	got  []byte
}

// Assemble begins a blob of at most so many bytes. Memory is taken as pieces come,
// and not for what was promised.
func Assemble(blob *pb.Blob, most uint64) (*Assembly, error) {
	if err := checkBlob(blob, "a blob"); err != nil {
		return nil, err
	}
	if blob.Bytes > most {
		return nil, fmt.Errorf("wire: a blob of %d bytes: want at most %d here", blob.Bytes, most)
	}
	a := &Assembly{size: int(blob.Bytes)}
	copy(a.hash[:], blob.Hash)
	return a, nil
}

// Next is the offset of the piece that is wanted.
func (a *Assembly) Next() uint64 { return uint64(len(a.got)) }

// Done reports whether all bytes are there. Bytes says whether they are right.
func (a *Assembly) Done() bool { return len(a.got) == a.size }

// Is reports whether the assembly is of this blob.
func (a *Assembly) Is(blob *pb.Blob) bool {
	return bytes.Equal(a.hash[:], blob.GetHash()) && uint64(a.size) == blob.GetBytes()
}

// Add takes a piece. One that was there already must be the same and changes
// nothing, so that a piece may be sent twice; one that leaves a gap is refused.
func (a *Assembly) Add(offset uint64, data []byte) error {
	if offset > a.Next() || uint64(len(data)) > uint64(a.size)-offset {
		return fmt.Errorf("wire: a piece of %d bytes at %d, with %d of %d there: want one that goes on from there",
			len(data), offset, len(a.got), a.size)
	}
	known := a.got[offset:]
	n := min(len(known), len(data))
	if !bytes.Equal(known[:n], data[:n]) {
		return fmt.Errorf("wire: a piece at %d is not what it was before", offset)
	}
	if data = data[n:]; len(data) == 0 {
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

// Bytes is the whole, once all of it is there and has the hash that names it.
func (a *Assembly) Bytes() ([]byte, error) {
	if !a.Done() {
		return nil, fmt.Errorf("wire: %d of %d bytes are there", len(a.got), a.size)
	}
	if sha256.Sum256(a.got) != a.hash {
		return nil, fmt.Errorf("wire: %d bytes do not have the hash %x that names them", a.size, a.hash[:4])
	}
	return a.got, nil
}
