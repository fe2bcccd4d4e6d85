package data

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const maxLine = 1 << 20 // bytes, without the line's end

// lines reads plain or gzip text line by line. A line is valid until the next call.
type lines struct {
	in   *bufio.Reader
	file string
	n    int // the number of the line last returned, from 1
	zip  bool
}

// newLines recognises gzip by its first bytes, not by the file's name, and drops a byte order mark.
func newLines(r io.Reader, file string) (*lines, error) {
	l := &lines{in: bufio.NewReaderSize(r, maxLine+2), file: file}
	if head, _ := l.in.Peek(2); string(head) == "\x1f\x8b" {
		l.zip = true
		z, err := gzip.NewReader(l.in)
		if err != nil {
			return nil, l.wrap(err)
		}
		l.in = bufio.NewReaderSize(z, maxLine+2)
	}
	head, _ := l.in.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		l.in.Discard(3)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return nil, &InputError{File: file, Found: string(head), Expected: "text", Hint: "unpack the zip archive first"}
	case string(head) == "PAR1":
		return nil, &InputError{
			File: file, Found: string(head), Expected: "text",
			Hint: "Parquet files are not packed again: unpack it with gunzip",
		}
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, &InputError{
			File: file, Found: string(head[:2]), Expected: "UTF-8 or Latin-1 text",
			Hint: "convert the file from UTF-16",
		}
	}
	return l, nil
}

// wrap reports corrupt gzip data as an InputError, and other errors with the number of the last line read.
func (l *lines) wrap(err error) error {
	var corrupt flate.CorruptInputError
	const expected, hint = "a complete gzip file", "copy or download the file again"
	switch {
	case !l.zip:
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &InputError{File: l.file, Found: "truncated gzip data", Expected: expected, Hint: hint}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return &InputError{File: l.file, Found: "corrupt gzip data", Expected: expected, Hint: hint}
	}
	return fmt.Errorf("%s after line %d: %w", l.file, l.n, err)
}

// next returns the next line without its line ending, or io.EOF.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, l.wrap(err)
	}
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	l.n++
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if err == bufio.ErrBufferFull || len(line) > maxLine {
		return nil, l.tooLong(line, l.n)
	}
	if bad := l.noNUL(line, l.n); bad != nil {
		return nil, bad
	}
	return line, nil
}

func (l *lines) tooLong(line []byte, n int) error {
	return &InputError{
		File: l.file, Line: n, Found: short(line), Expected: fmt.Sprintf("a line of at most %d bytes", maxLine),
	}
}

// noNUL rejects a line that is not text, such as UTF-16 without a byte order mark.
func (l *lines) noNUL(line []byte, n int) error {
	if bytes.IndexByte(line, 0) < 0 {
		return nil
	}
	return &InputError{
		File: l.file, Line: n, Found: short(line), Expected: "text without NUL bytes",
		Hint: "convert the file to UTF-8 text",
	}
}

// probe returns copies of at most most non-blank lines from the start, without consuming them, and the number of
// the first.
func (l *lines) probe(most int) (head [][]byte, first int, err error) {
	b, err := l.in.Peek(maxLine + 2)
	if err != nil && err != io.EOF {
		return nil, 0, l.wrap(err)
	}
	whole := err == io.EOF
	for n := 1; len(b) > 0 && len(head) < most; n++ {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended && !whole { // the line is longer than the peeked bytes
			if len(head) > 0 {
				break
			}
			return nil, 0, l.tooLong(line, n)
		}
		b = rest
		if line = bytes.TrimSuffix(line, []byte("\r")); blank(line) {
			continue
		}
		if err := l.noNUL(line, n); err != nil {
			return nil, 0, err
		}
		if first == 0 {
			first = n
		}
		head = append(head, bytes.Clone(line))
	}
	return head, first, nil
}

func blank(line []byte) bool { return len(trim(line)) == 0 }

// trim drops the spaces around a field.
func trim(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// sep separates fields. Several spaces count as one separator. In comma and semicolon files a field may be quoted.
type sep string

func (s sep) quotes() bool { return s == "," || s == ";" }

// index is the start of the next separator, or -1. A separator of two bytes is the same byte twice.
func (s sep) index(line []byte) int {
	c, twice := s[0], len(s) == 2
	for i, b := range line {
		if b == c && (!twice || i+1 < len(line) && line[i+1] == c) {
			return i
		}
	}
	return -1
}

// split appends the first most fields of a line to dst. It modifies the line to remove quotes, and returns false if
// a quote is not closed.
func (s sep) split(line []byte, most int, dst [][]byte) ([][]byte, bool) {
	if s == " " {
		line = trim(line)
	}
	for {
		var field []byte
		more, ok := false, true
		if s.quotes() {
			line = trim(line)
		}
		if s.quotes() && len(line) > 0 && line[0] == '"' {
			field, line, more, ok = s.quoted(line)
		} else if i := s.index(line); i >= 0 {
			field, line, more = line[:i], line[i+len(s):], true
			if s == " " {
				line = trim(line)
			}
		} else {
			field = line
		}
		if dst = append(dst, trim(field)); !ok || !more || len(dst) == most {
			return dst, ok
		}
	}
}

// quoted takes a field that starts with a quote from the front of a line.
func (s sep) quoted(line []byte) (field, rest []byte, more, ok bool) {
	end, doubled := 1, false
	for ; end < len(line); end++ {
		if line[end] != '"' {
			continue
		}
		if end+1 == len(line) || line[end+1] != '"' {
			break
		}
		end++
		doubled = true
	}
	if end >= len(line) {
		return nil, nil, false, false
	}
	rest = trim(line[end+1:])
	if more = len(rest) > 0; more {
		if rest[0] != s[0] {
			return nil, nil, false, false
		}
		rest = rest[1:]
	}
	if field = line[1:end]; doubled {
		w := 0
		for i := 0; i < len(field); i++ {
			field[w] = field[i]
			if w++; field[i] == '"' {
				i++
			}
		}
		field = field[:w]
	}
	return field, rest, more, true
}

// text is b as a string of its own, in UTF-8: bytes that are not UTF-8 are read
// as Latin-1.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	rs := make([]rune, len(b))
	for i, c := range b {
		rs[i] = rune(c)
	}
	return string(rs)
}

// each calls do with the first width fields of every line that is not blank.
func (l *lines) each(s sep, width int, do func(f [][]byte)) error {
	var f [][]byte
	for {
		line, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if blank(line) {
			continue
		}
		if f, _ = s.split(line, width, f[:0]); len(f) < width {
			return &InputError{
				File: l.file, Line: l.n, Found: short(line),
				Expected: fmt.Sprintf("at least %d columns separated by %s", width, s.name()),
			}
		}
		do(f)
	}
}
