package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/param"
)

// maxVariants bounds the runs of one command.
const maxVariants = 200

// variant is one of the runs of a command with several protocols or a grid.
type variant struct {
	Name     string            `json:"name"` // also that of its folder
	Folder   string            `json:"folder,omitempty"`
	Protocol string            `json:"protocol"`
	Settings map[string]string `json:"settings,omitempty"` // of the grid
	Best     bool              `json:"best,omitempty"`     // of its protocol, on validation items; only with a grid
	Result   any               `json:"result"`             // of one seed, or of several

	given       []experiment.Setting
	spec        *experiment.Spec
	resume      bool
	valid, test metrics.Summary // means over the seeds
	first       *result.Result
}

// several is what a command with several runs prints.
type several struct {
	Schema int        `json:"schema_version"`
	Runs   []*variant `json:"runs"`

	given     []experiment.Setting // of the command
	axes      []axis
	protocols []string
	lengths   []int // of lists, in the table
}

// axis is a setting of a grid with its values.
type axis struct {
	key    string
	values []string
}

// severalOf returns the runs that the settings ask for; nil if it is one run.
func severalOf(given []experiment.Setting, grid []string) (*several, error) {
	out := &several{Schema: result.Schema, given: given, protocols: []string{""}}
	isProtocol := func(g experiment.Setting) bool { return g.Key == "protocol" }
	last := "" // it takes precedence
	for _, g := range given {
		if isProtocol(g) {
			last = g.Value
		}
	}
	if strings.Contains(last, ",") {
		out.protocols = strings.Split(last, ",")
		given = slices.DeleteFunc(slices.Clone(given), isProtocol)
	}
	if err := out.readGrid(grid); err != nil {
		return nil, err
	}
	if len(out.protocols) == 1 && len(out.axes) == 0 {
		return nil, nil
	}
	for i, name := range out.protocols {
		if _, err := data.ProtocolNamed(name); len(out.protocols) > 1 && err != nil {
			return nil, input(err, "tacit help protocols describes them")
		}
		if slices.Contains(out.protocols[:i], name) {
			return nil, input(fmt.Errorf("protocol %s is listed twice", name), "")
		}
	}
	count := len(out.protocols)
	for _, a := range out.axes {
		if count *= len(a.values); count > maxVariants {
			return nil, input(fmt.Errorf("the grid has more than %d runs", maxVariants),
				"tacit tune searches large spaces")
		}
	}
	for n := range count {
		out.Runs = append(out.Runs, out.variant(n, given))
	}
	return out, nil
}

// notInGrid are the settings that a grid cannot vary: runs with other data or another evaluation have other validation
// items, so that their metrics do not show which setting is better.
var notInGrid = append(param.Keys(&experiment.Reading{}), "protocol", "data", "world", "seed", "seeds", "preset",
	"new-users", "time-ties", "ties", "eval-users")

// readGrid reads words such as lr=0.01,0.1.
func (s *several) readGrid(grid []string) error {
	const example = "example: tacit run -m fedmf --grid lr=0.01,0.1 --grid dim=16,32"
	for _, text := range grid {
		words := strings.Fields(text)
		if len(words) == 0 {
			return input(errors.New("--grid is empty"), example)
		}
		for _, word := range words {
			key, values, ok := strings.Cut(word, "=")
			if !ok || key == "" || values == "" || slices.Contains(strings.Split(values, ","), "") {
				return input(fmt.Errorf("--grid %s: must be a setting with values, such as lr=0.01,0.1", word), example)
			}
			if slices.Contains(notInGrid, key) {
				return input(fmt.Errorf("--grid %s: a grid varies parameters and settings of training", word), example)
			}
			if slices.ContainsFunc(s.axes, func(a axis) bool { return a.key == key }) {
				return input(fmt.Errorf("--grid: %s is listed twice", key), example)
			}
			s.axes = append(s.axes, axis{key, strings.Split(values, ",")})
		}
	}
	return nil
}

