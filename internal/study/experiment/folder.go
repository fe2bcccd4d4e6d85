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

// folder is a run folder that is being written; nil is a run without one.
type folder struct {
	dir     string
	metrics bytes.Buffer // the whole of metrics.jsonl so far
	file    *os.File     // metrics.jsonl, written to after every round
	ledger  io.Closer    // nil for a run without a privacy promise
	told    int          // rounds that metrics.jsonl had when the run was resumed
}

// openFolder prepares dir for a run. A folder that holds something else, or a
// finished run, is not touched unless force is given.
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
	if err := putAside(dir); err != nil {
		return nil, err
	}
	e, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	if err := f.write(ConfigFile, s.TOML()); err != nil {
		return nil, AsInput(err, "give an -o that can be written to")
	}
	return f, errors.Join(f.write(envFile, append(e, '\n')), f.openMetrics())
}

// claim says why a run must not be written to dir: it holds one, or something else.
// With force a run that it holds may be replaced.
func claim(dir string, force bool) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return AsInput(fmt.Errorf("-o %s is a file; want a folder", dir), "give another -o")
	}
	has := func(name string) bool { return exists(filepath.Join(dir, name)) }
	others, _ := os.ReadDir(dir)
	goOn := "tacit run --resume " + dir + " goes on with it; --force starts anew"
	switch {
	case len(others) > 0 && !has(ConfigFile):
		return AsInput(fmt.Errorf("%s is not empty and is no run folder", dir), "give another -o")
	case force:
		return nil
	case has(ResultFile):
		return AsInput(fmt.Errorf("%s holds a finished run", dir), "give another -o, or --force to replace it")
	case has(checkpointFile):
		return AsInput(fmt.Errorf("%s holds a run that was stopped", dir), goOn)
	case has(ConfigFile):
		return AsInput(fmt.Errorf("%s holds a run that is under way, or was killed", dir), goOn)
	}
	return nil
}

// openMetrics writes metrics.jsonl as it is so far and keeps it open.
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

// points reads the metrics back as a report wants them.
func (f *folder) points() ([]result.Point, error) {
	var out []result.Point
	for line := range bytes.Lines(f.metrics.Bytes()) {
		var p result.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("lab: %s line %d: %w", metricsFile, len(out)+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// checkpoint writes the state. It knows its round, so metrics that are ahead of it
// after a crash are cut on resume.
func (f *folder) checkpoint(r *sim.Run, fingerprint string) error {
	if f == nil {
		return nil
	}
	return atomicfile.WriteTo(filepath.Join(f.dir, checkpointFile),
		func(w io.Writer) error { return r.Save(w, fingerprint) })
}

// resume loads the checkpoint and cuts the metrics to the rounds it holds. A run
// that was killed before its first checkpoint starts again.
func (f *folder) resume(r *sim.Run, fingerprint string) error {
	anew := fmt.Sprintf("start anew with: tacit run %s -o %s --force", filepath.Join(f.dir, ConfigFile), f.dir)
	if b, err := os.ReadFile(filepath.Join(f.dir, metricsFile)); err == nil {
		f.told = bytes.Count(b, []byte("\n"))
	}
	file, err := os.Open(filepath.Join(f.dir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f.openMetrics()
	} else if err != nil {
		return AsInput(err, anew)
	}
	defer file.Close()
	if err := r.Load(file, fingerprint); err != nil {
		return AsInput(err, anew)
	}
	b, err := os.ReadFile(filepath.Join(f.dir, metricsFile))
	if err != nil {
		return AsInput(err, anew)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if whole := len(lines) - 1; whole < r.Measured() { // the last is what follows the last newline
		return AsInput(fmt.Errorf("%s has %d rounds, the checkpoint has %d", metricsFile, whole, r.Measured()), anew)
	}
	f.metrics.Write(bytes.Join(lines[:r.Measured()], nil))
	return f.openMetrics()
}
