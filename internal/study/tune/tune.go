// Package tune searches a method's parameters on validation items. It never reads a test metric, logs
// every trial, resumes after a crash with the same answer, and writes the best setting as a preset.
// Trials are identified by number: what they draw and measure does not depend on how many run at a time.
package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Options are the settings of a search in addition to those of its runs.
type Options struct {
	Search    string `default:"halving" choices:"halving|random" doc:"halving stops the worse two thirds of the trials early; random runs every trial fully"`
	Trials    int    `default:"40" doc:"number of settings to try; trial 0 is the settings as given"`
	Objective string `default:"hr@10" choices:"hr@10|ndcg@10" doc:"validation metric to maximise, at the round that a run would report"`
	Metric    string `default:"sampled" choices:"sampled|full" doc:"rank among sampled candidates, or among all items"`
}

// Names of the files of a search's folder.
const (
	ConfigFile = "tune.toml"
	logFile    = "trials.jsonl"
	PresetFile = "preset.toml"
	resultFile = "tuned.json"
	reportFile = "tuned.md"
	stateDir   = "trials"
)

// Search is a search and how it is run.
type Search struct {
	Options
	Base    *experiment.Spec // the experiment with the current settings: trial 0
	Axes    []Axis
	Source  data.Source
	Jobs    int
	Out     string
	Resume  bool
	Force   bool
	Version string
	Commit  string

	OnProgress func(Progress) // receives progress events, one call at a time; may be nil

	points    []point
	splitting sync.Mutex
	splits    map[uint64]*data.Split
	log       *trialLog
	meter     meter
	watch     func(task, *sim.Run) // receives every run that reached its round; for tests
}

// Progress is a progress event of a search.
type Progress struct {
	Rung, Rungs int // from 1
	Done, Of    int // trials of this rung
	Rounds, All int // rounds that are done, run or replayed from the log, and all that are planned
	Replayed    int // the part of Rounds that was replayed
	Trial       int
	Best        *Trial // nil before the first
}

// Stopped is the error of a search that was interrupted. It can be resumed.
type Stopped struct {
	Done int // log lines
	Dir  string
}

func (s *Stopped) Error() string { return fmt.Sprintf("interrupted; %d results are logged", s.Done) }

// New resolves a search: settings of the run are fixed, those with the prefix "space." are searched,
// and those of Options configure the search.
func New(given []experiment.Setting) (*Search, error) {
	s := &Search{Jobs: 1}
	param.Defaults(&s.Options)
	var run, rest []experiment.Setting
	for _, g := range given {
		key := strings.TrimPrefix(g.Key, tunePrefix)
		switch {
		case key != g.Key || slices.Contains(param.Keys(&s.Options), key):
			if err := param.Set(&s.Options, key, g.Value); err != nil {
				return nil, &experiment.InputError{
					Err:  fmt.Errorf("%s: %w", g.From, err),
					Hint: "tacit tune --help lists the settings of a search",
				}
			}
			continue
		case !strings.HasPrefix(g.Key, spacePrefix):
			run = append(run, g)
		}
		rest = append(rest, g)
	}
	var err error
	if s.Base, err = experiment.Resolve(run); err != nil {
		return nil, err
	}
	if s.Axes, err = space(s.Base, rest); err != nil {
		return nil, err
	}
	if s.Trials < 2 || s.Trials > 100_000 {
		return nil, &experiment.InputError{Err: fmt.Errorf("trials = %d: must be 2 to 100000", s.Trials)}
	}
	p, err := data.ProtocolNamed(s.Base.Protocol)
	if err != nil {
		return nil, &experiment.InputError{Err: err}
	}
	if !p.Validates() {
		return nil,
			&experiment.InputError{Err: fmt.Errorf("protocol %s has no validation items, and a search requires "+
				"them", p.Name), Hint: "use --protocol deployed"}
	}
	if s.Metric == "full" && !p.Full {
		return nil, &experiment.InputError{Err: fmt.Errorf("metric = full: protocol %s ranks sampled candidates only",
			p.Name), Hint: "use --metric sampled"}
	}
	s.points = points(s.Base, s.Axes, s.Trials)
	return s, nil
}

// ReadFile reads the settings file of a search. Searched settings follow fixed ones.
func ReadFile(path string) ([]experiment.Setting, error) {
	given, err := experiment.ReadFile(path, strings.TrimSuffix(spacePrefix, "."), strings.TrimSuffix(tunePrefix, "."))
	slices.SortStableFunc(given, func(a, b experiment.Setting) int { return rankOf(a) - rankOf(b) })
	return given, err
}

func rankOf(g experiment.Setting) int {
	if strings.HasPrefix(g.Key, spacePrefix) {
		return 1
	}
	return 0
}

// toml writes the settings of the search. ReadFile and New turn them into the same search.
func (s *Search) toml() []byte {
	var b strings.Builder
	b.WriteString("# tacit tune THIS-FILE -o DIR repeats this search.\n")
	_, settings, _ := strings.Cut(string(s.Base.TOML()), "\n")
	b.WriteString(settings)
	b.WriteString("\n[tune]\n")
	values := param.Values(&s.Options)
	for _, f := range param.Fields(&s.Options) {
		if text, ok := values[f.Key].(string); ok {
			fmt.Fprintf(&b, "\n# %s\n%s = %q\n", f.Doc, f.Key, text)
		} else {
			fmt.Fprintf(&b, "\n# %s\n%s = %v\n", f.Doc, f.Key, values[f.Key])
		}
	}
	fmt.Fprintf(&b, "\n# Searched parameters: %s.\n[space]\n", param.RangeSyntax)
	for _, a := range s.Axes {
		fmt.Fprintf(&b, "%s = %q\n", a.Key, a.Range)
	}
	return []byte(b.String())
}

// open prepares the folder and reads the trials that are already logged.
func (s *Search) open() error {
	s.log = &trialLog{path: filepath.Join(s.Out, logFile)}
	if s.Resume {
		return s.log.open()
	}
	switch entries, err := os.ReadDir(s.Out); {
	case s.Out == "":
		return &experiment.InputError{
			Err:  errors.New("-o is missing: a search logs its trials in a folder"),
			Hint: "add -o DIR",
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &experiment.InputError{Err: err, Hint: "choose another -o"}
	case len(entries) > 0 && !isSearch(s.Out):
		return &experiment.InputError{
			Err:  fmt.Errorf("%s is not empty and does not hold a search", s.Out),
			Hint: "choose another -o",
		}
	case len(entries) > 0 && !s.Force:
		return &experiment.InputError{
			Err: fmt.Errorf("%s already holds a search", s.Out),
			Hint: "tacit tune --resume " + s.Out +
				" resumes it; --force replaces it",
		}
	}
	for _, name := range []string{logFile, PresetFile, resultFile, reportFile, stateDir} {
		if err := os.RemoveAll(filepath.Join(s.Out, name)); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(filepath.Join(s.Out, ConfigFile), s.toml()); err != nil {
		return &experiment.InputError{Err: err, Hint: "choose an -o that you can write to"}
	}
	return s.log.open()
}

func isSearch(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ConfigFile))
	return err == nil
}
