package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendRows appends rows of float32 without their padding, in little endian. Row r starts at
// values[r*stride].
func AppendRows(dst []byte, values []float32, rows, dim, stride int) []byte {
	for r := range rows {
		for _, x := range values[r*stride:][:dim] {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		}
	}
	return dst
}

// ReadRows decodes the output of AppendRows into padded rows, without changing the padding. If the size
// is wrong or a number is not finite, it returns an error and does not change dst.
func ReadRows(b []byte, dst []float32, rows, dim, stride int) error {
	if rows < 0 || dim < 0 || dim > stride || len(dst) < rows*stride {
		panic("wire: dst is too small for the rows")
	}
	if len(b) != 4*rows*dim {
		return fmt.Errorf("%d bytes for %d rows of %d numbers: must be %d", len(b), rows, dim, 4*rows*dim)
	}
	if i := notFinite(b); i >= 0 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		return fmt.Errorf("row %d contains %g: must be finite", i/dim, x)
	}
	for r := range rows {
		row, from := dst[r*stride:][:dim], b[4*r*dim:]
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
		}
	}
	return nil
}

// CheckLimit reports the first number of encoded rows that is not finite or exceeds a magnitude.
func CheckLimit(b []byte, most float64) error {
	most = min(most, math.MaxFloat32)
	for i := 0; i+4 <= len(b); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		if !(math.Abs(float64(x)) <= most) {
			if notFinite(b[i:i+4]) == 0 {
				return fmt.Errorf("number %d is %g: must be finite", i/4, x)
			}
			return fmt.Errorf("number %d is %.3g: must be at most %.3g in magnitude", i/4, x, most)
		}
	}
	return nil
}

// CheckFinite reports the first number of encoded rows that is not finite.
func CheckFinite(b []byte) error {
	if i := notFinite(b); i >= 0 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		return fmt.Errorf("number %d is %g: must be finite", i, x)
	}
	return nil
}

// notFinite returns the index of the first number that is not finite; -1 if all are.
func notFinite(b []byte) int {
	const exponent = 0x7f800000
	for i := 0; i+4 <= len(b); i += 4 {
		if binary.LittleEndian.Uint32(b[i:])&exponent == exponent {
			return i / 4
		}
	}
	return -1
}
