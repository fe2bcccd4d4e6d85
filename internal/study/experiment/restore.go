package experiment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
)

// Model says whether a finished run keeps its trained model, the last checkpoint.
type Model string

const (
	ModelAuto   Model = "" // up to modelLimit bytes
	ModelAlways Model = "always"
	ModelNever  Model = "never"
)

// modelLimit is the largest model that a run keeps unless it is told to. Methods with a private table on
// each device have larger ones: users times items times dimension.
const modelLimit = 1 << 30

// ModelDropped is the event of a finished run that does not keep its model, because it is too large.
type ModelDropped struct{ Limit int64 }

func (ModelDropped) event() {}

var errTooLarge = errors.New("the model exceeds the limit")

// limited returns errTooLarge once more than left bytes are written.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= int64(len(b)); l.left < 0 {
		return 0, errTooLarge
	}
	return l.w.Write(b)
}

// keepModel writes the last checkpoint of a finished run, or removes the one before.
func (j *Job) keepModel(run *sim.Run, out *folder) error {
	path := filepath.Join(out.dir, checkpointFile)
	limit := int64(modelLimit)
	if j.modelLimit > 0 {
		limit = j.modelLimit
	}
	switch j.Model {
	case ModelAlways:
		return out.checkpoint(run, j.fingerprint())
	case ModelNever:
		return os.RemoveAll(filepath.Dir(path))
	}
	err := atomicfile.WriteTo(path, func(w io.Writer) error { return run.Save(&limited{w, limit}, j.fingerprint()) })
	if errors.Is(err, errTooLarge) {
		j.OnEvent(ModelDropped{limit})
		return os.RemoveAll(filepath.Dir(path))
	}
	return err
}

// Restored is a finished run with its trained model.
type Restored struct {
	*Spec
	Source data.Source
	Split  *data.Split
	Run    *sim.Run
	Result *result.Result
	Dir    string // the folder of the run, which is a subfolder if there are several seeds
}

// Restore loads the model of the finished run in a folder; of a run with several seeds, that of the
// first. dataDir is the folder of the data sets; empty looks where OpenData does. The data must be that
// of the run.
func Restore(registry *method.Registry, dir, dataDir string) (*Restored, error) {
	stored, err := result.Load(dir)
	if err != nil {
		return nil, AsInput(err, "tacit run -o DIR creates a run folder")
	}
	if stored.Result == nil {
		return nil, AsInput(fmt.Errorf("%s holds a search or a leaderboard, not a run", dir),
			"tacit run -o DIR creates a run folder")
	}
	if stored.Seeds != nil {
		dir = filepath.Join(dir, fmt.Sprintf("seed-%d", stored.Seeds[0].Result.Seed))
	}
	again := fmt.Sprintf("run it again with: tacit run %s -o %s --force --keep-model always",
		filepath.Join(dir, ConfigFile), dir)
	file, err := os.Open(filepath.Join(dir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, AsInput(fmt.Errorf("%s has no model: it exceeded %s, or the run had --keep-model never", dir,
			format.Size(modelLimit)), again)
	} else if err != nil {
		return nil, AsInput(err, "")
	}
	defer file.Close()
	given, err := ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil {
		return nil, err
	}
	out := &Restored{Result: stored.Result, Dir: dir}
	if out.Spec, err = ResolveIn(registry, append(OldDefaults(), given...)); err != nil {
		return nil, err
	}
	if out.Source, err = OpenData(&out.Settings, dataDir); err != nil {
		return nil, err
	}
	if hash := out.Source.Info().Hash; hash != stored.Result.DataHash {
		return nil, AsInput(fmt.Errorf("%s was trained on other data: %s has changed since", dir, out.Data),
			"restore the data, or "+again)
	}
	out.FitTo(out.Source)
	if out.Split, err = out.Spec.Split(out.Source); err != nil {
		return nil, err
	}
	out.Options.Name = out.Method
	if out.Run, err = sim.New(out.Params, out.Split, out.Options, out.Seed, runtime.NumCPU()); err != nil {
		return nil, AsInput(err, "")
	}
	if err := out.Run.Load(file, out.Fingerprint(stored.Result.DataHash)); err != nil {
		return nil, AsInput(fmt.Errorf("%s: %w", file.Name(), err), again)
	}
	return out, nil
}
