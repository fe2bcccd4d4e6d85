package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/tune"
)

const tuneLong = `
Only validation decides; test metrics are neither computed nor printed. By default the search covers
every parameter that has a range (tacit methods NAME shows them) and that you do not set. A word
changes that: lr=0.01..1,log searches a range, dim='16|32|64' a list, epochs=1 fixes a value.`

const tuneDetails = `
A setting of the run is searched only if you name it: the word batch searches its own range. Trial 0
is the settings without a search, from the preset or the defaults. With --search halving, all trials
start with a few rounds and the best third of them continues; --rounds is the length of the last
ones. --seeds N repeats the best three and trial 0 with N seeds, and the mean decides.

The folder holds trials.jsonl (a line per trial, written when it ends), tune.toml (the search),
preset.toml (the best settings, for tacit run) and tables. After Ctrl-C or a crash, --resume DIR
continues and reaches the same answer.`

const tuneExample = `  tacit tune -m fedmf -d world -o runs/tune
  tacit tune -m fedmf -d ml-100k lr=0.01..1,log dim='16|32|64' epochs=1 --trials 60 -o runs/tune
  tacit tune --resume runs/tune
  tacit run runs/tune/preset.toml               # measure the best settings
  tacit tune save runs/tune                     # make them your preset`

func (a *app) tuneCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "tune [TUNE.toml] [key | key=value | key=range ...]",
		Short: "Search a method's parameters, on validation only",
		Long:  tuneLong, Example: tuneExample, Args: cobra.ArbitraryArgs,
	}
	fl := c.Flags()
	ofRun := settingFlags(fl)
	ofSearch := paramFlags(fl, &tune.Options{})
	flags := func() []experiment.Setting { return append(ofRun(), ofSearch()...) }
	fl.StringVarP(&f.out, "out", "o", "", "write the search to this folder")
	fl.StringVar(&f.resume, "resume", "", "resume the search in this folder")
	fl.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "trials at a time; the answer does not depend on it")
	fl.BoolVar(&f.force, "force", false, "replace the search in the -o folder")
	fl.BoolVar(&f.noPreset, "no-preset", false, "start from the defaults, like --preset none")
	dataDirFlag(fl, &f.dataDir)
	a.describe(c, tuneDetails,
		flagsUnder("Search", "trials search objective metric jobs", ""),
		flagsUnder("Run", "method data rounds", "protocol seed seeds preset no-preset cohort batch negatives mean "+
			"server dropout straggle sums bits encode keep eval-every eval-users ties dp secagg noise"),
		flagsUnder("Data", "", "data-dir columns min-rows world sep header time-format threshold dedup k-core "+
			"time-cut test-file valid-file test-rows time-ties new-users"),
		flagsUnder("Output", "out resume", "force"))
	c.RunE = func(c *cobra.Command, words []string) error {
		s, err := a.search(&f, words, flags)
		if err != nil {
			return err
		}
		res, err := s.Run(c.Context())
		if err != nil {
			return err
		}
		return a.printTuned(s, res)
	}
	c.AddCommand(a.tuneSaveCmd())
	return c
}

// search makes a search from the command line.
func (a *app) search(f *runFlags, words []string, flags func() []experiment.Setting) (*tune.Search, error) {
	if err := checkJobs(f.jobs); err != nil {
		return nil, err
	}
	given, err := tuneSettings(f, words, flags)
	if err != nil {
		return nil, err
	}
	s, err := tune.New(given)
	if err != nil {
		return nil, err
	}
	if s.Source, err = experiment.OpenData(&s.Base.Settings, f.dataDir); err != nil {
		return nil, err
	}
	s.Base.FitTo(s.Source)
	s.Jobs, s.Out, s.Force = f.jobs, f.out, f.force
	s.Version, s.Commit = version, revision()
	if f.resume != "" {
		s.Out, s.Resume = f.resume, true
	}
	if s.Out == "" {
		return nil, input(errors.New("-o is missing: a search logs its trials in a folder"), "add -o DIR")
	}
	s.OnProgress = a.tuneProgress(s)
	return s, nil
}

