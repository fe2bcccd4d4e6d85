package rows

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// sparseRow is a row of dim numbers with 1 at the given places.
func sparseRow(dim int, places ...int) []float32 {
	row := make([]float32, dim)
	for _, i := range places {
		row[i] = 1
	}
	return row
}

func TestARowTakesItsShortestForm(t *testing.T) {
	full := sparseRow(32)
	for i := range full {
		full[i] = 1
	}
	most := slices.Clone(full)
	most[3] = 0
	for _, c := range []struct {
		name string
		row  []float32
		how  byte
		size int
	}{
		{"zeros", sparseRow(32), rowEmpty, 1},
		{"no zero", full, rowFull, 1 + 4*32},
		{"one zero costs more than it saves", most, rowFull, 1 + 4*32},
		{"half", sparseRow(32, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), rowBitmap, 1 + 4 + 4*16},
		{"two", sparseRow(32, 0, 31), rowGaps, 1 + 1 + 2 + 4*2},
		{"three: as long either way", sparseRow(32, 0, 5, 31), rowBitmap, 1 + 4 + 4*3},
		{"far apart", sparseRow(400, 399), rowGaps, 1 + 1 + 2 + 4},
		{"one number", sparseRow(1, 0), rowFull, 1 + 4},
		{
			"a zero with a sign is a number",
			[]float32{float32(math.Copysign(0, -1)), 0, 0, 0, 0, 0, 0, 0},
			rowBitmap,
			1 + 1 + 4,
		},
	} {
		how, size := shortest(c.row)
		b := appendRow(nil, c.row)
		if how != c.how || size != c.size || len(b) != size || b[0] != how {
			t.Errorf("%s: form %d of %d bytes, written as %d of %d, want %d of %d", c.name, how, size, b[0], len(b),
				c.how, c.size)
		}
	}
}

func TestSparsePartsSayWhatIsWrong(t *testing.T) {
	header := func(form, dim byte, rows uint32) []byte {
		b := append([]byte("TU1\x01\x07\x00"), form, dim, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		return binary.LittleEndian.AppendUint32(b, rows)
	}
	one := "\x00\x00\x80\x3f"
	for _, c := range []struct{ want, rows string }{
		{"", "\x00"},
		{"", "\x02\x81" + one + one},
		{"is not written in the one valid way", "\x04"},
		{"is not written in the one valid way", "\x02\x00"},                            // empty, as a bitmap
		{"is not written in the one valid way", "\x02\x03" + one + "\x00\x00\x00\x00"}, // a zero that is listed
		// a full row that is shorter as a bitmap
		{"is not written in the one valid way", "\x01" + one + strings.Repeat("\x00", 4*7)},
		{"is not written in the one valid way", "\x03\x01\x08" + one},     // a place beyond the row
		{"is not written in the one valid way", "\x03\x81\x00\x02" + one}, // a long way to write 1
		// as long as a bitmap and a byte
		{"is not written in the one valid way", "\x03\x01\x02" + one},
		{"holds a number that is not finite", "\x02\x03" + one + "\x00\x00\xc0\x7f"},
		{"ends too early", "\x02\x03" + one},
		{"ends too early", ""},
	} {
		var u Update
		err := u.UnmarshalBinary(append(header(2, 8, 1), c.rows...))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("a row of %q gives %v, want %q", c.rows, err, c.want)
		}
	}
	var u Update
	if err := u.UnmarshalBinary(append(header(3, 8, 2), "\xff\xff\xff\xff\x0f\x00\x00\x00"...)); err == nil ||
		err.Error() != "rows: slot 7: row id 1 is not valid" {
		t.Errorf("an id beyond 32 bits gives %v", err)
	}
}

// A byte can stand for a million zeros. They are refused before there is room for
// them, in one part or in many.
func TestSparseNumbersAreBounded(t *testing.T) {
	part := func(rows int) Part { return Part{Dim: 1 << 10, Data: make([]float32, rows<<10), Sparse: true} }
	var u Update
	b := encode(t, &Update{Parts: []Part{part(3), part(2)}})
	if err := u.Decode(b, 5<<10); err != nil {
		t.Errorf("as many numbers as are allowed: %v", err)
	}
	want := "rows: slot 0: 2 rows of 1024 are more numbers than the 2047 that are left to it"
	if err := u.Decode(b, 5<<10-1); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	b = encode(t, &Update{Parts: []Part{part(30)}})
	b[4+3+2] = 0x10 // rows of 2^20
	b[4+3+1] = 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := u.UnmarshalBinary(b)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 64<<10 {
		t.Errorf("31 million zeros in %d bytes: %v, and %d bytes are allocated, want an error and next to nothing",
			len(b), err, n)
	}
}

func FuzzSparseRow(f *testing.F) {
	f.Add(appendRow(nil, sparseRow(32, 1, 2, 30)), uint16(32))
	f.Add(appendRow(nil, sparseRow(300, 290)), uint16(300))
	f.Fuzz(func(t *testing.T, b []byte, dim uint16) {
		row := make([]float32, int(dim)+1)
		rest, err := readRow(b, len(row), row)
		past, same := readRow(b, len(row), nil)
		if err == nil && (same != nil || len(past) != len(rest)) {
			t.Fatalf("a row of %d bytes is read, and not passed over: %v", len(b)-len(rest), same)
		}
		for i := range row { // any row that can be sent comes back
			if row[i]-row[i] != 0 {
				return
			}
		}
		wire, back := appendRow(nil, row), make([]float32, len(row))
		if len(wire) != SparseRowSize(row) {
			t.Fatalf("%d bytes, and SparseRowSize says %d", len(wire), SparseRowSize(row))
		}
		if rest, err := readRow(wire, len(row), back); err != nil || len(rest) != 0 {
			t.Fatalf("what was written is read with %d bytes left: %v", len(rest), err)
		}
		for i, v := range row {
			if math.Float32bits(v) != math.Float32bits(back[i]) {
				t.Fatalf("place %d is %g, want %g", i, back[i], v)
			}
		}
	})
}
