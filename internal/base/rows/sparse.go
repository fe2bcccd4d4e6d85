package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// A row of a sparse part starts with a byte that says how it goes on: the shortest
// way is the only valid one, of equal ones the first. A number that is +0 to the bit
// is left out; -0 is a number like any other.
const (
	rowEmpty  = iota // nothing: every number is 0
	rowFull          // every number, as f32
	rowBitmap        // a bit for each number, lowest first, then those that are set
	rowGaps          // how many:uvarint, their distances:uvarint, then they
)

// MostSparse bounds the numbers of all sparse parts of an update that UnmarshalBinary
// accepts: a row of zeros is one byte, whatever it stands for. Who knows how large an
// update can be says so to Decode.
const MostSparse = 1 << 24

// SparseRowSize is the length of a row in a sparse part.
func SparseRowSize(row []float32) int {
	_, size := shortest(row)
	return size
}

// shortest says how a row is written, and how long it is then.
func shortest(row []float32) (how byte, size int) {
	n, gaps, last := 0, 0, -1
	for i, v := range row {
		if math.Float32bits(v) != 0 {
			n++
			gaps += uvarintSize(i - last - 1)
			last = i
		}
	}
	if n == 0 {
		return rowEmpty, 1
	}
	how, size = rowFull, 4*len(row)
	if s := (len(row)+7)/8 + 4*n; s < size {
		how, size = rowBitmap, s
	}
	if s := uvarintSize(n) + gaps + 4*n; s < size {
		how, size = rowGaps, s
	}
	return how, 1 + size
}

func uvarintSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// SparsePartSize is the length of a sparse part whose rows are so many bytes. ids is
// as in Part.
func SparsePartSize(rowBytes int, ids []uint32) int {
	n, next := partHeader+rowBytes, uint32(0)
	for _, id := range ids {
		n += uvarintSize(int(id - next))
		next = id + 1
	}
	return n
}

func (p *Part) sparseSize() int {
	if p.Dim < 1 { // it cannot be written at all
		return partHeader
	}
	n := 0
	for row := range slices.Chunk(p.Data, p.Dim) {
		n += SparseRowSize(row)
	}
	return SparsePartSize(n, p.IDs)
}

// appendSparse appends the ids, by their distances, and the rows.
func (p *Part) appendSparse(b []byte) []byte {
	next := uint32(0)
	for _, id := range p.IDs {
		b = binary.AppendUvarint(b, uint64(id-next))
		next = id + 1
	}
	for row := range slices.Chunk(p.Data, p.Dim) {
		b = appendRow(b, row)
	}
	return b
}