// tuneSettings lists settings from the file, the environment, words and flags, in increasing precedence.
func tuneSettings(f *runFlags, words []string, flags func() []experiment.Setting) ([]experiment.Setting, error) {
	file := ""
	if len(words) > 0 && strings.HasSuffix(words[0], ".toml") {
		file, words = words[0], words[1:]
	}
	if f.resume != "" {
		if file != "" || len(words) > 0 || len(flags()) > 0 || f.out != "" || f.noPreset || f.force {
			return nil, errResumeAlone("tune", f.resume)
		}
		given, err := tune.ReadFile(filepath.Join(f.resume, tune.ConfigFile))
		if err != nil {
			return nil, input(fmt.Errorf("no search to resume in %s: %w", f.resume, err),
				nearestFolder(f.resume, searchMarks, "tacit tune -o DIR starts a search"))
		}
		return given, nil
	}
	var all []experiment.Setting
	if file != "" {
		s, err := tune.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	all = append(all, experiment.Environment(os.Environ())...)
	s, err := tune.Words(words)
	if err != nil {
		return nil, err
	}
	all = append(append(all, s...), flags()...)
	if f.noPreset {
		all = append(all, noPreset)
	}
	return all, nil
}

// tuneProgress prints what is searched, and returns a function that shows the progress.
func (a *app) tuneProgress(s *tune.Search) func(tune.Progress) {
	if a.quiet {
		return nil
	}
	l := a.progressLine(0)
	preset := "the defaults"
	if s.Base.Preset != nil {
		preset = "preset " + s.Base.Preset.Name()
	}
	fmt.Fprintf(a.err, "search    %s on %s, protocol %s: %s, by validation %s %s; test metrics are not computed\n",
		s.Base.Method, s.Source.Info().Name, s.Base.Protocol, s.Search, s.Metric, s.Objective)
	for i, x := range s.Axes {
		fmt.Fprintf(a.err, "%-9s %s = %s\n", []string{"space", ""}[min(i, 1)], x.Key, x.Range)
	}
	fmt.Fprintf(a.err, "trial 0   %s, with your settings\n", preset)
	return func(p tune.Progress) {
		isLast := p.Done == p.Of
		if l.due(isLast) {
			l.show(tuneLine(p, time.Since(l.begin)))
		}
		if isLast {
			l.flush()
		}
	}
}

func tuneLine(p tune.Progress, took time.Duration) string {
	best := "none yet"
	if p.Best != nil {
		best = fmt.Sprintf("%s (trial %d)", points(*p.Best.Value), p.Best.Trial)
	}
	left := time.Duration(0)
	if run := p.Rounds - p.Replayed; run > 0 {
		left = time.Duration(float64(took) / float64(run) * float64(p.All-p.Rounds))
	}
	return fmt.Sprintf("rung %d/%d  trial %d/%d  best %s  round %d/%d  ETA %s", p.Rung, p.Rungs, p.Done, p.Of, best,
		p.Rounds, p.All, clock(left))
}

// printTuned prints the result of a search.
func (a *app) printTuned(s *tune.Search, res *tune.Result) error {
	err := a.result(res, func(w io.Writer) error {
		for i, t := range res.Tables() {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := t.Text(w); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !a.quiet {
		fmt.Fprintf(a.err, "\nbest settings: %s\nmeasure them:  tacit run %s\nkeep them:     tacit tune save %s\n",
			res.Preset, res.Preset, s.Out)
	}
	return err
}

func (a *app) tuneSaveCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "save DIR|PRESET.toml", Short: "Make the best settings of a search your preset", Args: exactArgs(1),
		Long: `Your presets are in the folder $TACIT_PRESETS, or in tacit/presets of your settings folder. tacit run
uses the preset for the same method, data set and protocol, and prints its name.`,
		Example: "  tacit tune save runs/tune",
		RunE: func(_ *cobra.Command, words []string) error {
			file := words[0]
			if filepath.Ext(file) != ".toml" {
				file = filepath.Join(file, tune.PresetFile)
			}
			var p experiment.Preset
			if err := p.ReadFile(file); err != nil {
				return input(err, nearestFolder(words[0], searchMarks,
					"tacit tune -o DIR leaves a preset.toml in its folder"))
			}
			where, err := p.Install()
			if err != nil {
				return err
			}
			data := map[string]string{"preset": p.Name(), "file": where, "found": p.Found}
			return a.result(data, func(w io.Writer) error {
				protocol := ""
				if p.Protocol != "" {
					protocol = " --protocol " + p.Protocol
				}
				_, err := fmt.Fprintf(w, "saved preset %s to %s\ntacit run -m %s -d %s%s uses it from now on\n",
					p.Name(), where, p.Method,
					p.Data, protocol)
				return err
			})
		},
	}
	return c
}
