package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// A frame is what one message of JetStream holds: a part of a record, with its
// place in a chain. Little-endian:
//
//	magic 4 | kind 1 | part's flags 1 | zero 2 | chain 8 | epoch 8 | number 8 |
//	part 4 | parts 4 | length 4 | SHA-256 of the frame before 32 | payload | SHA-256 of all of it 32
//
// number counts the frames of a chain from 1. Chains have numbers that are used
// once in the life of a folder, so that no frame can replace another one.
type frame struct {
	kind    byte
	claim   bool // says that a new owner begins here; has no payload
	chain   uint64
	epoch   uint64
	number  uint64
	part    uint32
	parts   uint32
	prev    Hash
	payload []byte
	sum     Hash
}

// Hash is a SHA-256.
type Hash [sha256.Size]byte

const (
	magic     = "TCF1"
	headSize  = 44
	frameSize = headSize + 2*sha256.Size // without the payload

	kindIndex = 1
	kindLog   = 2
	kindBlob  = 3

	flagClaim = 1

	// partSize is the most that one message carries: one block of JetStream's file store holds one or two of them.
	partSize = 4 << 20
	// maxParts bounds what a reader may be asked to assemble: 2 GB.
	maxParts = 512
)

var errFrame = errors.New("store: malformed or corrupt frame")

// appendFrame writes f to dst and sets f.sum.
func appendFrame(dst []byte, f *frame) []byte {
	at := len(dst)
	var flags byte
	if f.claim {
		flags = flagClaim
	}
	dst = append(dst, magic...)
	dst = append(dst, f.kind, flags, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, f.chain)
	dst = binary.LittleEndian.AppendUint64(dst, f.epoch)
	dst = binary.LittleEndian.AppendUint64(dst, f.number)
	dst = binary.LittleEndian.AppendUint32(dst, f.part)
	dst = binary.LittleEndian.AppendUint32(dst, f.parts)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.payload)))
	dst = append(dst, f.prev[:]...)
	dst = append(dst, f.payload...)
	f.sum = sha256.Sum256(dst[at:])
	return append(dst, f.sum[:]...)
}

// frameLen reads the length of the frame at the beginning of b; 0 if b does not begin with a valid header.
func frameLen(b []byte) int {
	if len(b) < frameSize || string(b[:4]) != magic {
		return 0
	}
	n := binary.LittleEndian.Uint32(b[40:])
	if n > partSize {
		return 0
	}
	return frameSize + int(n)
}

// readFrame is the frame that b is, all of it. The payload is a slice of b.
func readFrame(b []byte) (frame, error) {
	if n := frameLen(b); n == 0 || n != len(b) {
		return frame{}, errFrame
	}
	body := b[:len(b)-sha256.Size]
	sum := sha256.Sum256(body)
	if !bytes.Equal(sum[:], b[len(body):]) {
		return frame{}, errFrame
	}
	f := frame{
		kind:    b[4],
		claim:   b[5] == flagClaim,
		chain:   binary.LittleEndian.Uint64(b[8:]),
		epoch:   binary.LittleEndian.Uint64(b[16:]),
		number:  binary.LittleEndian.Uint64(b[24:]),
		part:    binary.LittleEndian.Uint32(b[32:]),
		parts:   binary.LittleEndian.Uint32(b[36:]),
		prev:    Hash(b[44:76]),
		payload: body[76:],
		sum:     sum,
	}
	ok := f.kind >= kindIndex && f.kind <= kindBlob && b[5] <= flagClaim && b[6]|b[7] == 0 && f.number > 0 &&
		f.epoch > 0
	if f.claim {
		ok = ok && f.parts == 0 && f.part == 0 && len(f.payload) == 0
	} else {
		ok = ok && f.parts > 0 && f.parts <= maxParts && f.part < f.parts
	}
	if !ok {
		return frame{}, errFrame
	}
	return f, nil
}

// A chain checks frames that follow each other and puts records together.
type chain struct {
	kind   byte
	id     uint64
	number uint64 // of the last frame
	sum    Hash   // of the last frame
	epoch  uint64
	count  uint64 // whole records

	part, parts uint32 // the next part, of how many; parts == 0 outside of a record
	record      []byte
}

// next takes a frame in. Whole is true where it ends a record, which is valid
// until the next call. A record that its owner did not finish is left out; only
// a new owner may go on after it.
func (c *chain) next(f *frame) (record []byte, whole bool, err error) {
	switch {
	case f.kind != c.kind || f.chain != c.id:
		return nil, false, errors.New("a frame of another chain")
	case f.number != c.number+1:
		return nil, false, errors.New("frames are missing")
	case f.prev != c.sum:
		return nil, false, errors.New("a frame does not follow the one before")
	case f.epoch < c.epoch:
		return nil, false, errors.New("a frame of a former owner")
	}
	if f.claim {
		c.part, c.parts, c.record = 0, 0, nil
	} else if err := c.take(f); err != nil {
		return nil, false, err
	}
	c.number, c.sum, c.epoch = f.number, f.sum, f.epoch
	if f.claim || c.part < c.parts {
		return nil, false, nil
	}
	record, c.record = c.record, nil
	c.part, c.parts = 0, 0
	c.count++
	return record, true, nil
}

func (c *chain) take(f *frame) error {
	if f.part != c.part || (c.parts != 0 && f.parts != c.parts) {
		return errors.New("parts of a record are missing")
	}
	c.part, c.parts = f.part+1, f.parts
	if f.parts == 1 {
		c.record = f.payload
		return nil
	}
	c.record = append(c.record, f.payload...)
	return nil
}
