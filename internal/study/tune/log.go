package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// Trial is the result of one setting after a number of rounds: a line of trials.jsonl. It holds no
// test metric.
type Trial struct {
	Trial     int              `json:"trial"`
	Seed      uint64           `json:"seed"`
	Rounds    int              `json:"rounds"`
	Status    string           `json:"status"` // ok, diverged, or refused if the settings are invalid
	Reason    string           `json:"reason,omitempty"`
	Params    map[string]any   `json:"params"`
	Value     *float64         `json:"value"` // of the objective; null unless the status is ok
	BestRound int              `json:"best_round"`
	Valid     *metrics.Summary `json:"valid"`
	Seconds   float64          `json:"seconds"`
	Run       string           `json:"run"` // identifies everything that determines the result
}

// The ways a trial ends.
const (
	ok       = "ok"
	diverged = "diverged"
	refused  = "refused"
)

// value returns the objective; -1, below all others, if the trial has none.
func (t *Trial) value() float64 {
	if t.Value == nil {
		return -1
	}
	return *t.Value
}

// trialLog is trials.jsonl. Its lines are in the order of the search, whichever trial ended first, so
// that a resumed search can replay them.
type trialLog struct {
	path string
	old  []Trial // lines that were logged before and are not replayed yet
	done int
	file *os.File
}

// open reads the logged lines. An incomplete last line, which a crash leaves, is removed.
func (l *trialLog) open() error {
	b, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	for line := range bytes.Lines(b) {
		var t Trial
		if err := json.Unmarshal(line, &t); err != nil {
			return &experiment.InputError{
				Err:  fmt.Errorf("%s line %d: %w", l.path, len(l.old)+1, err),
				Hint: "remove this line and all lines after it",
			}
		}
		l.old = append(l.old, t)
	}
	if l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	if err := l.file.Truncate(int64(len(b))); err != nil {
		return err
	}
	_, err = l.file.Seek(0, 2)
	return err
}

// replay returns the next logged line, which must be of the expected trial; found is false if all
// lines are replayed.
func (l *trialLog) replay(expected Trial) (t Trial, found bool, err error) {
	if len(l.old) == 0 {
		return Trial{}, false, nil
	}
	t = l.old[0]
	same := t.Trial == expected.Trial && t.Seed == expected.Seed && t.Rounds == expected.Rounds &&
		t.Run == expected.Run && reflect.DeepEqual(plain(t.Params), plain(expected.Params))
	complete := t.Status != ok || t.Value != nil && t.Valid != nil
	if !same || !complete {
		return Trial{}, false, &experiment.InputError{
			Err: fmt.Errorf("%s line %d belongs to another search or other data, or was edited", l.path,
				l.done+1),
			Hint: "start a new search in another folder",
		}
	}
	l.old = l.old[1:]
	l.done++
	t.Params = expected.Params // JSON has no integers
	return t, true, nil
}

// plain converts values to the types that JSON decoding returns.
func plain(v map[string]any) map[string]any {
	b, _ := json.Marshal(v)
	var out map[string]any
	_ = json.Unmarshal(b, &out)
	return out
}

func (l *trialLog) append(t Trial) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(b, '\n')); err != nil {
		return err
	}
	l.done++
	return l.file.Sync()
}

func (l *trialLog) close() {
	if l != nil && l.file != nil {
		l.file.Close()
	}
}
