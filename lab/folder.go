package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/report"
	"github.com/tacit-rec/tacit/sim"
)

// Names of the files of a run folder.
const (
	ConfigFile     = "config.toml"
	EnvFile        = "env.json"
	MetricsFile    = "metrics.jsonl"
	ResultFile     = "result.json"
	UsersFile      = "per_user.csv"
	ReportFile     = "report.html"
	CheckpointFile = "checkpoint/state"
)

// writeFile replaces a file at once: a crash leaves the old one or the new one,
// never half of either.
func writeFile(path string, b []byte) error {
	return writeTo(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

func writeTo(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// folder is a run folder that is being written; nil is a run without one.
type folder struct {
	dir     string
	metrics bytes.Buffer // the whole of metrics.jsonl so far
}

// openFolder prepares dir for a run. A folder that holds something else, or a
// finished run, is not touched unless force is given.
func openFolder(dir string, s *Spec, env map[string]any, force bool) (*folder, error) {
	if dir == "" {
		return nil, nil
	}
	if !force {
		if _, err := os.Stat(filepath.Join(dir, ResultFile)); err == nil {
			return nil, input(fmt.Errorf("%s holds a finished run", dir), "give another -o, or --force to replace it")
		}
		if _, err := os.Stat(filepath.Join(dir, CheckpointFile)); err == nil {
			return nil, input(fmt.Errorf("%s holds a run that was stopped", dir), "tacit run --resume "+dir+" goes on with it; --force starts anew")
		}
		if others, _ := os.ReadDir(dir); len(others) > 0 && !exists(filepath.Join(dir, ConfigFile)) {
			return nil, input(fmt.Errorf("%s is not empty and is no run folder", dir), "give another -o")
		}
	}
	for _, name := range []string{ResultFile, CheckpointFile, MetricsFile, UsersFile, ReportFile} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	e, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	return f, errors.Join(f.write(ConfigFile, s.TOML()), f.write(EnvFile, append(e, '\n')))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *folder) write(name string, b []byte) error { return writeFile(filepath.Join(f.dir, name), b) }

func (f *folder) event(ev sim.Event) error {
	if f == nil {
		return nil
	}
	b, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	f.metrics.Write(append(b, '\n'))
	return nil
}

// points reads the metrics back as a report wants them.
func (f *folder) points() ([]report.Point, error) {
	var out []report.Point
	for line := range bytes.Lines(f.metrics.Bytes()) {
		var p report.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("lab: %s line %d: %w", MetricsFile, len(out)+1, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// checkpoint writes the metrics so far and then the state. The state knows its
// round, so metrics that are ahead of it after a crash are cut on resume.
func (f *folder) checkpoint(r *sim.Run, fingerprint string) error {
	if f == nil {
		return nil
	}
	if err := f.write(MetricsFile, f.metrics.Bytes()); err != nil {
		return err
	}
	return writeTo(filepath.Join(f.dir, CheckpointFile), func(w io.Writer) error { return r.Save(w, fingerprint) })
}

// resume loads the checkpoint and cuts the metrics to the rounds it holds.
func (f *folder) resume(r *sim.Run, fingerprint string) error {
	file, err := os.Open(filepath.Join(f.dir, CheckpointFile))
	if err != nil {
		return input(fmt.Errorf("%s holds no checkpoint", f.dir), "start it with tacit run ... -o "+f.dir)
	}
	defer file.Close()
	if err := r.Load(file, fingerprint); err != nil {
		return input(err, "start anew with --force")
	}
	b, err := os.ReadFile(filepath.Join(f.dir, MetricsFile))
	if err != nil {
		return input(err, "start anew with --force")
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if len(lines) < r.Engine.Next {
		return input(fmt.Errorf("%s has %d rounds, the checkpoint has %d", MetricsFile, len(lines)-1, r.Engine.Next), "start anew with --force")
	}
	f.metrics.Write(bytes.Join(lines[:r.Engine.Next], nil))
	return nil
}
