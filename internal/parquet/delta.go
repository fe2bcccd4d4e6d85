package parquet

import "encoding/binary"

// deltas iterates over integers that are packed as differences, in blocks of smaller blocks. It allocates nothing.
type deltas struct {
	b       []byte
	perMini int    // integers of a small block
	minis   int    // small blocks of a block
	left    int    // integers left, without the first
	value   int64  // the next integer
	least   int64  // the smallest difference of the block
	widths  []byte // bits of the differences, by small block that is left
	inMini  int    // differences left in the small block
	width   int
	pack    []byte
	bit     int
	done    bool
}

// open reads the header. The number of integers must not exceed most.
func (d *deltas) open(b []byte, most int) bool {
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return false
		}
		head[i], b = v, b[n:]
	}
	first, n := binary.Varint(b)
	if n <= 0 || head[0] > 1<<20 || head[1] < 1 || head[1] > 1<<10 || head[0]%head[1] != 0 || head[0] < head[1] ||
		head[2] > uint64(most) {
		return false
	}
	*d = deltas{
		b: b[n:], perMini: int(head[0] / head[1]), minis: int(head[1]), left: int(head[2]) - 1, value: first,
		done: head[2] == 0,
	}
	return true
}

// openAll opens the integers at the beginning of b and returns the bytes after them.
func (d *deltas) openAll(b []byte, most int) (rest []byte, ok bool) {
	if !d.open(b, most) {
		return nil, false
	}
	all := *d
	for !all.done {
		if _, ok := all.next(); !ok {
			return nil, false
		}
	}
	return all.b, true
}

// next returns false after the last integer and at malformed blocks.
func (d *deltas) next() (int64, bool) {
	if d.done {
		return 0, false
	}
	out := d.value
	if d.left == 0 {
		d.done = true
		return out, true
	}
	if d.inMini == 0 && !d.mini() {
		d.done = true
		return 0, false
	}
	d.left--
	d.inMini--
	v := uint64(0)
	for got := 0; got < d.width; {
		if d.bit>>3 >= len(d.pack) {
			d.done = true
			return 0, false
		}
		in := d.bit & 7
		take := min(8-in, d.width-got)
		v |= uint64(d.pack[d.bit>>3]>>in) & (1<<take - 1) << got
		got += take
		d.bit += take
	}
	d.value += d.least + int64(v)
	return out, true
}

// mini starts the next small block.
func (d *deltas) mini() bool {
	if len(d.widths) == 0 {
		least, n := binary.Varint(d.b)
		if n <= 0 || len(d.b)-n < d.minis {
			return false
		}
		d.least, d.widths, d.b = least, d.b[n:n+d.minis], d.b[n+d.minis:]
	}
	if d.width = int(d.widths[0]); d.width > 64 {
		return false
	}
	d.widths = d.widths[1:]
	size := min((d.perMini*d.width+7)/8, len(d.b))
	d.pack, d.b, d.bit, d.inMini = d.b[:size], d.b[size:], 0, d.perMini
	return true
}

// prefixes decodes texts that share a prefix with the text before.
type prefixes struct {
	lengths deltas
	last    []byte
}

// next takes the n bytes after the prefix from the bytes of the page.
func (p *prefixes) next(n int64, page *[]byte) ([]byte, bool) {
	shared, ok := p.lengths.next()
	if !ok || shared < 0 || shared > int64(len(p.last)) || n < 0 || n > int64(len(*page)) {
		return nil, false
	}
	p.last = append(p.last[:shared], (*page)[:n]...)
	*page = (*page)[n:]
	return p.last, true
}
