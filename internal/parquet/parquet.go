// Package parquet reads the columns of Parquet files as text: flat columns and lists, in the encodings and
// compressions that common tools write by default. Files are hostile: memory is bounded by the size of the file and
// by the limits below, whatever the file claims. It also writes simple files: flat columns, plain and uncompressed.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of a file.
const (
	maxFooter  = 16 << 20  // bytes
	maxPage    = 256 << 20 // bytes, unpacked
	maxColumns = 2000

	maxDictionary = 64 << 20 // bytes, unpacked

	// maxHeld is the largest sum of the pages and dictionaries that the columns hold at a time, in bytes. A page of
	// equal bytes is some thousand times smaller in the file.
	maxHeld  = 1 << 30
	perEntry = 48 // bytes of an entry of a dictionary, beside its text

	maxRows  = 1<<31 - 1
	rowsByte = 64 // rows for each byte of the file; real files have less than one

	// textByte is the largest number of bytes of decoded fields for each byte of the file, beside freeText: a short
	// file could otherwise repeat one long entry of a dictionary for hours.
	textByte = 4096
	freeText = 64 << 20
)

// Magic is how Parquet files start.
const Magic = "PAR1"

// File is an open Parquet file, which is read row by row.
type File struct {
	names   []string
	columns []*column
	rows    []int64 // of each row group
	left    int64   // in the current row group
	group   int     // the next row group
	fields  [][]byte
	text    int64 // bytes that Next may still return
	memory  *memory
	open    bool  // which columns are used is not known yet
	failed  error // of a column that is used
}

// memory is what the columns of a file hold.
type memory struct{ held, most int64 }

// change replaces what a column holds by a number of bytes.
func (m *memory) change(column *int64, bytes int64) error {
	m.held += bytes - *column
	if *column = bytes; m.held > m.most {
		return fmt.Errorf("pages of more than %d bytes at a time; %s", m.most, rewrite)
	}
	return nil
}

// Format is the name of the format.
func (f *File) Format() string { return "Parquet" }

// Columns are the names of the columns, without those of nested records.
func (f *File) Columns() []string { return f.names }

// rewrite is what to do about a file that is valid and not supported.
const rewrite = "write it again with the defaults of pyarrow, pandas, polars or DuckDB, or as CSV"

// Open reads the metadata of a file.
func Open(r io.ReaderAt, size int64) (*File, error) {
	var tail [8]byte
	if size < 12 {
		return nil, errors.New("truncated Parquet file")
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case string(tail[4:]) == "PARE":
		return nil, errors.New("encrypted Parquet files are not supported")
	case string(tail[4:]) != Magic:
		return nil, errors.New("truncated Parquet file: it does not end with PAR1; copy or download it again")
	case n > size-12 || n > maxFooter:
		return nil, fmt.Errorf("corrupt Parquet file: %d bytes of metadata, must be at most %d", n,
			min(size-12, maxFooter))
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-8-n); err != nil {
		return nil, err
	}
	meta, err := (&thrift{b: b}).record(0)
	if err != nil {
		return nil, fmt.Errorf("corrupt Parquet file: %w", err)
	}
	if meta.has(8) {
		return nil, errors.New("encrypted Parquet files are not supported")
	}
	f := &File{memory: &memory{most: maxHeld}, text: freeText + textByte*size}
	leaves, err := f.schema(meta.list(2))
	if err != nil {
		return nil, fmt.Errorf("corrupt Parquet file: %w", err)
	}
	if err := f.groups(r, size, meta.list(4), leaves); err != nil {
		return nil, fmt.Errorf("corrupt Parquet file: %w", err)
	}
	f.fields = make([][]byte, len(f.columns))
	for _, c := range f.columns {
		c.memory = f.memory
	}
	return f, nil
}

// groups finds the chunks of the columns.
func (f *File) groups(r io.ReaderAt, size int64, list []any, leaves int) error {
	total := int64(0)
	for _, v := range list {
		g, _ := v.(record)
		rows, chunks := g.int(3), g.list(1)
		if rows < 0 || rows > maxRows || len(chunks) != leaves {
			return fmt.Errorf("a row group of %d rows has %d columns, expected %d", rows, len(chunks), leaves)
		}
		if total += rows; total > maxRows || total > rowsByte*size {
			return fmt.Errorf("%d rows in %d bytes: must be at most %d", total, size, min(maxRows, rowsByte*size))
		}
		f.rows = append(f.rows, rows)
		for _, c := range f.columns {
			chunk, _ := chunks[c.leaf].(record)
			if chunk.has(1) {
				return errors.New("columns in other files are not supported")
			}
			m := chunk.record(3)
			from, n := m.int(9), m.int(7)
			if d := m.int(11); d > 0 {
				from = min(from, d)
			}
			if from < 0 || n < 0 || from > size || n > size-from {
				return fmt.Errorf("column %q is outside the file", c.name)
			}
			if int(m.int(1)) != c.physical {
				return fmt.Errorf("column %q has two types", c.name)
			}
			c.limit = min(maxRows, rowsByte*size)
			c.chunks = append(c.chunks, chunkAt{io.NewSectionReader(r, from, n), int(m.int(4))})
		}
	}
	return nil
}

// Select says which columns are used. Next does not decode the others from then on: their fields are empty. Nil means
// that the columns will be selected later: until then, a column in an unsupported encoding or compression is empty, and
// if it is used then, Next returns an error.
func (f *File) Select(used []bool) {
	if f.open = used == nil; f.open {
		return
	}
	for i, c := range f.columns {
		if used[i] && f.failed == nil {
			f.failed = c.failed
		}
		if !used[i] {
			c.skip()
		}
	}
}

// Next returns the fields of the next row, or io.EOF. A missing value is empty; the parts of a list have | between
// them.
func (f *File) Next() ([][]byte, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	for f.left == 0 {
		if f.group == len(f.rows) {
			return nil, io.EOF
		}
		f.left = f.rows[f.group]
		for _, c := range f.columns {
			if c.skipped {
				continue
			}
			if err := c.start(f.group); err != nil {
				return nil, fmt.Errorf("column %q: %w", c.name, err)
			}
		}
		f.group++
	}
	f.left--
	for i, c := range f.columns {
		if f.fields[i] = nil; c.skipped {
			continue
		}
		var err error
		if f.fields[i], err = c.field(); err == nil {
			if f.text -= int64(len(f.fields[i])); f.text < 0 {
				return nil, fmt.Errorf("column %q: the file repeats long values too often; %s", c.name, rewrite)
			}
			continue
		}
		err = fmt.Errorf("column %q: %w", c.name, err)
		if !f.open || !errors.As(err, new(*unsupportedError)) {
			return nil, err
		}
		c.skip()
		c.failed = err
	}
	return f.fields, nil
}
