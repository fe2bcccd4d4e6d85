package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendRows appends rows of float32 without their padding, little-endian. Row r
// starts at r*stride of values.
func AppendRows(dst []byte, values []float32, rows, dim, stride int) []byte {
	for r := range rows {
		for _, x := range values[r*stride:][:dim] {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		}
	}
	return dst
}

// ReadRows reads what AppendRows wrote to padded rows, whose padding stays as it is.
// It refuses bytes of another size and numbers that are not finite, and then leaves
// dst alone.
func ReadRows(b []byte, dst []float32, rows, dim, stride int) error {
	if rows < 0 || dim < 0 || dim > stride || len(dst) < rows*stride {
		panic("wire: rows do not fit where they are read to")
	}
	if len(b) != 4*rows*dim {
		return fmt.Errorf("wire: %d bytes for %d rows of %d numbers: want %d", len(b), rows, dim, 4*rows*dim)
	}
	const exponent = 0x7f800000
	for i := 0; i < len(b); i += 4 {
		if x := binary.LittleEndian.Uint32(b[i:]); x&exponent == exponent {
			return fmt.Errorf("wire: row %d has %g: want finite numbers", i/4/dim, math.Float32frombits(x))
		}
	}
	for r := range rows {
		row, from := dst[r*stride:][:dim], b[4*r*dim:]
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
		}
	}
	return nil
}
