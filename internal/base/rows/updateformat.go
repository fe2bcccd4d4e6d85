package rows

import (
	"encoding/binary"
	"math/bits"
)

// The form of a vector of integers: a byte of version, a uvarint count, then runs until
// the bytes end. A run is a uvarint of zeros to skip, a uvarint n, a byte of width, and n
// numbers of that many bits, two's complement, the lowest bit first; what is left of the
// last byte is zero. What follows the last run is zero.
//
// One vector has one form. Stretches of numbers are cut where VectorGap zeros or more
// stand together, and begin and end with a number that is not zero. A stretch is cut into
// blocks of VectorBlock from its start; each has the width of its widest number, and
// neighbours of one width are one run.
const (
	UpdateVersion = 2
	UpdateGap     = 4
	UpdateBlock   = 64
)

// UpdateSizer weighs that form, from the parts of a vector that are not zero.
type UpdateSizer struct {
	bytes []byte
	write bool
	size  int
	done  int     // end of the last stretch
	start int     // of the stretch in progress
	buf   []int64 // which is here, with the zeros behind it
	zeros int     // so many
}

// AppendUpdate appends the form of x to dst.
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

// Begin starts a vector of so many numbers.
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

// Add brings numbers from a place on. Places ascend; what lies between is zero.
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

// End returns the size.
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
	var low uint64 // bits that are not written yet
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

// BitWidth is how many bits a number needs, with its sign.
func BitWidth(x int64) int { return bits.Len64(uint64(x^x>>63)) + 1 }

func widest(v []int64) int {
	var all uint64
	for _, x := range v {
		all |= uint64(x ^ x>>63)
	}
	return bits.Len64(all) + 1
}