func appendRow(b []byte, row []float32) []byte {
	how, _ := shortest(row)
	b = append(b, how)
	switch how {
	case rowBitmap:
		at := len(b)
		b = append(b, make([]byte, (len(row)+7)/8)...)
		for i, v := range row {
			if math.Float32bits(v) != 0 {
				b[at+i/8] |= 1 << (i % 8)
			}
		}
	case rowGaps:
		n := 0
		for _, v := range row {
			if math.Float32bits(v) != 0 {
				n++
			}
		}
		b = binary.AppendUvarint(b, uint64(n))
		last := -1
		for i, v := range row {
			if math.Float32bits(v) != 0 {
				b = binary.AppendUvarint(b, uint64(i-last-1))
				last = i
			}
		}
	}
	for _, v := range row {
		if x := math.Float32bits(v); x != 0 || how == rowFull {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	return b
}

var errRow = errors.New("is not written in the one valid way")

// readSparse reads the ids and rows of a part, whose header is read. It looks at all
// of them before it makes room for them.
func (p *Part) readSparse(b []byte, rows uint64, listed bool, most *int) (rest []byte, err error) {
	if rows > uint64(len(b)) {
		return nil, errShort // a row is a byte at least
	}
	if int(rows) > *most/p.Dim {
		return nil, fmt.Errorf("rows: slot %d: %d rows of %d are more numbers than the %d that are left to it", p.Slot,
			rows, p.Dim, *most)
	}
	*most -= int(rows) * p.Dim
	if listed {
		if b, err = p.readGaps(b, int(rows)); err != nil {
			return nil, err
		}
	}
	rest = b
	for range rows {
		if rest, err = readRow(rest, p.Dim, nil); err != nil {
			return nil, p.inRow(err)
		}
	}
	p.Data = make([]float32, int(rows)*p.Dim)
	for i := range int(rows) {
		row := p.Data[i*p.Dim : (i+1)*p.Dim]
		how := b[0]
		if b, err = readRow(b, p.Dim, row); err == nil {
			if short, _ := shortest(row); short != how {
				err = errRow
			}
		}
		if err != nil {
			return nil, p.inRow(err)
		}
	}
	return b, nil
}

func (p *Part) inRow(err error) error {
	if err == errShort {
		return err
	}
	return fmt.Errorf("rows: slot %d: a sparse row %w", p.Slot, err)
}

func (p *Part) readGaps(b []byte, rows int) ([]byte, error) {
	p.IDs = make([]uint32, rows)
	next := uint64(0)
	for i := range p.IDs {
		gap, n := readUvarint(b)
		if n <= 0 || gap > math.MaxUint32 || next+gap > math.MaxUint32 {
			return nil, fmt.Errorf("rows: slot %d: row id %d is not valid", p.Slot, i)
		}
		next += gap
		p.IDs[i] = uint32(next)
		next, b = next+1, b[n:]
	}
	return b, nil
}

// readUvarint is binary.Uvarint, but only the shortest form is valid.
func readUvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// readRow reads a row into dst, or only past it where that is nil.
func readRow(b []byte, dim int, dst []float32) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errShort
	}
	how := b[0]
	b = b[1:]
	switch how {
	case rowEmpty:
		return b, nil
	case rowFull:
		if len(b) < 4*dim {
			return nil, errShort
		}
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return b[4*dim:], finite(dst)
	case rowBitmap:
		return readBitmap(b, dim, dst)
	case rowGaps:
		return readPlaces(b, dim, dst)
	}
	return nil, errRow
}

func readBitmap(b []byte, dim int, dst []float32) (rest []byte, err error) {
	size := (dim + 7) / 8
	if len(b) < size {
		return nil, errShort
	}
	set, n := b[:size], 0
	for _, x := range set {
		n += bits.OnesCount8(x)
	}
	if dim%8 != 0 && set[size-1]>>(dim%8) != 0 {
		return nil, errRow
	}
	if b = b[size:]; len(b) < 4*n {
		return nil, errShort
	}
	for i := range dst {
		if set[i/8]>>(i%8)&1 == 1 {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
			if b = b[4:]; math.Float32bits(dst[i]) == 0 {
				return nil, errRow
			}
		}
	}
	if dst == nil {
		b = b[4*n:]
	}
	return b, finite(dst)
}

func readPlaces(b []byte, dim int, dst []float32) (rest []byte, err error) {
	count, k := readUvarint(b)
	if k <= 0 || count > uint64(dim) {
		return nil, errRow
	}
	gaps := b[k:]
	b = gaps
	place := uint64(0)
	for range count {
		gap, k := readUvarint(b)
		if k <= 0 || gap > uint64(dim) || place+gap >= uint64(dim) {
			return nil, errRow
		}
		place, b = place+gap+1, b[k:]
	}
	if uint64(len(b)) < 4*count {
		return nil, errShort
	}
	if dst == nil {
		return b[4*count:], nil
	}
	place = 0
	for range count {
		gap, k := readUvarint(gaps)
		place, gaps = place+gap, gaps[k:]
		x := binary.LittleEndian.Uint32(b)
		if b = b[4:]; x == 0 {
			return nil, errRow
		}
		dst[place] = math.Float32frombits(x)
		place++
	}
	return b, finite(dst)
}

func finite(row []float32) error {
	for _, v := range row {
		if v-v != 0 {
			return errors.New("holds a number that is not finite")
		}
	}
	return nil
}
