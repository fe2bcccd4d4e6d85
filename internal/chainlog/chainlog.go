// Package chainlog is an append-only file of JSON lines in which each line has the hash of the line before, and is
// on disk when Append returns. Reading it finds lines that were changed, removed, moved or added. A crash may leave
// half a line at the end: it stays, and the next line says so. Cutting whole lines off the end goes unnoticed unless
// the owner remembers how many were written.
package chainlog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// Link chains a line to the line before. Entries embed it.
type Link struct {
	N      int    `json:"n"`                     // from 0
	Lost   bool   `json:"lost,omitempty"`        // lines before it were lost: N may have leapt
	Crash  bool   `json:"after_crash,omitempty"` // half a line precedes it
	Before string `json:"before"`                // the hash of the line before
	Hash   string `json:"hash"`                  // of the line with an empty Hash
}

func (k *Link) link() *Link { return k }

// Entry is a pointer to a struct that embeds Link.
type Entry interface{ link() *Link }

// Damage says that a line, from 1, was changed, or that lines before it are missing.
type Damage struct{ Line int }

// Tail describes where the intact lines of a file end.
type Tail struct {
	Lines int    // number of the next line
	Hash  string // of the last line
	End   int64  // bytes up to the end of the last line
	Torn  bool   // half a line follows
	open  bool   // the file does not end with a newline
}

// maxLine is larger than any line.
const maxLine = 1 << 16

// Read reads a file, and calls take for each line. fresh makes an entry to read into. With a line that does not
// follow the one before, take receives its damage; the entry is nil if the line has none. An error of take ends
// the reading; otherwise the next line must follow this one.
func Read(r io.Reader, fresh func() Entry, take func(Entry, *Damage) error) (t Tail, err error) {
	in, at := bufio.NewReaderSize(r, maxLine), int64(0)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return t, fmt.Errorf("line %d exceeds %d bytes", t.Lines+1, maxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return t, err
		case len(line) == 0:
			return t, nil
		}
		at += int64(len(line))
		text, ends := bytes.CutSuffix(line, []byte("\n"))
		t.open = !ends
		e := fresh()
		if err := json.Unmarshal(text, e); err != nil && cutOff(text) {
			t.Torn = true
			continue
		} else if err != nil {
			e = nil
		}
		if err := take(e, t.check(e, text)); err != nil {
			return t, err
		}
		if e != nil {
			k := e.link()
			t.Lines, t.Hash, t.End, t.Torn = k.N+1, k.Hash, at, false
		}
	}
}

// check returns what is wrong with a line.
func (t *Tail) check(e Entry, text []byte) *Damage {
	if e != nil {
		k := e.link()
		again, _ := json.Marshal(e)
		if (k.N == t.Lines || k.Lost && k.N > t.Lines) && k.Before == t.Hash && k.Crash == t.Torn && k.Hash == sum(e) &&
			bytes.Equal(again, text) {
			return nil
		}
	}
	return &Damage{t.Lines + 1}
}

// cutOff reports whether a text is the beginning of a line. A power failure may leave zeros in place of the rest.
func cutOff(text []byte) bool {
	var v json.RawMessage
	return bytes.HasSuffix(text, []byte{0}) ||
		errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&v), io.ErrUnexpectedEOF)
}

// sum is the hash of an entry.
func sum(e Entry) string {
	k := e.link()
	was := k.Hash
	k.Hash = ""
	b, _ := json.Marshal(e)
	k.Hash = was
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Log is an open file. Its methods must not be called concurrently.
type Log struct {
	Tail
	Size int64 // of the file, without what a failed write may have left
	path string
	f    interface {
		io.WriteCloser
		Sync() error
	}
	fresh func() Entry
	err   error // of a failed write, which may have left a line or half of one
}

// Open opens or creates a file and reads it; see Read.
func Open(path string, mode os.FileMode, fresh func() Entry, take func(Entry, *Damage) error) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return nil, err
	}
	l := &Log{path: path, f: f, fresh: fresh}
	if l.Tail, err = Read(f, fresh, take); err == nil && l.open {
		_, err = f.WriteString("\n")
	}
	if err == nil {
		err = errors.Join(f.Sync(), atomicfile.SyncDir(filepath.Dir(path)))
	}
	if err == nil {
		l.Size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// Append links an entry to the last line, writes it and waits until it is on disk. An entry whose N exceeds the
// number of the next line keeps it. After an error the entry is not part of the log; one that Read would not accept
// is refused.
func (l *Log) Append(e Entry) error {
	if l.err != nil {
		if err := l.undo(); err != nil {
			return err
		}
	}
	k := e.link()
	k.N, k.Before, k.Crash = max(k.N, l.Lines), l.Hash, l.Torn
	k.Hash = sum(e)
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if len(b) >= maxLine {
		return fmt.Errorf("a line of %d bytes: must be below %d", len(b), maxLine)
	}
	if again := l.fresh(); json.Unmarshal(b, again) != nil || l.check(again, b) != nil {
		return fmt.Errorf("%.200q does not read back as it is written: text must be valid UTF-8", b)
	}
	if _, l.err = l.f.Write(append(b, '\n')); l.err == nil {
		l.err = l.f.Sync()
	}
	if l.err != nil {
		return l.err
	}
	l.Size += int64(len(b)) + 1
	l.Tail = Tail{Lines: k.N + 1, Hash: k.Hash, End: l.Size}
	return nil
}

// undo removes what a failed write left.
func (l *Log) undo() error {
	err := os.Truncate(l.path, l.Size)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(l.path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("an earlier write failed: %w", errors.Join(l.err, err))
	}
	l.f.Close()
	l.f, l.err = f, nil
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }
