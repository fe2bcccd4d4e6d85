package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// runFlags are the flags of a run that are not settings.
type runFlags struct {
	out, dataDir, resume string
	at                   string
	jobs                 int
	force, noRefs        bool
	noFigures            bool
	noPreset             bool
	asPrinted            bool
	explain, dryRun      bool
	keepModel            string
	grid                 []string
}

const runLong = `
A run trains a method (default: tacit) on a data set and ranks each user's held-out item under an
evaluation protocol. Parameters of the method are key=value words: tacit methods NAME lists them.
The result goes to standard output, progress to standard error.`

const runDetails = `
With -o DIR the run leaves a folder with its settings, metrics per round, result, ranks per user,
figures and a report. Ctrl-C finishes the round, saves and exits with 130; --resume DIR continues
and reaches the same result, bit for bit. tacit help settings says where settings come from, tacit
help protocols describes the protocols. With --dp, differential privacy holds for all data of a user:
tacit privacy keys lists its options, tacit privacy plan estimates its cost.

--protocol paper,deployed and --grid lr=0.01,0.1 --grid dim=16,32 are several runs with one table. A
grid is chosen from on validation items, and only the best setting shows test metrics.`

const runExample = `  tacit run                                               # the built-in synthetic data set
  tacit run -m pfedrec -d ml-100k --protocol paper --seeds 5 -o runs/pfedrec
  tacit run -m pfedrec -d ml-100k rounds=50 lr=0.05       # parameters of the method
  tacit run -m fedmf -d ratings.csv --columns user,item,rating,time
  tacit run -m fedmf -d ml-100k --dp epsilon=8,clip=0.5 --cohort poisson:0.1
  tacit run --resume runs/pfedrec`

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "run [CONFIG.toml] [key=value ...]", Short: "Run one experiment", Long: runLong, Example: runExample,
	}
	settings := settingFlags(c.Flags())
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "write the run to this folder")
	fl.StringVar(&f.resume, "resume", "", "resume the run in this folder")
	fl.BoolVar(&f.force, "force", false, "replace the run in the -o folder")
	fl.BoolVar(&f.noRefs, "no-references", false, "skip the reference rows")
	fl.BoolVar(&f.noFigures, "no-figures", false, "skip the report's maps, spectra and loss landscape, which take "+
		"seconds")
	fl.BoolVar(&f.noPreset, "no-preset", false, "start from the defaults, like --preset none")
	fl.BoolVar(&f.asPrinted, "as-printed", false, "DP-PrivRec's noise with the errors of its paper (tacit methods "+
		"dp-privrec)")
	fl.BoolVar(&f.explain, "explain", false, "print every setting and its source, and stop")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print data, traffic, memory and time estimates, and stop")
	fl.StringVar(&f.keepModel, "keep-model", "auto", "keep the trained model in the folder: auto (up to 1 GB), "+
		"always or never")
	atFlag(fl, &f.at)
	fl.StringArrayVar(&f.grid, "grid", nil, "run every combination of values, such as lr=0.01,0.1; repeatable")
	dataDirFlag(fl, &f.dataDir)
	jobsFlag(fl, &f.jobs)
	a.describe(c, runDetails,
		flagsUnder("Data", "data columns min-rows",
			"data-dir world sep header time-format k-core time-cut test-file valid-file test-rows "+
				"threshold dedup time-ties new-users"),
		flagsUnder("Training", "method rounds cohort seed seeds",
			"jobs preset no-preset batch negatives mean server dropout straggle sums bits encode keep"),
		flagsUnder("Evaluation", "protocol eval-every", "at eval-users ties no-references no-figures"),
		flagsUnder("Privacy", "dp secagg", "noise as-printed"),
		flagsUnder("Output", "out resume dry-run explain", "force keep-model grid"))
	c.RunE = func(c *cobra.Command, words []string) error { return a.run(c, &f, words, settings) }
	return c
}

