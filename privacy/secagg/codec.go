package secagg

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The binary form of every message, little endian: "SA", version, kind, the 32
// bytes of the context, then its fields in order. Lists are a count and their
// items in ascending order, so that a message has one form. The reader checks that the bytes
// exist before it allocates memory for them.
const (
	version  = 2
	headSize = 4 + keySize
)

const (
	kindAdvert = iota + 1
	kindRoster
	kindMail
	kindUpload
	kindLists
	kindReveal
)

type writer struct{ b []byte }

func (w *writer) head(kind byte, context [keySize]byte) {
	w.b = append(w.b, 'S', 'A', version, kind)
	w.key(context)
}

func (w *writer) u32(v uint32)        { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) key(k [keySize]byte) { w.b = append(w.b, k[:]...) }
func (w *writer) ids(ids []uint32) {
	w.u32(uint32(len(ids)))
	for _, id := range ids {
		w.u32(id)
	}
}

func (w *writer) set(s Set) {
	w.u32(uint32(len(s)))
	w.b = append(w.b, s...)
}

// reader keeps the first error; after one, everything it returns is zero.
type reader struct {
	b    []byte
	last uint32
	err  error
}

var errShort = errors.New("secagg: truncated message")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// bytes returns the next n bytes without copying them.
func (r *reader) bytes(n int) []byte {
	if r.err != nil || len(r.b) < n {
		r.fail(errShort)
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) head(kind byte) [keySize]byte {
	if h := r.bytes(4); h != nil && (h[0] != 'S' || h[1] != 'A' || h[2] != version || h[3] != kind) {
		r.fail(fmt.Errorf("secagg: message starts with % x, expected 53 41 %02x %02x: another kind or version",
			h, version, kind))
	}
	return r.key()
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) key() (k [keySize]byte) {
	copy(k[:], r.bytes(keySize))
	return k
}

// count reads the number of items that follow and checks that their bytes exist.
func (r *reader) count(size int) int {
	n := r.u32()
	if uint64(n)*uint64(size) > uint64(len(r.b)) {
		r.fail(errShort)
		return 0
	}
	return int(n)
}

func (r *reader) set() Set {
	n := r.count(1)
	if n > maxDevices/8 {
		r.fail(fmt.Errorf("secagg: set of %d bytes exceeds %d", n, maxDevices/8))
		return nil
	}
	return append(Set{}, r.bytes(n)...)
}

// ids reads a list of IDs; nil if it is empty.
func (r *reader) ids() (out []uint32) {
	for i := range r.count(4) {
		out = append(out, r.u32())
		r.ascends(i, out[i])
	}
	return out
}

// ascends checks that the i-th ID of a list is larger than the previous one.
func (r *reader) ascends(i int, id uint32) {
	if i > 0 && id <= r.last {
		r.fail(fmt.Errorf("secagg: ID %d follows %d in a list: IDs must ascend", id, r.last))
	}
	r.last = id
}

func (r *reader) end(what string) error {
	if r.err == nil && len(r.b) != 0 {
		r.err = fmt.Errorf("secagg: %d bytes after the end of %s", len(r.b), what)
	}
	return r.err
}
