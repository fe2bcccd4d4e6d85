package chainlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type note struct {
	Link
	Text string `json:"text"`
}

func newNote() Entry { return &note{} }

var errDamaged = errors.New("damaged")

// read returns the texts of a file up to the first damage.
func read(b []byte) (texts []string, t Tail, err error) {
	t, err = Read(bytes.NewReader(b), newNote, func(e Entry, d *Damage) error {
		if d != nil {
			return fmt.Errorf("line %d: %w", d.Line, errDamaged)
		}
		texts = append(texts, e.(*note).Text)
		return nil
	})
	return texts, t, err
}

func open(t testing.TB, path string) *Log {
	t.Helper()
	l, err := Open(path, 0o600, newNote, func(_ Entry, d *Damage) error {
		if d != nil {
			return errDamaged
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// written returns a file with some lines.
func written(t testing.TB, texts ...string) (path string, b []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log.jsonl")
	l := open(t, path)
	for _, text := range texts {
		if err := l.Append(&note{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || l.Lines != len(texts) || l.Size != int64(len(b)) {
		t.Fatalf("%d lines, %d bytes, %v", l.Lines, l.Size, err)
	}
	return path, b
}

// A crash may cut the last line anywhere, and again while the next one is written. Whole lines stay, the log
// continues, and the line after half a line says so. A power failure may leave zeros behind the cut.
func TestATornTailIsKeptAndTheLogContinues(t *testing.T) {
	path, b := written(t, "a", "b", "c")
	last := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
	for _, cut := range []int{last, last + 1, last + 2, last + 60, len(b) - 3, len(b) - 2, len(b) - 1, len(b)} {
		whole := 2
		if cut == len(b) {
			whole = 3
		}
		continuesAfter(t, path, append(slices.Clone(b[:cut]), 0, 0, 0), whole, true)
		if cut == len(b)-1 { // only the newline is missing
			whole = 3
		}
		continuesAfter(t, path, b[:cut], whole, cut > last && whole == 2)
	}
}

// continuesAfter checks that a log continues after a text with a number of whole lines.
func continuesAfter(t *testing.T, path string, text []byte, whole int, torn bool) {
	t.Helper()
	for range 2 { // the second time, half of the line that follows is there
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, path)
		if l.Lines != whole || l.Torn != torn {
			t.Fatalf("%q: %d lines, torn %t", text, l.Lines, l.Torn)
		}
		e := &note{Text: "next"}
		if err := l.Append(e); err != nil || e.Crash != torn {
			t.Fatalf("%q: %v, after a crash %t", text, err, e.Crash)
		}
		all, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if texts, _, err := read(all); err != nil || len(texts) != whole+1 || !bytes.HasPrefix(all, text) {
			t.Fatalf("%q, %v in\n%s", texts, err, all)
		}
		_, tail, err := read(text)
		end := bytes.LastIndexByte(text, '\n') + 1
		if err != nil || tail.Lines != whole || tail.Torn != torn || torn && tail.End > int64(end) {
			t.Fatalf("%q: the whole lines are %+v, %v", text, tail, err)
		}
		text, torn = all[:len(all)-20], true
	}
}

// A byte that changes in any line but the last is noticed; in the last one it is noticed, or looks like a crash.
func TestChangedLinesAreNoticed(t *testing.T) {
	_, b := written(t, "a", "b", "c")
	last := bytes.LastIndexByte(b[:len(b)-1], '\n')
	for at := range b {
		for _, to := range []byte{b[at] ^ 1, b[at] ^ 0x20, b[at] ^ 0x80, '\n', ' ', '0', ',', '"', '{', '}'} {
			bad := slices.Clone(b)
			bad[at] = to
			if _, tail, err := read(bad); b[at] != to && at < len(b)-1 && err == nil && (at <= last || !tail.Torn) {
				t.Fatalf("byte %d of %d is %q instead of %q, and nobody notices", at, len(b), to, b[at])
			}
		}
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, order := range map[string][]int{
		"first missing": {1, 2}, "middle missing": {0, 2}, "swapped": {1, 0, 2}, "twice": {0, 0, 1, 2},
	} {
		var bad []byte
		for _, i := range order {
			bad = append(bad, lines[i]...)
		}
		if texts, _, err := read(bad); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %q, %v", name, texts, err)
		}
	}
	for _, text := range []string{"\n", "hello\n", "{}\n", "[1]\n", "\x00x", string(b[1:]), "half\n" + string(b)} {
		if _, _, err := read([]byte(text)); !errors.Is(err, errDamaged) {
			t.Errorf("%.20q is read: %v", text, err)
		}
	}
	if _, _, err := read(bytes.Repeat([]byte("x"), 2*maxLine)); err == nil {
		t.Error("a line without an end is read")
	}
}

// Only a line which says that others were lost may leap ahead.
func TestOnlyALostLineLeaps(t *testing.T) {
	for _, lost := range []bool{true, false} {
		path, _ := written(t, "a")
		if err := open(t, path).Append(&note{Link: Link{N: 7, Lost: lost}}); (err == nil) != lost {
			t.Errorf("lost %t: %v", lost, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, tail, err := read(b); err != nil || lost != (tail.Lines == 8) {
			t.Errorf("lost %t: %d lines, %v", lost, tail.Lines, err)
		}
	}
}

// disk is a file that fails at the given call, after half of a line.
type disk struct {
	*os.File
	fails string
	wrote bool
}

var errDisk = errors.New("the disk is full")

func (d *disk) Write(b []byte) (int, error) {
	if d.wrote = true; d.fails == "write" {
		_, _ = d.File.Write(b[:len(b)/2])
		return 0, errDisk
	}
	return d.File.Write(b)
}

func (d *disk) Sync() error {
	if d.fails == "sync" && d.wrote {
		return errDisk
	}
	return d.File.Sync()
}

// Append returns when the line is on disk. After a failed write the log continues where it was, and nothing is
// written behind half a line.
func TestALineIsOnDiskOrNotInTheLog(t *testing.T) {
	for _, fails := range []string{"write", "sync"} {
		path, before := written(t, "a", "b")
		l := open(t, path)
		l.f = &disk{File: l.f.(*os.File), fails: fails}
		l.path += "/gone" // so that it cannot be mended
		for range 2 {
			if err := l.Append(&note{}); !errors.Is(err, errDisk) || l.Lines != 2 || l.Size != int64(len(before)) {
				t.Errorf("%s fails: %v, %d lines", fails, err, l.Lines)
			}
		}
		l.path = path
		if err := l.Append(&note{Text: "c"}); err != nil {
			t.Errorf("after %s failed: %v", fails, err)
		}
		b, err := os.ReadFile(path)
		if texts, _, bad := read(b); err != nil || bad != nil || !slices.Equal(texts, []string{"a", "b", "c"}) {
			t.Errorf("after %s failed: %q, %v, %v", fails, texts, err, bad)
		}
	}
}

// A line that could not be read again is refused, and the log continues.
func TestALineReadsBack(t *testing.T) {
	path, _ := written(t, "a")
	l := open(t, path)
	for _, text := range []string{strings.Repeat("x", maxLine), "b\xff"} {
		if err := l.Append(&note{Text: text}); err == nil {
			t.Errorf("%.20q is written", text)
		}
	}
	if err := l.Append(&note{Text: "<é\u2028\x00>"}); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(path)
	if texts, _, bad := read(b); err != nil || bad != nil || len(texts) != 2 {
		t.Errorf("%q, %v, %v", texts, err, bad)
	}
}

func FuzzRead(f *testing.F) {
	_, b := written(f, "a", "b", "c")
	for _, cut := range []int{0, 10, len(b) / 2, len(b) - 1, len(b)} {
		f.Add(b[:cut])
	}
	f.Add(append(slices.Clone(b), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		texts, tail, err := read(b)
		if err == nil && (tail.Lines < len(texts) || len(b) > 0 && len(texts) == 0 && !tail.Torn) {
			t.Errorf("%d lines, %d texts", tail.Lines, len(texts))
		}
		if again, _, err := read(b[:tail.End]); err != nil || !slices.Equal(again, texts) {
			t.Errorf("the intact part is %q, %v; want %q", again, err, texts)
		}
	})
}
