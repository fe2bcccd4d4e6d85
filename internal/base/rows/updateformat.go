package rows

import (
	"encoding/binary"
	"math/bits"
)

// The binary form of an update: a version byte, a uvarint count of integers, then runs until
// the bytes end. A run is a uvarint of zeros to skip, a uvarint n, a byte of width, and n
// integers of that many bits, in two's complement, lowest bit first; unused bits of the last
// byte are zero. Integers after the last run are zero.
//
// An update has exactly one form. Its integers are split into stretches at every UpdateGap or
// more consecutive zeros; a stretch starts and ends with an integer that is not zero. A
// stretch is divided into blocks of UpdateBlock integers; each block has the width of its
// widest integer, and adjacent blocks of the same width form one run.
const (
	UpdateVersion = 2
	UpdateGap     = 4
	UpdateBlock   = 64
)

// UpdateSizer computes the size of that form from the parts of an update that are not zero.
type UpdateSizer struct {
	bytes []byte
	write bool
	size  int
	done  int     // end of the last stretch
	start int     // of the stretch in progress
	buf   []int64 // that stretch, with the zeros after it
	zeros int     // number of these zeros
}

// AppendUpdate appends the binary form of x to dst.
func AppendUpdate(dst []byte, x []int64) []byte {
	v := UpdateSizer{bytes: dst, write: true}
	v.head(len(x))
	done := 0
	for at := 0; ; {
		for at < len(x) && x[at] == 0 {
			at++
		}
		if at == len(x) {
			return v.bytes
		}
		end := at
		for i := at; i < min(len(x), end+UpdateGap); i++ {
			if x[i] != 0 {
				end = i + 1
			}
		}
		v.stretch(x[at:end], at-done)
		at, done = end, end
	}
}

// Begin starts an update of that many integers.
func (v *UpdateSizer) Begin(numbers int) {
	*v = UpdateSizer{buf: v.buf[:0]}
	v.head(numbers)
}

func (v *UpdateSizer) head(numbers int) {
	v.put(UpdateVersion)
	v.uvarint(numbers)
}

func (v *UpdateSizer) put(b byte) {
	if v.size++; v.write {
		v.bytes = append(v.bytes, b)
	}
}

func (v *UpdateSizer) uvarint(n int) {
	for ; n >= 0x80; n >>= 7 {
		v.put(byte(n) | 0x80)
	}
	v.put(byte(n))
}

// Add adds integers from an offset on. Offsets ascend; integers in between are zero.
func (v *UpdateSizer) Add(at int, row []int64) {
	if n := at - v.start - len(v.buf); len(v.buf) > 0 && n > 0 {
		if v.zeros += n; v.zeros >= UpdateGap {
			v.cut()
		} else {
			v.buf = append(v.buf, make([]int64, n)...)
		}
	}
	for i := 0; i < len(row); i++ {
		x := row[i]
		switch {
		case x != 0:
			if len(v.buf) == 0 {
				v.start = at + i
			}
			v.buf, v.zeros = append(v.buf, x), 0
		case len(v.buf) == 0:
			for i+1 < len(row) && row[i+1] == 0 {
				i++
			}
		default:
			v.buf = append(v.buf, 0)
			if v.zeros++; v.zeros == UpdateGap {
				v.cut()
			}
		}
	}
}

// End returns the size in bytes.
func (v *UpdateSizer) End() int {
	v.cut()
	return v.size
}

// cut ends the stretch in progress.
func (v *UpdateSizer) cut() {
	s := v.buf
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	if len(s) > 0 {
		v.stretch(s, v.start-v.done)
		v.done = v.start + len(s)
	}
	v.buf, v.zeros = v.buf[:0], 0
}

func (v *UpdateSizer) stretch(s []int64, skip int) {
	for len(s) > 0 {
		n := min(UpdateBlock, len(s))
		w := widest(s[:n])
		for n < len(s) && widest(s[n:min(n+UpdateBlock, len(s))]) == w {
			n = min(n+UpdateBlock, len(s))
		}
		v.uvarint(skip)
		v.uvarint(n)
		v.put(byte(w))
		v.run(s[:n], w)
		s, skip = s[n:], 0
	}
}

func (v *UpdateSizer) run(s []int64, w int) {
	if !v.write {
		v.size += (len(s)*w + 7) / 8
		return
	}
	mask := ^uint64(0) >> (64 - w)
	var low uint64 // bits not yet written
	have := 0
	for _, x := range s {
		u := uint64(x) & mask
		low |= u << have
		if have += w; have >= 64 {
			v.bytes = binary.LittleEndian.AppendUint64(v.bytes, low)
			have -= 64
			low = u >> (w - have) // by 64 it is 0
		}
	}
	for ; have > 0; have -= 8 {
		v.bytes = append(v.bytes, byte(low))
		low >>= 8
	}
}

// BitWidth is the number of bits of an integer, with its sign.
func BitWidth(x int64) int { return bits.Len64(uint64(x^x>>63)) + 1 }

func widest(v []int64) int {
	var all uint64
	for _, x := range v {
		all |= uint64(x ^ x>>63)
	}
	return bits.Len64(all) + 1
}
