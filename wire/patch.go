package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The form of a change: a byte of version, the size of what it makes, and steps until the
// bytes end. A step is three uvarints and what the last of them counts: how many bytes of
// the base are taken, how many after them are passed over, and how many follow here.
const patchVersion = 1

// MaxPatches bounds the changes that a manifest names.
const MaxPatches = 256

// patchWriter writes a change; bytes that follow each other are one step.
type patchWriter struct {
	out  []byte
	keep int
	drop int
	put  []byte
	most int
}

func newPatchWriter(size, most int) *patchWriter {
	return &patchWriter{out: binary.AppendUvarint([]byte{patchVersion}, uint64(size)), most: most}
}

// take keeps n bytes of the base.
func (c *patchWriter) take(n int) {
	if c.drop > 0 || len(c.put) > 0 {
		c.flush()
	}
	c.keep += n
}

// replace passes n bytes of the base over and puts others in their place.
func (c *patchWriter) replace(n int, put []byte) {
	c.drop += n
	c.put = append(c.put, put...)
}

func (c *patchWriter) over() bool { return len(c.out)+len(c.put) > c.most }

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

// done is the change, or nil where it is over the limit.
func (c *patchWriter) done() []byte {
	if c.flush(); c.over() {
		return nil
	}
	return c.out
}

// DiffRows is what makes rows of so many bytes of older ones: those that differ, and
// those that are new at the end. It is nil where that takes over most bytes.
func DiffRows(base, next []byte, width, most int) []byte {
	if width < 1 {
		panic("wire: rows without a width")
	}
	c := newPatchWriter(len(next), most)
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

// DiffCatalogue is the same for catalogues, field by field: items stay where they are,
// so that those which were added or changed are what it takes.
func DiffCatalogue(base, next []byte, most int) []byte {
	c := newPatchWriter(len(next), most)
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
		switch { // fields stand in the order of their numbers
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

// ApplyPatch makes a blob of its base and a change. Whether it is the right one its hash
// says, which is for the caller to see. It takes no more memory than the two have bytes,
// nor than size.
func ApplyPatch(base, change []byte, size uint64) ([]byte, error) {
	if len(change) == 0 || change[0] != patchVersion {
		return nil, errors.New("wire: a change of a form that this program does not know")
	}
	n, change, err := uvarint(change[1:], len(base)+len(change))
	if err != nil || uint64(n) != size {
		return nil, errors.Join(err, fmt.Errorf("wire: a change to %d bytes: want %d", n, size))
	}
	out := make([]byte, 0, n)
	for len(change) > 0 {
		var step [3]int
		for i, most := range [...]int{min(len(base), n-len(out)), len(base), n - len(out)} {
			if step[i], change, err = uvarint(change, most); err != nil {
				return nil, fmt.Errorf("a change at byte %d of %d: %w", len(out), n, err)
			}
		}
		keep, drop, put := step[0], step[1], step[2]
		if drop > len(base)-keep || put > len(change) || put > n-len(out)-keep || keep+drop+put == 0 {
			return nil, fmt.Errorf("wire: a change takes %d bytes, leaves %d out and puts %d at %d of %d: that "+
				"cannot be", keep, drop, put, len(out), n)
		}
		out = append(append(out, base[:keep]...), change[:put]...)
		base, change = base[keep+drop:], change[put:]
	}
	if len(out) != n {
		return nil, fmt.Errorf("wire: a change makes %d bytes: want %d", len(out), n)
	}
	return out, nil
}
