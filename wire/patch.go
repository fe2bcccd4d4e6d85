package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A patch is a version byte, the size of the target as a uvarint, and steps. A step is three uvarints
// and data: the number of bytes to copy from the base, the number of bytes of the base to skip after
// them, and the size of the data to insert.
const patchVersion = 1

// MaxPatches is the largest number of patches of a manifest.
const MaxPatches = 256

// patchWriter writes a patch and merges adjacent changes into one step.
type patchWriter struct {
	out   []byte
	keep  int
	drop  int
	put   []byte
	limit int
}

func newPatchWriter(size, limit int) *patchWriter {
	return &patchWriter{out: binary.AppendUvarint([]byte{patchVersion}, uint64(size)), limit: limit}
}

// take copies n bytes of the base.
func (c *patchWriter) take(n int) {
	if c.drop > 0 || len(c.put) > 0 {
		c.flush()
	}
	c.keep += n
}

// replace replaces n bytes of the base.
func (c *patchWriter) replace(n int, put []byte) {
	c.drop += n
	c.put = append(c.put, put...)
}

func (c *patchWriter) over() bool { return len(c.out)+len(c.put) > c.limit }

func (c *patchWriter) flush() {
	if c.keep+c.drop+len(c.put) == 0 {
		return
	}
	for _, n := range [...]int{c.keep, c.drop, len(c.put)} {
		c.out = binary.AppendUvarint(c.out, uint64(n))
	}
	c.out = append(c.out, c.put...)
	c.keep, c.drop, c.put = 0, 0, c.put[:0]
}

// done returns the patch, or nil if it exceeds the limit.
func (c *patchWriter) done() []byte {
	c.flush()
	if c.over() {
		return nil
	}
	return c.out
}

// DiffRows returns the patch from base to next, which consist of rows of width bytes. It returns nil if
// the patch exceeds limit bytes.
func DiffRows(base, next []byte, width, limit int) []byte {
	if width < 1 {
		panic("wire: rows without a width")
	}
	c := newPatchWriter(len(next), limit)
	for at := 0; at < len(next); at += width {
		is := next[at:min(at+width, len(next))]
		was := base[min(at, len(base)):min(at+width, len(base))]
		if bytes.Equal(is, was) {
			c.take(len(is))
		} else if c.replace(len(was), is); c.over() {
			return nil
		}
	}
	return c.done()
}

// DiffCatalogue is DiffRows for catalogues, field by field. Items keep their index, so the patch holds
// added and changed items only.
func DiffCatalogue(base, next []byte, limit int) []byte {
	c := newPatchWriter(len(next), limit)
	for len(next) > 0 {
		is, size := protowire.Number(0), 0
		if is, _, size = protowire.ConsumeField(next); size < 0 {
			return nil
		}
		was, old := protowire.Number(0), 0
		if len(base) > 0 {
			if was, _, old = protowire.ConsumeField(base); old < 0 {
				return nil
			}
		}
		switch { // fields are in the order of their numbers
		case old > 0 && was < is:
			c.replace(old, nil)
			base = base[old:]
			continue
		case old > 0 && was == is && bytes.Equal(base[:old], next[:size]):
			c.take(size)
			base = base[old:]
		case old > 0 && was == is:
			c.replace(old, next[:size])
			base = base[old:]
		default:
			c.replace(0, next[:size])
		}
		if next = next[size:]; c.over() {
			return nil
		}
	}
	return c.done()
}

// ApplyPatch returns the blob of size bytes that a patch makes from its base. The caller must check its
// hash. It allocates no more than size bytes, and no more than base and patch have together.
func ApplyPatch(base, change []byte, size uint64) ([]byte, error) {
	if len(change) == 0 || change[0] != patchVersion {
		return nil, errors.New("unknown version of a patch")
	}
	n, change, err := uvarint(change[1:], len(base)+len(change))
	if err != nil || uint64(n) != size {
		return nil, errors.Join(err, fmt.Errorf("patch to %d bytes: must be %d", n, size))
	}
	out := make([]byte, 0, n)
	for len(change) > 0 {
		var step [3]int
		for i, limit := range [...]int{min(len(base), n-len(out)), len(base), n - len(out)} {
			if step[i], change, err = uvarint(change, limit); err != nil {
				return nil, fmt.Errorf("patch at byte %d of %d: %w", len(out), n, err)
			}
		}
		keep, drop, put := step[0], step[1], step[2]
		if drop > len(base)-keep || put > len(change) || put > n-len(out)-keep || keep+drop+put == 0 {
			return nil, fmt.Errorf("corrupt patch: a step copies %d bytes, skips %d and inserts %d at %d of %d", keep,
				drop, put, len(out), n)
		}
		out = append(append(out, base[:keep]...), change[:put]...)
		base, change = base[keep+drop:], change[put:]
	}
	if len(out) != n {
		return nil, fmt.Errorf("patch makes %d bytes: must be %d", len(out), n)
	}
	return out, nil
}
