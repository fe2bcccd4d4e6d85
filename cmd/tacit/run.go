package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// runFlags are the flags of a run that are no settings.
type runFlags struct {
	out, dataDir, resume string
	jobs                 int
	force, noRefs        bool
	noFigures            bool
	noPreset             bool
	printed              bool
	explain, dryRun      bool
}

const runLong = `Run one experiment: a method on a data set under a protocol. Without -m the method is tacit.

Settings are flags, key=value words, TACIT_... variables or keys of a TOML file;
flags win over the environment, the environment over the file, the file over the
preset of method, data and protocol: yours, which tacit tune save leaves in
$TACIT_PRESETS or in your settings folder, else the built-in one. --explain tells them
apart. Parameters of the method are given as key=value. Without a preset, methods with a grid of
their own (tacit, ials) try it on validation items first and take the best; --no-preset does not.

Protocols, which say what a device draws as negatives:
%s
With --dp a run promises user-level differential privacy, such as --dp epsilon=8,clip=0.5: tacit
privacy keys lists what it may say, tacit privacy plan says what it would cost.

Result on standard output, progress on standard error. With -o DIR the run leaves a
folder with its settings, metrics per round, result, ranks per user, figures and a
report; --no-figures saves the seconds that maps, spectra and the loss landscape take.
Ctrl-C once finishes the round, saves and exits with 130; --resume DIR goes on with
the same bits.`

const runExample = `  tacit run
  tacit run -d ml-100k
  tacit run -m pfedrec -d world
  tacit run -m pfedrec -d ml-100k --protocol paper --seeds 5 -o runs/pfedrec
  tacit run -m pfedrec -d ml-100k infer=global lr=0.05 rounds=50
  tacit run -m fedmf -d ratings.csv --columns user,item,rating,time --min-rows 5
  tacit run -m fedmf -d ml-100k --dp epsilon=8,delta=1e-6,clip=0.5 --cohort poisson:0.1
  tacit run runs/pfedrec/config.toml
  tacit run --resume runs/pfedrec`

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	var about strings.Builder
	for _, p := range data.Protocols() {
		fmt.Fprintf(&about, "  %-9s %s\n", p.Name, p.About)
	}
	c := &cobra.Command{
		Use: "run [CONFIG.toml] [key=value ...]", Short: "Run one experiment",
		Long: fmt.Sprintf(runLong, about.String()), Example: runExample,
	}
	settings := settingFlags(c.Flags())
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "the run folder")
	fl.StringVar(&f.dataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	fl.StringVar(&f.resume, "resume", "", "go on with the run in this folder")
	fl.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "goroutines that visit devices; the result is the same for "+
		"any number")
	fl.BoolVar(&f.force, "force", false, "replace a run that the folder holds")
	fl.BoolVar(&f.noRefs, "no-references", false, "leave the reference rows out")
	fl.BoolVar(&f.noFigures, "no-figures", false, "do not compute what the report's figures need: maps, spectra, "+
		"landscape; seconds, and no part of the run's time")
	fl.BoolVar(&f.noPreset, "no-preset", false, "start from the defaults: the same as --preset none")
	fl.BoolVar(&f.printed, "as-printed", false, "the noise of DP-PrivRec as its paper prints it, slips included; "+
		"see tacit methods dp-privrec")
	fl.BoolVar(&f.explain, "explain", false, "print where each setting comes from, and stop")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the card, and stop")
	c.RunE = func(c *cobra.Command, words []string) error {
		given, err := f.given(words, settings)
		if err != nil {
			return err
		}
		spec, err := experiment.Resolve(given)
		if err != nil {
			return err
		}
		if f.printed {
			if spec, err = spec.AsPrinted(); err != nil {
				return err
			}
		}
		if f.explain {
			return a.explain(spec)
		}
		job, err := a.job(spec, &f)
		if err != nil {
			return err
		}
		if f.dryRun {
			return a.dryRun(job)
		}
		if err := job.Choose(c.Context()); err != nil {
			return err
		}
		return a.runJob(c, job)
	}
	return c
}

