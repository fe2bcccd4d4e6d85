package result

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Search is the folder of `tacit tune -o`: the trials with their metrics on validation items. It contains nothing
// about the test items.
type Search struct {
	Method    string            `json:"method"`
	Dataset   string            `json:"dataset"`
	Protocol  string            `json:"protocol"`
	Objective string            `json:"objective"`
	Metric    string            `json:"metric"`
	Space     map[string]string `json:"space"`
	Trials    []Trial           `json:"-"`
}

// Trial is a line of trials.jsonl.
type Trial struct {
	Trial  int            `json:"trial"`
	Rounds int            `json:"rounds"`
	Status string         `json:"status"`
	Params map[string]any `json:"params"`
	Value  *float64       `json:"value"`
}

// loadSearch returns nil for a folder without a finished search.
func loadSearch(dir string) (*Search, error) {
	s := new(Search)
	f, err := open(dir, "tuned.json", maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxResult))
	if err != nil {
		return nil, err
	}
	if err := decode(b, b, 0, s); err != nil {
		return nil, fmt.Errorf("%s%w; search again with `tacit tune`", f.Name(), err)
	}
	for _, name := range []string{s.Method, s.Dataset, s.Protocol, s.Objective, s.Metric} {
		if name == "" || len(name) > maxName {
			return nil, fmt.Errorf("%s: method, dataset, protocol, objective and metric must have 1 to %d bytes; "+
				"search again with `tacit tune`", f.Name(), maxName)
		}
	}
	err = read(dir, "trials.jsonl", func(in io.Reader) (err error) {
		s.Trials, err = readTrials(in)
		return err
	})
	return s, err
}

const maxTrials = 100_000

func readTrials(in io.Reader) ([]Trial, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var out []Trial
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var t Trial
		if err := decode(line, line, 0, &t); err != nil {
			return nil, fmt.Errorf(":%d%s", n, strings.TrimPrefix(err.Error(), ":1"))
		}
		if len(t.Params) > maxSettings || len(out) == maxTrials {
			return nil, fmt.Errorf(":%d: trial %d has %d parameters, expected at most %d, in at most %d lines", n,
				t.Trial, len(t.Params),
				maxSettings, maxTrials)
		}
		if t.Value != nil && !sane(*t.Value) {
			return nil, fmt.Errorf(":%d: trial %d has the value %g, expected at most 1e30", n, t.Trial, *t.Value)
		}
		out = append(out, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf(":%d: %w", n+1, err)
	}
	return out, nil
}
