package data

import (
	"fmt"
	"io"
	"slices"
)

// Table is a file with rows of named columns, such as a Parquet file.
type Table interface {
	// Format is the name of the format, for people.
	Format() string
	// Columns are the names of the columns.
	Columns() []string
	// Next returns the fields of the next row as text, empty for a missing value, or io.EOF. They are valid until the
	// next call.
	Next() ([][]byte, error)
}

// selecting is a table that does not decode columns that are not used.
type selecting interface {
	// Select says which columns are used: the fields of the others may be empty from then on. Nil means that they will
	// be selected later.
	Select(used []bool)
}

// input is one part of a set while it is read.
type input interface {
	// next returns the fields of the next row, at least width, or io.EOF.
	next(width int) ([][]byte, error)
	// position is where the last row was, for errors; line is 0 if rows have no lines.
	position() (file string, line int)
}

// open detects the format of a part.
func (p part) open(how reading) (input, *layout, error) {
	if p.rows != nil {
		return openTable(p.rows, p.file, how)
	}
	in, err := newLines(p.r, p.file)
	if err != nil {
		return nil, nil, err
	}
	if how.Sep == "" && how.notes {
		t, err := newJSONLines(in)
		if err != nil {
			return nil, nil, err
		}
		if t != nil {
			return openTable(t, p.file, how)
		}
	}
	y, err := newLayout(in, how)
	if err != nil {
		return nil, nil, err
	}
	return &textRows{in: in, y: y, header: y.header}, y, nil
}

// textRows reads delimited text.
type textRows struct {
	in      *lines
	y       *layout
	header  bool // the next line is the header
	fields  [][]byte
	columns int // of the first row, which is in line first
	first   int
}

func (t *textRows) position() (string, int) { return t.in.file, t.in.n }

func (t *textRows) bad(found []byte, want string) error {
	return &InputError{File: t.in.file, Line: t.in.n, Found: short(found), Expected: want}
}

func (t *textRows) next(width int) ([][]byte, error) {
	var line []byte
	for {
		var err error
		if line, err = t.in.next(); err != nil {
			return nil, err
		}
		if blank(line) {
			continue
		}
		if !t.header {
			break
		}
		t.header = false
	}
	by := t.y.sep
	f, ok := by.split(line, -1, t.fields[:0])
	t.fields = f
	if !ok {
		return nil, t.bad(line, "a closing quote before the next separator")
	}
	if len(f) < width {
		return nil, t.bad(line, fmt.Sprintf("at least %d columns separated by %s", width, by.name()))
	}
	if t.columns == 0 {
		t.columns, t.first = len(f), t.in.n
	}
	if len(f) > t.columns {
		return nil, t.bad(fmt.Appendf(nil, "%d columns", len(f)), fmt.Sprintf("%d columns separated by %s, as in "+
			"line %d", t.columns, by.name(), t.first))
	}
	return f, nil
}

// maxColumns is the largest number of columns of a table.
const maxColumns = 2000

// tableRows reads a table, whose first rows were read to detect the columns.
type tableRows struct {
	t     Table
	file  string
	head  [][][]byte // rows that were read ahead
	lines []int      // and their lines
	n     int        // rows returned
	line  int
}

// liner is a table whose rows have lines.
type liner interface{ line() int }

func openTable(t Table, file string, how reading) (input, *layout, error) {
	names := t.Columns()
	if len(names) < 2 || len(names) > maxColumns {
		return nil, nil, &InputError{
			File: file, Found: fmt.Sprintf("%d columns", len(names)),
			Expected: fmt.Sprintf("2 to %d columns", maxColumns),
		}
	}
	s, selects := t.(selecting)
	if selects {
		s.Select(nil)
	}
	in := &tableRows{t: t, file: file}
	header := make([][]byte, len(names))
	for i, name := range names {
		header[i] = []byte(name)
	}
	rows := [][][]byte{header}
	for len(in.head) < 32 {
		f, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, in.wrap(err)
		}
		row := make([][]byte, len(names))
		for i := range row {
			row[i] = append([]byte(nil), f[i]...)
		}
		in.head, rows = append(in.head, row), append(rows, row)
		if l, ok := t.(liner); ok {
			in.lines = append(in.lines, l.line())
		}
	}
	y := &layout{header: true, kind: t.Format(), dates: how.dates}
	if bad := y.resolve(how, rows); bad != nil {
		bad.File, bad.Line = file, 0
		return nil, nil, bad
	}
	if selects {
		used := make([]bool, len(names))
		for c := range used {
			used[c] = y.used(c) || slices.Contains(how.context, names[c])
		}
		s.Select(used)
	}
	return in, y, nil
}

func (t *tableRows) position() (string, int) {
	if _, ok := t.t.(liner); ok {
		return t.file, t.line
	}
	return fmt.Sprintf("%s row %d", t.file, t.n), 0
}

func (t *tableRows) next(int) ([][]byte, error) {
	if t.n < len(t.head) {
		if t.n++; t.lines != nil {
			t.line = t.lines[t.n-1]
		}
		return t.head[t.n-1], nil
	}
	f, err := t.t.Next()
	if err != nil {
		return nil, t.wrap(err)
	}
	t.n++
	if l, ok := t.t.(liner); ok {
		t.line = l.line()
	}
	return f, nil
}

// lateNotes says which columns were found too late to be used.
func (t *tableRows) lateNotes() []string {
	if j, ok := t.t.(*jsonLines); ok && j.note() != "" {
		return []string{j.note()}
	}
	return nil
}

// wrap adds the file to an error of a table whose rows have no lines.
func (t *tableRows) wrap(err error) error {
	if _, ok := t.t.(liner); ok || err == io.EOF {
		return err
	}
	return fmt.Errorf("%s after row %d: %w", t.file, t.n, err)
}

// isID reports whether a field is an identifier: not empty, and without line breaks and NUL, which tables can hold.
func isID(b []byte) bool {
	for _, c := range b {
		if c == 0 || c == '\n' || c == '\r' {
			return false
		}
	}
	return len(b) > 0
}