// run runs what the command line or the folder of --resume asks for: one experiment, or several with one table.
func (a *app) run(c *cobra.Command, f *runFlags, words []string, settings func() []experiment.Setting) error {
	given, err := f.resumeSeveral(c, words, settings)
	if err != nil {
		return err
	}
	lengths, err := listLengths(f.at)
	if err != nil {
		return err
	}
	if f.resume == "" {
		if given == nil {
			if given, err = f.given(c, words, settings); err != nil {
				return err
			}
		}
		if s, err := severalOf(given, f.grid); s != nil || err != nil {
			if err != nil {
				return err
			}
			if s.lengths = lengths; len(lengths) == 0 {
				s.lengths = []int{10}
			}
			return a.runSeveral(c, f, s)
		}
	}
	spec, err := f.spec(c, words, settings)
	if err != nil {
		return err
	}
	if f.explain {
		return a.explain(spec)
	}
	job, err := a.job(spec, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(job)
	}
	if err := job.ChooseSettings(c.Context()); err != nil {
		return err
	}
	return a.runJob(c, job, lengths...)
}

// spec resolves the settings of a run.
func (f *runFlags) spec(c *cobra.Command, words []string, flags func() []experiment.Setting) (*experiment.Spec, error) {
	if f.resume != "" {
		if len(words) > 0 || len(flags()) > 0 || f.out != "" || f.noPreset || f.asPrinted || f.grid != nil {
			return nil, errResumeAlone("run", f.resume)
		}
		given, err := experiment.ReadFile(filepath.Join(f.resume, experiment.ConfigFile))
		if err != nil {
			return nil, input(fmt.Errorf("no run to resume in %s: %w", f.resume, err),
				nearestFolder(f.resume, configMarks, "tacit run -o DIR creates a run folder"))
		}
		return experiment.Resolve(append(experiment.OldDefaults(), given...))
	}
	given, err := f.given(c, words, flags)
	if err != nil {
		return nil, err
	}
	spec, err := experiment.Resolve(given)
	if err != nil || !f.asPrinted {
		return spec, err
	}
	return spec.AsPrinted()
}

// given lists the settings of the user.
func (f *runFlags) given(c *cobra.Command, words []string, flags func() []experiment.Setting) ([]experiment.Setting,
	error,
) {
	given, err := collectSettings(c, words, flags)
	if err == nil && f.noPreset {
		given = append(given, noPreset)
	}
	return given, err
}

// errResumeAlone is the error for --resume with other settings.
func errResumeAlone(command, dir string) error {
	return input(fmt.Errorf("--resume %s: the folder holds the settings; no others can be given", dir),
		"tacit "+command+" --resume "+dir)
}

// checkJobs checks -j.
func checkJobs(n int) error {
	if n < 1 {
		return input(fmt.Errorf("-j %d: must be 1 or more", n), "")
	}
	return nil
}

func (a *app) job(spec *experiment.Spec, f *runFlags) (*experiment.Job, error) {
	if err := checkJobs(f.jobs); err != nil {
		return nil, err
	}
	model, ok := map[string]experiment.Model{
		"": experiment.ModelAuto, "auto": experiment.ModelAuto, "always": experiment.ModelAlways,
		"never": experiment.ModelNever,
	}[f.keepModel]
	if !ok {
		return nil, input(fmt.Errorf("--keep-model %s: must be auto, always or never", f.keepModel), "")
	}
	src, err := experiment.OpenData(&spec.Settings, f.dataDir)
	if err != nil {
		return nil, err
	}
	spec.FitTo(src)
	j := &experiment.Job{
		Spec: spec, Source: src, Jobs: f.jobs, Out: f.out, Force: f.force, NoReferences: f.noRefs,
		Figures: !f.noFigures, Model: model,
		Version: version, Commit: revision(),
	}
	if f.resume != "" {
		j.Out, j.Resume = f.resume, true
	}
	j.OnEvent = a.runProgress(spec.Rounds)
	return j, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (a *app) runJob(c *cobra.Command, job *experiment.Job, at ...int) error {
	var data any
	var text func(io.Writer) error
	if job.Seeds > 1 {
		many, err := job.RunSeeds(c.Context())
		if err != nil {
			return err
		}
		data, text = many, func(w io.Writer) error { return report.SeedsText(w, many, at...) }
	} else {
		res, err := job.Run(c.Context())
		if err != nil {
			return err
		}
		data, text = res, func(w io.Writer) error { return report.Text(w, res, at...) }
	}
	if err := a.result(data, text); err != nil {
		return err
	}
	if job.Out != "" {
		a.progress("wrote the run to %s; tacit recommend --run %s --user U uses its model", job.Out, job.Out)
	}
	if page := filepath.Join(job.Out, experiment.ReportFile); exists(page) {
		a.progress("open the report: %s", page)
	}
	return nil
}
