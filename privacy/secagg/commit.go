package secagg

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// commitSize is the length of the commitments to the two halves of a share. A half is 32 random
// bytes, so a hash of 16 hides it, and nobody but its owner can find another half with the same
// hash.
const commitSize = keySize

// shareCommit commits the owner of two secrets to the shares that one holder has: the first half to
// the share of the seed, the second to that of the mask key. The server sees it when shares are
// dealt, and can check a revealed share by itself.
type shareCommit = [commitSize]byte

func commitShares(context [keySize]byte, owner, holder uint32, share *[pairSize]byte) (out shareCommit) {
	for half := range 2 {
		h := commitShare(context, owner, holder, half, (*[keySize]byte)(share[half*keySize:]))
		copy(out[half*commitSize/2:], h[:])
	}
	return out
}

func commitShare(context [keySize]byte, owner, holder uint32, half int, share *[keySize]byte) (
	out [commitSize / 2]byte,
) {
	b := append(make([]byte, 0, 128), forShare...)
	b = append(b, context[:]...)
	b = binary.LittleEndian.AppendUint32(b, owner)
	b = binary.LittleEndian.AppendUint32(b, holder)
	b = append(b, byte(half))
	b = append(b, share[:]...)
	h := sha256.Sum256(b)
	copy(out[:], h[:])
	return out
}

// Violation is a breach of the protocol by one device that its server can prove by itself, from the
// device's own messages. The one exception is a device whose shares are rejected by enough neighbours
// to make its secrets unrecoverable: an honest device is named only if more of its neighbours collude
// than [Plan] was told. A device that only drops out is never named, and neither is one that another
// device accuses alone.
type Violation struct {
	Device uint32
	Reason string
}

// Error describes the violation.
func (v *Violation) Error() string { return fmt.Sprintf("secagg: device %d %s", v.Device, v.Reason) }

func violation(device uint32, format string, args ...any) *Violation {
	return &Violation{device, fmt.Sprintf(format, args...)}
}
