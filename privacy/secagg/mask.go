package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
)

// keySize is the length of every key, seed, tag and hash here.
const keySize = 32

// Uses of derived keys. Each use has its own keys.
const (
	forBox     = "tacit secagg 1 box"
	forPair    = "tacit secagg 1 pair mask"
	forSelf    = "tacit secagg 1 self mask"
	forCommit  = "tacit secagg 1 commitment"
	forShare   = "tacit secagg 2 share commitment"
	forUpload  = "tacit secagg 1 upload tag"
	forConfirm = "tacit secagg 1 confirm"
	forGraph   = "tacit secagg 1 graph"
	forRound   = "tacit secagg 1 rounding"
	forSession = "tacit secagg 1 session"
)

// derive makes a key from a secret for one use, one context and two IDs.
func derive(secret []byte, context [keySize]byte, use string, a, b uint32) (key [keySize]byte) {
	info := make([]byte, 0, 64)
	info = append(info, use...)
	info = binary.LittleEndian.AppendUint32(info, a)
	info = binary.LittleEndian.AppendUint32(info, b)
	out, err := hkdf.Key(sha256.New, secret, context[:], string(info), keySize)
	if err != nil {
		panic(badKey) // only lengths can be wrong
	}
	copy(key[:], out)
	return key
}

const badKey = "secagg: a key of a fixed length was refused"

// stream is the key stream of AES-256 in counter mode. A key is used for one
// stream only, so that the counter may start at 0.
type stream struct{ ctr cipher.Stream }

func newStream(key [keySize]byte) stream {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(badKey)
	}
	return stream{cipher.NewCTR(block, make([]byte, aes.BlockSize))}
}

// Read fills b; it cannot end.
func (s stream) Read(b []byte) (int, error) {
	clear(b)
	s.ctr.XORKeyStream(b, b)
	return len(b), nil
}

// lanes is the number of mask values that are expanded at a time: buffer, zeros and target
// together fit the first-level cache.
const lanes = 2048

var zeros [4 * lanes]byte // never written

// masker expands masks; its buffer is the only memory beside the key schedule.
type masker struct{ buf [4 * lanes]byte }

// add adds to dst the mask of a key modulo 2^32, or subtracts it.
func (m *masker) add(key [keySize]byte, subtract bool, dst []uint32) {
	s := newStream(key)
	for len(dst) > 0 {
		n := min(len(dst), lanes)
		buf := m.buf[:4*n]
		s.ctr.XORKeyStream(buf, zeros[:4*n])
		if subtract {
			subLanes(buf, dst[:n])
		} else {
			addLanes(buf, dst[:n])
		}
		dst = dst[n:]
	}
}

func addLanes(b []byte, dst []uint32) {
	for len(dst) >= 4 && len(b) >= 16 {
		dst[0] += binary.LittleEndian.Uint32(b)
		dst[1] += binary.LittleEndian.Uint32(b[4:])
		dst[2] += binary.LittleEndian.Uint32(b[8:])
		dst[3] += binary.LittleEndian.Uint32(b[12:])
		dst, b = dst[4:], b[16:]
	}
	for i := range dst {
		dst[i] += binary.LittleEndian.Uint32(b[4*i:])
	}
}

func subLanes(b []byte, dst []uint32) {
	for len(dst) >= 4 && len(b) >= 16 {
		dst[0] -= binary.LittleEndian.Uint32(b)
		dst[1] -= binary.LittleEndian.Uint32(b[4:])
		dst[2] -= binary.LittleEndian.Uint32(b[8:])
		dst[3] -= binary.LittleEndian.Uint32(b[12:])
		dst, b = dst[4:], b[16:]
	}
	for i := range dst {
		dst[i] -= binary.LittleEndian.Uint32(b[4*i:])
	}
}

// packedSize is the number of bytes of n numbers with the given bits.
func packedSize(n, bits int) int { return (n*bits + 7) / 8 }

// pack writes the low bits of each number consecutively, lowest first, and drops the
// others: that is the modulus.
func pack(src []uint32, bits int, dst []byte) {
	low := uint64(1)<<bits - 1
	acc, have, at := uint64(0), 0, 0
	for _, v := range src {
		acc |= uint64(v) & low << have
		have += bits
		if have >= 32 {
			binary.LittleEndian.PutUint32(dst[at:], uint32(acc))
			acc, have, at = acc>>32, have-32, at+4
		}
	}
	for ; have > 0; have -= 8 {
		dst[at] = byte(acc)
		acc, at = acc>>8, at+1
	}
}

// addPacked adds packed numbers to dst modulo 2^32. It reports whether src has
// the right length and nothing in its last bits.
func addPacked(src []byte, bits int, dst []uint32) bool {
	if len(src) != packedSize(len(dst), bits) {
		return false
	}
	if used := len(dst) * bits % 8; used != 0 && src[len(src)-1]>>used != 0 {
		return false
	}
	low := uint64(1)<<bits - 1
	acc, have := uint64(0), 0
	for i := range dst {
		for have < bits {
			if len(src) >= 4 {
				acc |= uint64(binary.LittleEndian.Uint32(src)) << have
				src, have = src[4:], have+32
			} else {
				acc |= uint64(src[0]) << have
				src, have = src[1:], have+8
			}
		}
		dst[i] += uint32(acc & low)
		acc, have = acc>>bits, have-bits
	}
	return true
}
