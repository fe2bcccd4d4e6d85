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

// lines reads text line by line, unzipped if need be. What it returns is valid
// until the next call.
type lines struct {
	in   *bufio.Reader
	file string
	n    int // the number of the line last returned, from 1
	zip  bool
}

// newLines knows gzip by its first bytes, not by the file's name, and drops a
// byte order mark.
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
		return nil, &BadInput{File: file, Found: string(head), Want: "text", Hint: "unpack the zip archive first"}
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, &BadInput{
			File: file, Found: string(head[:2]), Want: "UTF-8 or Latin-1 text",
			Hint: "convert the file from UTF-16",
		}
	}
	return l, nil
}

// wrap blames the file where gzip finds fault with it, and else says how far
// reading came.
func (l *lines) wrap(err error) error {
	var corrupt flate.CorruptInputError
	const want, hint = "a whole gzip file", "copy or download the file again"
	switch {
	case !l.zip:
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &BadInput{File: l.file, Found: "the gzip data is cut short", Want: want, Hint: hint}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return &BadInput{File: l.file, Found: "the gzip data is damaged", Want: want, Hint: hint}
	}
	return fmt.Errorf("data: %s after line %d: %w", l.file, l.n, err)
}

// next returns the next line without its end, or io.EOF.
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
		return nil, &BadInput{
			File: l.file, Line: l.n, Found: short(line),
			Want: fmt.Sprintf("a line of at most %d bytes", maxLine),
		}
	}
	if bad := l.noNUL(line, l.n); bad != nil {
		return nil, bad
	}
	return line, nil
}

// noNUL refuses a line that is not text, such as UTF-16 without its mark.
func (l *lines) noNUL(line []byte, n int) error {
	if bytes.IndexByte(line, 0) < 0 {
		return nil
	}
	return &BadInput{
		File: l.file, Line: n, Found: short(line), Want: "text without NUL bytes",
		Hint: "convert the file to UTF-8 text",
	}
}

// probe returns copies of the first lines that are not blank, at most most of
// them, without moving on, and the number of the first.
func (l *lines) probe(most int) (head [][]byte, first int, err error) {
	b, err := l.in.Peek(maxLine)
	if err != nil && err != io.EOF {
		return nil, 0, l.wrap(err)
	}
	whole := err == io.EOF
	for n := 1; len(b) > 0 && len(head) < most; n++ {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended && !whole && len(head) > 0 {
			break // the line goes on beyond what was peeked at
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

// sep is what stands between two fields. Of space, any number counts as one.
// In comma and semicolon files a field may be quoted.
type sep string

func (s sep) quotes() bool { return s == "," || s == ";" }

// index is where the next separator starts, or -1. The only separator of two
// bytes is one byte twice.
func (s sep) index(line []byte) int {
	c, twice := s[0], len(s) == 2
	for i, b := range line {
		if b == c && (!twice || i+1 < len(line) && line[i+1] == c) {
			return i
		}
	}
	return -1
}

// split appends the first most fields of a line to dst. It writes into the line
// where it undoes quotes, and is false when a quote is not closed.
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
			return &BadInput{
				File: l.file, Line: l.n, Found: short(line),
				Want: fmt.Sprintf("at least %d columns separated by %s", width, s.name()),
			}
		}
		do(f)
	}
}