// settingFlags makes a flag of each setting, and returns those that were given.
func settingFlags(fs *pflag.FlagSet) func() []experiment.Setting {
	var s experiment.Settings
	short := map[string]string{"method": "m", "data": "d"}
	values := map[string]*string{}
	for _, f := range param.Fields(&s) {
		doc := f.Doc
		if len(f.Choices) > 0 {
			doc += " (" + strings.Join(f.Choices, ", ") + ")"
		}
		values[f.Key] = fs.StringP(f.Key, short[f.Key], f.Default, doc)
	}
	return func() []experiment.Setting {
		var out []experiment.Setting
		fs.Visit(func(f *pflag.Flag) {
			if v, ok := values[f.Name]; ok {
				out = append(out, experiment.Setting{Key: f.Name, Value: *v, From: "flag --" + f.Name})
			}
		})
		return out
	}
}

// given puts file, environment, words and flags in the order of precedence.
func (f *runFlags) given(words []string, flags func() []experiment.Setting) ([]experiment.Setting, error) {
	var all []experiment.Setting
	file := ""
	if len(words) > 0 && strings.HasSuffix(words[0], ".toml") {
		file, words = words[0], words[1:]
	}
	if f.resume != "" {
		if file != "" || len(words) > 0 || len(flags()) > 0 || f.out != "" || f.noPreset || f.printed {
			return nil, input(fmt.Errorf("--resume goes on with the settings of the folder and takes no others"),
				"tacit run --resume "+f.resume)
		}
		file = filepath.Join(f.resume, experiment.ConfigFile)
	}
	if file != "" {
		s, err := experiment.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
		if f.resume != "" {
			all = append(experiment.Before(), all...)
		}
	}
	if f.resume == "" {
		all = append(all, experiment.Environment(os.Environ())...)
	}
	if err := meant(words); err != nil {
		return nil, err
	}
	s, err := experiment.Assignments(words, "command line")
	if err != nil {
		return nil, err
	}
	all = append(append(all, s...), flags()...)
	if f.noPreset {
		all = append(all, experiment.Setting{Key: "preset", Value: "none", From: "flag --no-preset"})
	}
	return all, nil
}

// meant recognises a method or a data set that was given without its flag.
func meant(words []string) error {
	for _, w := range words {
		if _, err := methods.Default().Lookup(w); err == nil {
			return input(fmt.Errorf("%q is a method, and stands without its flag", w), "did you mean: tacit run -m "+w)
		}
		for _, k := range data.KnownSets() {
			if k.Name == w {
				return input(fmt.Errorf("%q is a data set, and stands without its flag", w),
					"did you mean: tacit run -d "+w)
			}
		}
	}
	return nil
}

func (a *app) job(spec *experiment.Spec, f *runFlags) (*experiment.Job, error) {
	if f.jobs < 1 {
		return nil, input(fmt.Errorf("-j %d: want 1 or more", f.jobs), "")
	}
	src, err := experiment.OpenData(&spec.Settings, f.dataDir)
	if err != nil {
		return nil, err
	}
	j := &experiment.Job{
		Spec: spec, Source: src, Jobs: f.jobs, Out: f.out, Force: f.force, NoRefs: f.noRefs, Figures: !f.noFigures,
		Version: version, Commit: revision(),
	}
	if f.resume != "" {
		j.Out, j.Resume = f.resume, true
	}
	j.Tell = a.teller(spec.Rounds)
	return j, nil
}

func (a *app) runJob(c *cobra.Command, job *experiment.Job) error {
	var data any
	var text func(io.Writer) error
	if job.Seeds > 1 {
		many, err := job.RunSeeds(c.Context())
		if err != nil {
			return err
		}
		data, text = many, func(w io.Writer) error { return report.TextMany(w, many) }
	} else {
		res, err := job.Run(c.Context())
		if err != nil {
			return err
		}
		data, text = res, func(w io.Writer) error { return report.Text(w, res) }
	}
	if err := a.result(data, text); err != nil {
		return err
	}
	if job.Out != "" && !a.quiet {
		fmt.Fprintf(a.err, "run folder: %s\n", job.Out)
	}
	return nil
}

// explain prints every setting with its origin.
func (a *app) explain(s *experiment.Spec) error {
	t := report.Table{Title: "settings", Header: []string{"key", "value", "from"}}
	rows := map[string]map[string]any{}
	for _, target := range []any{&s.Settings, s.Params} {
		values := param.Values(target)
		for _, f := range param.Fields(target) {
			from := s.From[f.Key]
			if from == "" {
				from = "default"
			}
			rows[f.Key] = map[string]any{"value": values[f.Key], "from": from}
			t.Rows = append(t.Rows, []any{f.Key, fmt.Sprint(values[f.Key]), from})
		}
	}
	return a.result(rows, t.Text)
}
