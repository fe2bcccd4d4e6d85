// Package audit records the calls of operators in an append-only file: one line before a call takes
// effect and one with its outcome, each on disk at once and with the hash of the line before. It never
// holds tokens. Its one convention: a call whose line cannot be written is refused.
package audit

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
	"sync"
	"time"
)

// File is the name of the log in a state folder.
const File = "audit.jsonl"

// Call is what an operator asked for.
type Call struct {
	Name     string          `json:"call"`           // method and path, such as POST pause
	Args     json.RawMessage `json:"args,omitempty"` // its body or query
	Operator string          `json:"operator"`
	Remote   string          `json:"remote"` // address
}

// Entry is a line of the log. Hash is the hash of the line with an empty Hash; Before is the hash of the
// line before.
type Entry struct {
	N    int       `json:"n"`
	Time time.Time `json:"time"`
	Call
	Outcome string `json:"outcome"`               // started, ok or an error code
	Of      *int   `json:"of,omitempty"`          // with an outcome: the line of its start
	Crash   bool   `json:"after_crash,omitempty"` // the line before is incomplete
	Before  string `json:"before"`
	Hash    string `json:"hash"`
}

// Started is the outcome of a call that has not ended, or that a crash interrupted.
const Started = "started"

// maxArgs is the largest body that a line holds; of a larger one it holds size and hash.
const maxArgs = 1 << 10

// maxLine is larger than any line.
const maxLine = 1 << 16

// Log is an open log. Its methods may be called from many goroutines.
type Log struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	f     *os.File
	n     int
	last  string
	crash bool // the file ends with an incomplete line
	err   error
}

// Open opens or creates the log of a folder. It reads the whole log; Verify reports damage.
func Open(dir string, now func() time.Time) (*Log, error) {
	l := &Log{path: filepath.Join(dir, File), now: now}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l.f = f
	err = each(f, func(line []byte, whole bool) error {
		var e Entry
		l.crash = json.Unmarshal(line, &e) != nil
		if !l.crash {
			l.n, l.last = e.N+1, e.Hash
		}
		if !whole {
			_, err := f.WriteString("\n")
			return err
		}
		return nil
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	return l, nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// Begin records that a call begins, and returns the function that records its outcome.
func (l *Log) Begin(c Call) (end func(outcome string) error, err error) {
	c.Args = shorten(c.Args)
	n, err := l.append(Entry{Call: c, Outcome: Started})
	if err != nil {
		return nil, err
	}
	return func(outcome string) error {
		_, err := l.append(Entry{Call: c, Outcome: outcome, Of: &n})
		return err
	}, nil
}

// shorten replaces long arguments by their size and hash. Others are compacted, so that a line stays one.
func shorten(args json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if len(args) > 0 && len(args) <= maxArgs && json.Compact(&b, args) == nil {
		return b.Bytes()
	}
	if len(args) == 0 {
		return nil
	}
	h := sha256.Sum256(args)
	return json.RawMessage(fmt.Sprintf(`{"bytes":%d,"sha256":"%x"}`, len(args), h))
}

func (l *Log) append(e Entry) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.N, e.Time, e.Before, e.Crash = l.n, l.now().UTC().Round(time.Millisecond), l.last, l.crash
	e.Hash = e.sum()
	b, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	before := ""
	if l.err != nil { // half of a line may be there
		before = "\n"
	}
	if _, err = l.f.WriteString(before + string(b) + "\n"); err == nil {
		err = l.f.Sync()
	}
	if l.err = err; err != nil {
		l.crash = true
		return 0, fmt.Errorf("the audit log cannot be written: %w", err)
	}
	l.n, l.last, l.crash = e.N+1, e.Hash, false
	return e.N, nil
}

func (e Entry) sum() string {
	e.Hash = ""
	b, err := json.Marshal(e)
	if err != nil {
		return "none"
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Lines is the number of lines that were written.
func (l *Log) Lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Read returns the last entries, at most limit, and an error that names the first damage of the whole
// log: a line that was changed, removed or added, or fewer lines than atLeast.
func (l *Log) Read(limit, atLeast int) (out []Entry, damage, err error) {
	l.mu.Lock() // no line is half written
	defer l.mu.Unlock()
	f, err := os.Open(l.path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	n, last, cut := 0, "", false
	err = each(f, func(line []byte, whole bool) error {
		var e Entry
		if json.Unmarshal(line, &e) != nil {
			cut = true
			return nil
		}
		text, _ := json.Marshal(e)
		if damage == nil && (e.N != n || e.Before != last || e.Hash != e.sum() || !bytes.Equal(text, line) ||
			e.Crash != cut) {
			damage = fmt.Errorf("line %d of the audit log was changed, or lines before it are missing", n+1)
		}
		n, last, cut = e.N+1, e.Hash, false
		if out = append(out, e); len(out) > 2*limit {
			out = append(out[:0], out[len(out)-limit:]...)
		}
		return nil
	})
	if damage == nil && n < atLeast {
		damage = fmt.Errorf("the audit log has %d lines, and %d were written", n, atLeast)
	}
	return out[max(0, len(out)-limit):], damage, err
}

// each calls do for each line; whole is false for a last line without its newline.
func each(r io.Reader, do func(line []byte, whole bool) error) error {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("a line of the audit log exceeds %d bytes", maxLine)
		}
		if len(line) > 0 {
			trimmed := bytes.TrimSuffix(line, []byte("\n"))
			if err := do(trimmed, len(trimmed) < len(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
