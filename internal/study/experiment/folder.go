package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// Names of the files of a run folder.
const (
	ConfigFile            = "config.toml"
	envFile               = "env.json"
	metricsFile           = "metrics.jsonl"
	ResultFile            = "result.json"
	perUserFile           = "per_user.csv"
	perUserReferencesFile = "per_user_references.csv"
	figuresFile           = "figures.json"
	choiceFile            = "tried.json"
	ReportFile            = "report.html"
	checkpointFile        = "checkpoint/state"
)

func writeFile(path string, b []byte) error { return atomicfile.Write(path, b) }

// folder is a run folder that is being written; nil for a run without one.
type folder struct {
	dir     string
	metrics bytes.Buffer // content of metrics.jsonl so far
	file    *os.File     // metrics.jsonl, appended to after every round
	ledger  io.Closer    // nil for a run without a privacy guarantee
	logged  int          // rounds that metrics.jsonl had when the run was resumed
}

// openFolder prepares dir for a new run. It returns an error if the folder holds other files, or, without
// force, a run.
func openFolder(dir string, s *Spec, env map[string]any, force bool) (*folder, error) {
	if dir == "" {
		return nil, nil
	}
	if err := claim(dir, force); err != nil {
		return nil, err
	}
	for _, name := range []string{
		ResultFile, checkpointFile, metricsFile, perUserFile, figuresFile, choiceFile,
		ReportFile,
	} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	if err := keepLedger(dir); err != nil {
		return nil, err
	}
	e, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	if err := f.write(ConfigFile, s.TOML()); err != nil {
		return nil, AsInput(err, "choose an -o that you can write to")
	}
	return f, errors.Join(f.write(envFile, append(e, '\n')), f.openMetrics())
}

// claim returns an error if a new run must not be written to dir, because it holds a run or other files.
// With force a run may be replaced.
func claim(dir string, force bool) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return AsInput(fmt.Errorf("-o %s is a file: must be a folder", dir), "choose another -o")
	}
	has := func(name string) bool { return exists(filepath.Join(dir, name)) }
	others, _ := os.ReadDir(dir)
	resume := "tacit run --resume " + dir + " resumes it; --force replaces it"
	switch {
	case len(others) > 0 && !has(ConfigFile):
		return AsInput(fmt.Errorf("%s is neither empty nor a run folder", dir), "choose another -o")
	case force:
		return nil
	case has(ResultFile):
		return AsInput(fmt.Errorf("%s holds a finished run", dir), "choose another -o, or use --force to replace it")
	case has(checkpointFile):
		return AsInput(fmt.Errorf("%s holds an interrupted run", dir), resume)
	case has(ConfigFile):
		return AsInput(fmt.Errorf("%s holds a run that is in progress or crashed", dir), resume)
	}
	return nil
}

// openMetrics rewrites metrics.jsonl with its content so far and keeps it open.
func (f *folder) openMetrics() error {
	if err := f.write(metricsFile, f.metrics.Bytes()); err != nil {
		return err
	}
	var err error
	f.file, err = os.OpenFile(filepath.Join(f.dir, metricsFile), os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

func (f *folder) close() {
	if f != nil && f.file != nil {
		f.file.Close()
	}
	if f != nil && f.ledger != nil {
		f.ledger.Close()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *folder) write(name string, b []byte) error { return writeFile(filepath.Join(f.dir, name), b) }

// line is a line of metrics.jsonl.
type line struct {
	sim.Event
	Spectra []result.Spectrum `json:"spectra,omitempty"`
}

func (f *folder) event(ev line) error {
	if f == nil {
		return nil
	}
	b, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	f.metrics.Write(b)
	_, err = f.file.Write(b)
	return err
}

// points parses the metrics for the report.
func (f *folder) points() ([]result.Point, error) {
	var out []result.Point
	for line := range bytes.Lines(f.metrics.Bytes()) {
		var p result.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", metricsFile, len(out)+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// checkpoint writes the state of the run. resume removes metrics of later rounds, which a crash may
// leave.
func (f *folder) checkpoint(r *sim.Run, fingerprint string) error {
	if f == nil {
		return nil
	}
	return atomicfile.WriteTo(filepath.Join(f.dir, checkpointFile),
		func(w io.Writer) error { return r.Save(w, fingerprint) })
}

// resume loads the checkpoint and removes the metrics of later rounds. A run that crashed before its
// first checkpoint starts from the first round.
func (f *folder) resume(r *sim.Run, fingerprint string) error {
	restart := fmt.Sprintf("restart it with: tacit run %s -o %s --force", filepath.Join(f.dir, ConfigFile), f.dir)
	if b, err := os.ReadFile(filepath.Join(f.dir, metricsFile)); err == nil {
		f.logged = bytes.Count(b, []byte("\n"))
	}
	file, err := os.Open(filepath.Join(f.dir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f.openMetrics()
	} else if err != nil {
		return AsInput(err, restart)
	}
	defer file.Close()
	if err := r.Load(file, fingerprint); err != nil {
		return AsInput(err, restart)
	}
	b, err := os.ReadFile(filepath.Join(f.dir, metricsFile))
	if err != nil {
		return AsInput(err, restart)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if whole := len(lines) - 1; whole < r.EvaluatedRounds() { // the last element follows the last newline
		return AsInput(fmt.Errorf("%s has %d rounds, the checkpoint has %d", metricsFile, whole, r.EvaluatedRounds()),
			restart)
	}
	f.metrics.Write(bytes.Join(lines[:r.EvaluatedRounds()], nil))
	return f.openMetrics()
}
