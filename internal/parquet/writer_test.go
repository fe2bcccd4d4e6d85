package parquet

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"testing"
)

// What the writer writes, the reader reads: empty texts, commas, several row groups, extreme numbers.
func TestWrittenFilesAreReadBack(t *testing.T) {
	for _, rows := range []int{0, 1, 3, 200} {
		var b bytes.Buffer
		w := NewWriter(&b, Column{"name", Text}, Column{"x", Float}, Column{"n", Int})
		var want [][3]string
		for i := range rows {
			name := []string{"", "a, \"b\"", "Łódź", fmt.Sprint("user ", i)}[i%4]
			x := []float32{0, -1.5, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(i) / 7}[i%5]
			n := []int64{0, -1, math.MaxInt64, math.MinInt64, int64(i)}[i%5]
			w.Text(0, name)
			w.Float(1, x)
			w.Int(2, n)
			if i == 1 {
				w.held = groupBytes // the second row ends a row group
			}
			if err := w.EndRow(); err != nil {
				t.Fatal(err)
			}
			want = append(want, [3]string{name, strconv.FormatFloat(float64(x), 'g', -1, 32), fmt.Sprint(n)})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatalf("%d rows: %v", rows, err)
		}
		if names := fmt.Sprint(f.Columns()); names != "[name x n]" {
			t.Errorf("columns %s", names)
		}
		for i := 0; ; i++ {
			fields, err := f.Next()
			if err == io.EOF {
				if i != rows {
					t.Errorf("%d rows were read, %d written", i, rows)
				}
				break
			}
			if err != nil {
				t.Fatalf("row %d of %d: %v", i, rows, err)
			}
			x, _ := strconv.ParseFloat(string(fields[1]), 32)
			got := [3]string{string(fields[0]), strconv.FormatFloat(x, 'g', -1, 32), string(fields[2])}
			if got != want[i] {
				t.Errorf("row %d is %q, want %q", i, got, want[i])
			}
		}
	}
}

// Counts of bytes exceed what 32 bits of a float hold, and data sets have titles in other encodings than UTF-8.
func TestDoublesAreExactAndTextsAreUTF8(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, Column{"bytes", Double}, Column{"title", Text})
	w.Double(0, 123456789)
	w.Text(1, "Am\xe9lie")
	if err := w.EndRow(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := f.Next()
	if err != nil || string(fields[0]) != "123456789" || string(fields[1]) != "Am\uFFFDlie" {
		t.Errorf("the row is %q, %v", fields, err)
	}
}

// Lists of Thrift with 15 elements or more have another header.
func TestManyColumnsAreReadBack(t *testing.T) {
	var columns []Column
	for k := range 300 {
		columns = append(columns, Column{fmt.Sprint("x", k), Float})
	}
	var b bytes.Buffer
	w := NewWriter(&b, columns...)
	for k := range columns {
		w.Float(k, float32(k))
	}
	if err := w.EndRow(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := f.Next()
	if err != nil || len(fields) != 300 || string(fields[299]) != "299" {
		t.Errorf("%d columns, the last %q: %v", len(fields), fields[len(fields)-1], err)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestAFailedWriteIsReported(t *testing.T) {
	for left := range 60 {
		w := NewWriter(&failing{left}, Column{"n", Int})
		w.Int(0, 1)
		_ = w.EndRow()
		if err := w.Close(); err == nil {
			t.Errorf("a file that ends after %d bytes is written without an error", left)
		}
	}
}

// A file cannot make the reader write much more text than its size allows.
func TestTextIsLimited(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, Column{"name", Text})
	for range 3 {
		w.Text(0, "0123456789")
		if err := w.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(freeText + textByte*b.Len()); f.text != want {
		t.Errorf("the limit is %d, want %d", f.text, want)
	}
	f.text = 25
	for range 2 {
		if _, err := f.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Next(); err == nil {
		t.Error("30 bytes of text were read with a limit of 25")
	}
}
