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

// Trial is one setting after so many rounds: a line of trials.jsonl. It holds
// nothing of the test items.
type Trial struct {
	Trial     int              `json:"trial"`
	Seed      uint64           `json:"seed"`
	Rounds    int              `json:"rounds"`
	Status    string           `json:"status"` // ok, diverged, or refused: the settings do not fit together
	Reason    string           `json:"reason,omitempty"`
	Params    map[string]any   `json:"params"`
	Value     *float64         `json:"value"` // of the objective; null where the status is not ok
	BestRound int              `json:"best_round"`
	Valid     *metrics.Summary `json:"valid"`
	Seconds   float64          `json:"seconds"`
	Run       string           `json:"run"` // names all that decides the bits
}

// The ways a trial ends.
const (
	ok       = "ok"
	diverged = "diverged"
	refused  = "refused"
)

// value is what a trial is judged by; below all others where it has none.
func (t *Trial) value() float64 {
	if t.Value == nil {
		return -1
	}
	return *t.Value
}

// trialLog is trials.jsonl. Its lines stand in the order of the search, whoever
// finished first, so that a resumed search goes through them again.
type trialLog struct {
	path string
	old  []Trial // lines of earlier sittings that are not yet gone through
	done int
	file *os.File
}

// open reads what is there; half a line at the end, of a crash, is cut off.
func (l *trialLog) open() error {
	b, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	for line := range bytes.Lines(b) {
		var t Trial
		if err := json.Unmarshal(line, &t); err != nil {
			return &experiment.Input{
				Err:  fmt.Errorf("%s line %d: %w", l.path, len(l.old)+1, err),
				Hint: "take the line out with all that follow it",
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

// replay returns the next line of an earlier sitting, which must be of this trial.
func (l *trialLog) replay(want Trial) (*Trial, error) {
	if len(l.old) == 0 {
		return nil, nil
	}
	t := l.old[0]
	same := t.Trial == want.Trial && t.Seed == want.Seed && t.Rounds == want.Rounds && t.Run == want.Run
	if !same || t.Status == ok && (t.Value == nil || t.Valid == nil) || !reflect.DeepEqual(plain(t.Params),
		plain(want.Params)) {
		return nil, &experiment.Input{
			Err:  fmt.Errorf("%s line %d is of another search, of other data, or was changed", l.path, l.done+1),
			Hint: "start anew in another folder",
		}
	}
	l.old = l.old[1:]
	l.done++
	t.Params = want.Params // whole numbers are whole again
	return &t, nil
}

// plain are values as JSON gives them back.
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
