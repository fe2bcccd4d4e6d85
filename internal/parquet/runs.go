package parquet

import "encoding/binary"

// runs iterates over numbers in the hybrid of run lengths and bit packing. It allocates nothing.
type runs struct {
	b     []byte
	width int // bits of a number
	left  int // numbers left in the run
	value uint32
	pack  []byte // of a packed run
	bit   int    // position in it
}

// next returns false after the last number and at malformed runs.
func (r *runs) next() (uint32, bool) {
	if r.width == 0 {
		return 0, true
	}
	for r.left == 0 {
		head, n := binary.Uvarint(r.b)
		if n <= 0 {
			return 0, false
		}
		r.b = r.b[n:]
		count := head >> 1
		if head&1 == 0 {
			size := (r.width + 7) / 8
			if len(r.b) < size || count > 1<<31 {
				return 0, false
			}
			r.value = 0
			for i, c := range r.b[:size] {
				r.value |= uint32(c) << (8 * i)
			}
			r.b, r.left, r.pack = r.b[size:], int(count), nil
			continue
		}
		if count == 0 {
			continue
		}
		// The last run may be cut, if fewer numbers are needed than it has room for.
		size := min(count*uint64(r.width), uint64(len(r.b)))
		r.pack, r.b, r.bit = r.b[:size], r.b[size:], 0
		if r.left = int(size) * 8 / r.width; r.left == 0 {
			return 0, false
		}
	}
	r.left--
	if r.pack == nil {
		return r.value, true
	}
	v := uint32(0)
	for got := 0; got < r.width; {
		in := r.bit & 7
		take := min(8-in, r.width-got)
		v |= uint32(r.pack[r.bit>>3]>>in) & (1<<take - 1) << got
		got += take
		r.bit += take
	}
	return v, true
}

// bitsFor is the width of numbers up to most.
func bitsFor(most int) int {
	n := 0
	for ; most > 0; most >>= 1 {
		n++
	}
	return n
}
