// Package audit records the calls of operators in an append-only file: one line before a call takes
// effect and one with its outcome, each on disk at once and with the hash of the line before. It never
// holds tokens. Its one convention: a call whose line cannot be written is refused.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/chainlog"
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

// Entry is a line of the log.
type Entry struct {
	chainlog.Link
	Time time.Time `json:"time"`
	Call
	Outcome string `json:"outcome"`      // started, ok or an error code
	Of      *int   `json:"of,omitempty"` // with an outcome: the line of its start
}

func newEntry() chainlog.Entry { return &Entry{} }

// Started is the outcome of a call that has not ended, or that a crash interrupted.
const Started = "started"

// maxArgs is the largest body that a line holds; of a larger one it holds size and hash.
const maxArgs = 1 << 10

// Log is an open log. Its methods may be called from many goroutines.
type Log struct {
	path string
	now  func() time.Time

	mu  sync.Mutex
	log *chainlog.Log
}

// Open opens or creates the log of a folder. It reads the whole log; Read reports damage.
func Open(dir string, now func() time.Time) (*Log, error) {
	path := filepath.Join(dir, File)
	log, err := chainlog.Open(path, 0o600, newEntry, func(chainlog.Entry, *chainlog.Damage) error { return nil })
	if err != nil {
		return nil, err
	}
	return &Log{path: path, now: now, log: log}, nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.log.Close()
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
	e.Time = l.now().UTC().Round(time.Millisecond)
	if err := l.log.Append(&e); err != nil {
		return 0, fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return e.N, nil
}

// Lines is the number of lines that were written.
func (l *Log) Lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Lines
}

// Read returns the last entries, at most limit, and an error that names the first damage of the whole
// log: a line that was changed, removed or added, or fewer lines than atLeast.
func (l *Log) Read(limit, atLeast int) (out []Entry, damage, err error) {
	l.mu.Lock()
	size := l.log.Size // no line before it is half written
	l.mu.Unlock()
	f, err := os.Open(l.path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	tail, err := chainlog.Read(io.LimitReader(f, size), newEntry, func(line chainlog.Entry, d *chainlog.Damage) error {
		if d != nil && damage == nil {
			damage = fmt.Errorf("line %d of the audit log was changed, or lines before it are missing", d.Line)
		}
		if e, ok := line.(*Entry); ok {
			if out = append(out, *e); len(out) > 2*limit {
				out = append(out[:0], out[len(out)-limit:]...)
			}
		}
		return nil
	})
	if damage == nil && tail.Lines < atLeast {
		damage = fmt.Errorf("the audit log ends after line %d, and %d were written", tail.Lines, atLeast)
	}
	return out[max(0, len(out)-limit):], damage, err
}