// variant returns run n; the last axis varies fastest.
func (s *several) variant(n int, given []experiment.Setting) *variant {
	v := &variant{given: slices.Clone(given)}
	var parts []string
	for k := len(s.axes) - 1; k >= 0; k-- {
		a := s.axes[k]
		value := a.values[n%len(a.values)]
		n /= len(a.values)
		v.given = append(v.given, experiment.Setting{Key: a.key, Value: value, From: "flag --grid"})
		if v.Settings == nil {
			v.Settings = map[string]string{}
		}
		v.Settings[a.key] = value
		parts = append([]string{a.key + "=" + value}, parts...)
	}
	if p := s.protocols[n]; p != "" {
		v.given = append(v.given, experiment.Setting{Key: "protocol", Value: p, From: "flag --protocol"})
		parts = append([]string{p}, parts...)
	}
	v.Name = strings.NewReplacer("/", "_", `\`, "_", ":", "_").Replace(strings.Join(parts, ","))
	return v
}

// runSeveral runs the variants one after the other and prints one table.
func (a *app) runSeveral(c *cobra.Command, f *runFlags, s *several) error {
	if f.explain || f.dryRun || f.asPrinted {
		return input(errors.New("--explain, --dry-run and --as-printed describe one run"),
			"omit --grid, and choose one protocol")
	}
	for _, v := range s.Runs { // all, so that a mistake in the last is found before the first runs
		if err := v.resolve(f); err != nil {
			return err
		}
		if p, err := data.ProtocolNamed(v.Protocol); len(s.axes) > 0 && err == nil && !p.Validates() {
			return input(fmt.Errorf("a grid requires validation items, and protocol %s has none", v.Protocol), "")
		}
	}
	if f.out != "" {
		if err := s.remember(f); err != nil {
			return err
		}
	}
	var references reference.Cache
	for i, v := range s.Runs {
		a.progress("run %d/%d: %s", i+1, len(s.Runs), v.Name)
		one := *f
		one.out = v.Folder
		job, err := a.job(v.spec, &one)
		if err != nil {
			return err
		}
		job.Resume, job.References = v.resume, &references
		if err := v.run(c, job); err != nil {
			if stopped := new(experiment.Stopped); errors.As(err, &stopped) && f.out != "" {
				stopped.Hint = "resume with: tacit run --resume " + f.out
			}
			return err
		}
	}
	s.markBest()
	if err := a.result(s, s.text); err != nil {
		return err
	}
	if f.out == "" {
		return nil
	}
	page, err := s.writePage(f.out)
	if err != nil {
		return err
	}
	a.progress("wrote %d runs to %s\nopen the report: %s", len(s.Runs), f.out, page)
	return nil
}

// severalFile holds the command of several runs in their folder, so that --resume continues it.
const severalFile = "runs.json"

// severalCommand is the content of severalFile.
type severalCommand struct {
	Settings     []experiment.Setting `json:"settings"`
	Grid         []string             `json:"grid"`
	At           string               `json:"at"`
	NoReferences bool                 `json:"no_references"`
	NoFigures    bool                 `json:"no_figures"`
	KeepModel    string               `json:"keep_model"`
}

// remember writes severalFile.
func (s *several) remember(f *runFlags) error {
	b, err := json.MarshalIndent(severalCommand{s.given, f.grid, f.at, f.noRefs, f.noFigures, f.keepModel}, "", "  ")
	if err != nil {
		return err
	}
	err = atomicfile.WriteTo(filepath.Join(f.out, severalFile), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return input(err, "choose an -o that you can write to")
	}
	return nil
}

// resumeSeveral sets the flags from the folder of several runs that --resume names, and returns the settings; nil if
// the folder holds one run.
func (f *runFlags) resumeSeveral(c *cobra.Command, words []string, flags func() []experiment.Setting) (
	[]experiment.Setting, error,
) {
	b, err := os.ReadFile(filepath.Join(f.resume, severalFile))
	if f.resume == "" || err != nil {
		return nil, nil // the run itself reports what is missing
	}
	if len(words) > 0 || len(flags()) > 0 || f.out != "" || f.noPreset || f.asPrinted || f.grid != nil {
		return nil, errResumeAlone("run", f.resume)
	}
	var from severalCommand
	if err := json.Unmarshal(b, &from); err != nil {
		return nil, input(fmt.Errorf("%s: corrupt: %w", filepath.Join(f.resume, severalFile), err),
			"start the runs again with --force")
	}
	f.out, f.resume, f.grid = f.resume, "", from.Grid
	f.noRefs, f.noFigures, f.keepModel = from.NoReferences, from.NoFigures, from.KeepModel
	if !c.Flags().Changed("at") {
		f.at = from.At
	}
	return from.Settings, nil
}

// writePage writes the report of all runs beside their folders, and the figure of several protocols. With a grid, it
// shows the best setting only: the others have no test metrics to show.
func (s *several) writePage(dir string) (page string, err error) {
	var dirs []string
	for _, v := range s.Runs {
		if len(s.axes) == 0 || v.Best {
			dirs = append(dirs, v.Folder)
		}
	}
	runs, err := loadRuns(dirs)
	if err != nil {
		return "", err
	}
	drawn, err := report.ProtocolFigure(runs)
	if err != nil {
		return "", err
	}
	if drawn != nil {
		for end, b := range map[string][]byte{".svg": drawn.SVG, ".csv": drawn.CSV} {
			if err := os.WriteFile(filepath.Join(dir, drawn.Name+end), b, 0o644); err != nil {
				return "", input(err, "choose another -o")
			}
		}
	}
	page = filepath.Join(dir, experiment.ReportFile)
	return page, writeFile(page, func(w io.Writer) error { return report.HTML(w, runs) })
}

// resolve finds the settings of a variant. If its folder holds the same run, it will be resumed.
func (v *variant) resolve(f *runFlags) (err error) {
	if v.spec, err = experiment.Resolve(v.given); err != nil {
		return err
	}
	v.Protocol = v.spec.Protocol
	if f.out == "" {
		return nil
	}
	v.Folder = filepath.Join(f.out, v.Name)
	config := filepath.Join(v.Folder, experiment.ConfigFile)
	if v.resume = !f.force && exists(config); !v.resume {
		return nil
	}
	stored, err := experiment.ReadFile(config)
	if err != nil {
		return err
	}
	if v.spec, err = experiment.Resolve(append(experiment.OldDefaults(), stored...)); err != nil {
		return err
	}
	again, err := v.spec.With(slices.DeleteFunc(slices.Clone(v.given), func(g experiment.Setting) bool {
		return g.Key == "data" || g.Key == "preset" // the run checks the data, the file has the preset's settings
	}))
	if err != nil || again.Fingerprint("") != v.spec.Fingerprint("") || again.Seeds != v.spec.Seeds {
		return input(fmt.Errorf("%s holds a run with other settings", v.Folder),
			"choose another -o, or use --force to replace it")
	}
	return nil
}

// run runs a variant and keeps what the table shows.
func (v *variant) run(c *cobra.Command, job *experiment.Job) error {
	if err := job.ChooseSettings(c.Context()); err != nil {
		return err
	}
	if job.Seeds > 1 {
		many, err := job.RunSeeds(c.Context())
		if err != nil {
			return err
		}
		v.Result, v.valid, v.test, v.first = many, many.Mean.Valid, many.Mean.Test, many.Runs[0]
		return nil
	}
	one, err := job.Run(c.Context())
	if err != nil {
		return err
	}
	v.Result, v.valid, v.test, v.first = one, one.Valid, one.Test, one
	return nil
}

// markBest marks the best run of each protocol, by NDCG@10 on validation items; of equal ones the first.
func (s *several) markBest() {
	if len(s.axes) == 0 {
		return
	}
	best := map[string]*variant{}
	for _, v := range s.Runs {
		if b := best[v.Protocol]; b == nil || v.valid.Sampled["ndcg@10"] > b.valid.Sampled["ndcg@10"] {
			best[v.Protocol] = v
		}
	}
	for _, v := range best {
		v.Best = true
	}
}

// text prints one table. With a grid, only the best runs show test metrics: choosing by them would be a choice on
// test items.
func (s *several) text(w io.Writer) error {
	t := report.Table{Align: "l"}
	if s.protocols[0] != "" {
		t.Header = append(t.Header, "protocol")
	}
	for _, a := range s.axes {
		t.Header = append(t.Header, a.key)
	}
	t.Align = strings.Repeat("l", len(t.Header)) + "r"
	for _, name := range []string{"valid ", "test ", "full "} {
		for _, k := range s.lengths {
			t.Header = append(t.Header, fmt.Sprintf("%sHR@%d", name, k), fmt.Sprintf("NDCG@%d", k))
		}
	}
	leaks := false
	for _, v := range s.Runs {
		var row []any
		if s.protocols[0] != "" {
			name := v.Protocol
			if v.first.Leaks {
				name, leaks = name+" (leaks)", true
			}
			row = append(row, name)
		}
		for _, a := range s.axes {
			row = append(row, v.Settings[a.key])
		}
		test := v.test
		if len(s.axes) > 0 && !v.Best {
			test = metrics.Summary{}
		}
		for _, m := range []map[string]float64{v.valid.Sampled, test.Sampled, test.Full} {
			for _, k := range s.lengths {
				row = append(row, metric(m, fmt.Sprintf("hr@%d", k)), metric(m, fmt.Sprintf("ndcg@%d", k)))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	first := s.Runs[0].first
	t.Title = fmt.Sprintf("%s on %s", first.Method, first.Dataset)
	if s.Runs[0].Settings["method"] != "" {
		t.Title = first.Dataset
	}
	if many, ok := s.Runs[0].Result.(*result.Repeated); ok {
		t.Title += fmt.Sprintf(", mean of %d seeds", len(many.Runs))
	}
	if len(s.axes) > 0 {
		t.Notes = append(t.Notes, s.choices()...)
	}
	if leaks {
		t.Notes = append(t.Notes, "A protocol that leaks is for comparison with published numbers; its metrics do not "+
			"compare with those of the others.")
	}
	t.Notes = append(t.Notes, "valid and test: among sampled candidates; full: test items among all items.")
	return t.Text(w)
}

// choices says which setting of a grid was chosen, under each protocol.
func (s *several) choices() (out []string) {
	for _, v := range s.Runs {
		if !v.Best {
			continue
		}
		under := ""
		if s.protocols[0] != "" {
			under = " under " + v.Protocol
		}
		var words []string
		for _, a := range s.axes {
			words = append(words, a.key+"="+v.Settings[a.key])
		}
		out = append(out, fmt.Sprintf("Chosen on validation items%s: %s, the best of %d settings by NDCG@10 (%s). "+
			"Only it shows test metrics.", under, strings.Join(words, " "), len(s.Runs)/len(s.protocols),
			metric(v.valid.Sampled, "ndcg@10")))
	}
	return out
}

// metric returns a metric for a table; - if it is missing.
func metric(m map[string]float64, name string) string {
	x, has := m[name]
	if !has {
		x = math.NaN()
	}
	return format.Fraction(x)
}
