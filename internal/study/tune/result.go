package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// Result is the result of a search: tuned.json, and what `tacit tune --format json` prints. It holds no
// test metric.
type Result struct {
	Method    string            `json:"method"`
	Dataset   string            `json:"dataset"`
	DataHash  string            `json:"data_hash"`
	Protocol  string            `json:"protocol"`
	Leaks     bool              `json:"leaks"`
	Search    string            `json:"search"`
	Objective string            `json:"objective"`
	Metric    string            `json:"metric"`
	Trials    int               `json:"trials"`
	Seed      uint64            `json:"seed"`
	Seeds     int               `json:"seeds"`
	Space     map[string]string `json:"space"`
	Rungs     []Rung            `json:"rungs"`
	Best      *RankedTrial      `json:"best"`
	Default   *RankedTrial      `json:"default"` // trial 0, the current settings; null if it diverged
	Top       []RankedTrial     `json:"top"`
	Diverged  int               `json:"diverged"`
	Refused   int               `json:"refused"`
	Mattered  []Effect          `json:"mattered"`
	AtEdge    []string          `json:"at_edge"`
	Seconds   float64           `json:"seconds"` // sum over all trials
	Preset    string            `json:"preset"`  // file name
	Version   string            `json:"version"`
	Commit    string            `json:"commit,omitempty"`

	axes    []Axis
	asked   int
	history [][]Trial // by rung
	repeats []Trial   // of the finalists, with more seeds
}

// Rung is the number of trials that were compared after a number of rounds.
type Rung struct {
	Rounds int `json:"rounds"`
	Trials int `json:"trials"`
}

// RankedTrial is a trial that ran all rounds, as a mean over its seeds.
type RankedTrial struct {
	Trial     int             `json:"trial"`
	Params    map[string]any  `json:"params"`
	Value     float64         `json:"value"`
	SD        float64         `json:"sd"`
	Seeds     int             `json:"seeds"`
	BestRound int             `json:"best_round"` // of the first seed
	Valid     metrics.Summary `json:"valid"`
}

func (s *Search) result() *Result {
	info := s.Source.Info()
	r := &Result{
		Method: s.Base.Method, Dataset: info.Name, DataHash: info.Hash, Protocol: s.Base.Protocol,
		Search: s.Search, Objective: s.Objective, Metric: s.Metric, Trials: len(s.points), Seed: s.Base.Seed,
		Seeds: s.Base.Seeds,
		Space: map[string]string{}, AtEdge: []string{}, Preset: filepath.Join(s.Out, PresetFile), Version: s.Version,
		Commit: s.Commit,
		axes:   s.Axes, asked: s.Trials,
	}
	if p, err := data.ProtocolNamed(s.Base.Protocol); err == nil {
		r.Leaks = p.Leaks()
	}
	for _, a := range s.Axes {
		r.Space[a.Key] = a.String()
	}
	return r
}

func (r *Result) add(got []Trial) {
	r.history = append(r.history, got)
	rung := Rung{Trials: len(got)}
	if len(got) > 0 {
		rung.Rounds = got[0].Rounds
	}
	r.Rungs = append(r.Rungs, rung)
}

func (r *Result) last() []Trial { return r.history[len(r.history)-1] }

func (r *Result) repeat(more []Trial) { r.repeats = more }

// all returns the lines of the log.
func (r *Result) all() []Trial { return append(slices.Concat(r.history...), r.repeats...) }

// judge selects the best of the trials that ran all rounds with every seed.
func (s *Search) judge(r *Result) error {
	lost := map[string]map[int]bool{diverged: {}, refused: {}}
	for _, t := range r.all() {
		r.Seconds += t.Seconds
		if t.Status != ok {
			lost[t.Status][t.Trial] = true
		}
	}
	r.Diverged, r.Refused = len(lost[diverged]), len(lost[refused])
	var ended []RankedTrial
	for _, t := range r.last() {
		runs := []Trial{t}
		for _, m := range r.repeats {
			if m.Trial == t.Trial {
				runs = append(runs, m)
			}
		}
		if len(runs) == s.Base.Seeds && !slices.ContainsFunc(runs, func(t Trial) bool { return t.Status != ok }) {
			ended = append(ended, ranked(runs))
		}
	}
	if len(ended) == 0 {
		return &experiment.InputError{
			Err: fmt.Errorf("no trial finished: of %d trials, %d diverged and %d had invalid settings; see %s",
				r.Trials, r.Diverged, r.Refused, logFile),
			Hint: "search lower learning rates, for example lr=1e-4..1e-2,log",
		}
	}
	slices.SortStableFunc(ended, func(a, b RankedTrial) int { return cmp.Compare(b.Value, a.Value) })
	r.Best, r.Top = &ended[0], ended[:min(5, len(ended))]
	for i := range ended {
		if ended[i].Trial == 0 {
			r.Default = &ended[i]
		}
	}
	r.Mattered, r.AtEdge = effects(s.Axes, r.history[0]), edges(s.Axes, r.Best.Params)
	return nil
}

// ranked averages a trial over its seeds.
func ranked(runs []Trial) RankedTrial {
	first, n := runs[0], float64(len(runs))
	out := RankedTrial{Trial: first.Trial, Params: first.Params, Seeds: len(runs), BestRound: first.BestRound}
	for _, t := range runs {
		out.Value += t.value() / n
		addShare(&out.Valid.Sampled, t.Valid.Sampled, n)
		addShare(&out.Valid.Full, t.Valid.Full, n)
	}
	if len(runs) == 1 {
		out.Value = first.value()
		return out
	}
	for _, t := range runs {
		out.SD += (t.value() - out.Value) * (t.value() - out.Value) / (n - 1)
	}
	out.SD = math.Sqrt(out.SD)
	return out
}

func addShare(to *map[string]float64, from map[string]float64, n float64) {
	for k, v := range from {
		if *to == nil {
			*to = map[string]float64{}
		}
		(*to)[k] += v / n
	}
}

// finish writes the preset, the tables and the result. The result is last: it marks the search as
// finished.
func (s *Search) finish(r *Result) error {
	p := s.task(r.Best.Trial, s.Base.Seed, 0, s.Base.Rounds)
	if p.err != nil {
		return p.err
	}
	var page bytes.Buffer
	for _, t := range r.Tables() {
		if err := t.Markdown(&page); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Write(filepath.Join(s.Out, PresetFile), p.spec.AsPreset(r.found()).TOML()),
		atomicfile.Write(filepath.Join(s.Out, reportFile), append(bytes.TrimRight(page.Bytes(), "\n"), '\n')),
		atomicfile.Write(filepath.Join(s.Out, resultFile), append(b, '\n')),
	)
}

// found describes the search, for the first lines of the preset.
func (r *Result) found() string {
	var keys []string
	for _, a := range r.axes {
		keys = append(keys, a.Key+"="+a.String())
	}
	with := "unknown (it diverged)"
	if r.Default != nil {
		with = fmt.Sprintf("%.4f", r.Default.Value)
	}
	return fmt.Sprintf("Found by tacit tune on validation: %s search, %d trials of up to %d rounds, seed %d, space "+
		"%s.\n"+
		"Validation %s %s under %s: %.4f, mean of %d seed%s; %s without the search.\nData %s %.12s; tacit %s %s.",
		r.Search, r.Trials, r.Rungs[len(r.Rungs)-1].Rounds, r.Seed, strings.Join(keys, " "),
		r.Metric, r.Objective, r.Protocol, r.Best.Value, r.Seeds, plural(r.Seeds), with, r.Dataset, r.DataHash,
		r.Version, r.Commit)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
