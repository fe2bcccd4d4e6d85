package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Kind is the type of a column to write.
type Kind uint8

// The kinds of columns. Values are never missing.
const (
	Text   Kind = iota // UTF-8
	Float              // 32 bits
	Double             // 64 bits
	Int                // 64 bits
)

// Types and encodings of the format, as far as the writer uses them.
const (
	typeInt64, typeFloat, typeDouble, typeByteArray = 2, 4, 5, 6

	encodingPlain, encodingRLE = 0, 3
)

// groupBytes is the size of the values from which a row group is written.
const groupBytes = 64 << 20

// Writer writes a Parquet file: plain values without compression, a page for each column of a row group. Set every
// column of a row, then call EndRow.
type Writer struct {
	w       io.Writer
	at      int64 // bytes written
	columns []*writtenColumn
	rows    int64 // of the current row group
	held    int
	groups  []thriftStruct
	total   int64
	err     error
}

type writtenColumn struct {
	name   string
	kind   Kind
	values []byte
	n      int64 // values in the current row group
}

// Column names a column to write and its kind.
type Column struct {
	Name string
	Kind Kind
}

// NewWriter starts a file with these columns.
func NewWriter(w io.Writer, columns ...Column) *Writer {
	out := &Writer{w: w}
	for _, c := range columns {
		out.columns = append(out.columns, &writtenColumn{name: c.Name, kind: c.Kind})
	}
	out.write([]byte(Magic))
	return out
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
		w.at += int64(len(b))
	}
}

// set appends a value to a column, which must be of the kind.
func (w *Writer) set(column int, kind Kind, value []byte) {
	c := w.columns[column]
	if c.kind != kind {
		panic(fmt.Sprintf("parquet: column %s has another kind", c.name))
	}
	c.values = append(c.values, value...)
	c.n++
	w.held += len(value)
}

// Text sets a column of the current row. Bytes that are not UTF-8 become U+FFFD, because readers reject a file with
// them.
func (w *Writer) Text(column int, s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	w.set(column, Text, append(binary.LittleEndian.AppendUint32(nil, uint32(len(s))), s...))
}

// Float sets a column of the current row.
func (w *Writer) Float(column int, x float32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
	w.set(column, Float, b[:])
}

// Double sets a column of the current row.
func (w *Writer) Double(column int, x float64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(x))
	w.set(column, Double, b[:])
}

// Int sets a column of the current row.
func (w *Writer) Int(column int, n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	w.set(column, Int, b[:])
}

// EndRow ends a row in which every column was set.
func (w *Writer) EndRow() error {
	w.rows++
	for _, c := range w.columns {
		if c.n != w.rows {
			panic(fmt.Sprintf("parquet: column %s has %d values in %d rows", c.name, c.n, w.rows))
		}
	}
	if w.held >= groupBytes {
		w.flush()
	}
	return w.err
}

// flush writes the current row group.
func (w *Writer) flush() {
	if w.rows == 0 {
		return
	}
	var chunks []thriftStruct
	var bytes int64
	for _, c := range w.columns {
		var header thriftStruct
		header.i32(1, 0) // a data page
		header.i32(2, len(c.values))
		header.i32(3, len(c.values))
		var page thriftStruct
		page.i32(1, int(w.rows))
		page.i32(2, encodingPlain)
		page.i32(3, encodingRLE)
		page.i32(4, encodingRLE)
		header.record(5, page)
		start, head := w.at, header.end()
		w.write(head)
		w.write(c.values)
		size := int64(len(head) + len(c.values))
		var meta, chunk thriftStruct
		meta.i32(1, c.physical())
		meta.list(2, thriftI32, 1)
		meta.b = appendZigzag(meta.b, encodingPlain)
		meta.list(3, thriftBinary, 1)
		meta.b = appendText(meta.b, c.name)
		meta.i32(4, 0) // uncompressed
		meta.i64(5, w.rows)
		meta.i64(6, size)
		meta.i64(7, size)
		meta.i64(9, start)
		chunk.i64(2, start)
		chunk.record(3, meta)
		chunks = append(chunks, chunk)
		bytes += size
		c.values, c.n = c.values[:0], 0
	}
	var group thriftStruct
	group.records(1, chunks)
	group.i64(2, bytes)
	group.i64(3, w.rows)
	w.groups = append(w.groups, group)
	w.total += w.rows
	w.rows, w.held = 0, 0
}

func (c *writtenColumn) physical() int {
	return map[Kind]int{Text: typeByteArray, Float: typeFloat, Double: typeDouble, Int: typeInt64}[c.kind]
}

// Close writes the rest of the file and its metadata. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.flush()
	var root thriftStruct
	root.text(4, "schema")
	root.i32(5, len(w.columns))
	schema := []thriftStruct{root}
	for _, c := range w.columns {
		var e thriftStruct
		e.i32(1, c.physical())
		e.i32(3, 0) // required
		e.text(4, c.name)
		if c.kind == Text {
			e.i32(6, 0) // UTF-8
			var logical thriftStruct
			logical.record(1, thriftStruct{}) // a string
			e.record(10, logical)
		}
		schema = append(schema, e)
	}
	var meta thriftStruct
	meta.i32(1, 1)
	meta.records(2, schema)
	meta.i64(3, w.total)
	meta.records(4, w.groups)
	meta.text(6, "tacit")
	footer := meta.end()
	w.write(footer)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), Magic...))
	return w.err
}

// Types of Thrift's compact protocol.
const (
	thriftI32, thriftI64, thriftBinary, thriftList, thriftRecord = 5, 6, 8, 9, 12
)

// thriftStruct is a record in Thrift's compact protocol. Fields are added in increasing order.
type thriftStruct struct {
	b    []byte
	last int
}

func (t *thriftStruct) field(id, kind int) {
	t.b = append(t.b, byte((id-t.last)<<4|kind)) // ids differ by less than 16
	t.last = id
}

func (t *thriftStruct) i32(id, v int) {
	t.field(id, thriftI32)
	t.b = appendZigzag(t.b, int64(v))
}

func (t *thriftStruct) i64(id int, v int64) {
	t.field(id, thriftI64)
	t.b = appendZigzag(t.b, v)
}

func (t *thriftStruct) text(id int, s string) {
	t.field(id, thriftBinary)
	t.b = appendText(t.b, s)
}

func (t *thriftStruct) record(id int, r thriftStruct) {
	t.field(id, thriftRecord)
	t.b = append(t.b, r.end()...)
}

// list starts a list; its elements follow.
func (t *thriftStruct) list(id, kind, n int) {
	t.field(id, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n<<4|kind))
		return
	}
	t.b = binary.AppendUvarint(append(t.b, byte(0xf0|kind)), uint64(n))
}

func (t *thriftStruct) records(id int, all []thriftStruct) {
	t.list(id, thriftRecord, len(all))
	for _, r := range all {
		t.b = append(t.b, r.end()...)
	}
}

// end returns the record with its end mark.
func (t *thriftStruct) end() []byte { return append(t.b, 0) }

func appendZigzag(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
