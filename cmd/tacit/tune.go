package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/tune"
	"github.com/tacit-rec/tacit/param"
)

const tuneLong = `Search the parameters of a method on a data set. Only validation decides; no test
metric is looked at, printed or logged.

What is searched are the method's parameters that have a range (tacit methods NAME
shows them), but for those that are given. Words say otherwise, one each:
  lr=0.01..1,log    searched between two ends, here evenly in the logarithm
  dim='16|32|64'    searched among these (quoted for the shell)
  epochs=1          fixed
  batch             searched over its own range; options of the run have to be named
Trial 0 is the settings as they stand, from the preset or the defaults.

By halving, all trials start with a few rounds, and the best third goes on from where
it stood; --rounds is how far the last ones go. --seeds N repeats the best three and
trial 0 with N seeds, and the mean decides.

The folder holds trials.jsonl (a line for each trial and rung, written as it ends),
tune.toml (searches again as it is), preset.toml (the best setting: tacit run takes
it) and the tables. Ctrl-C or a kill loses at most the trials in progress; --resume
DIR goes on to the same answer. tacit tune save DIR makes it your preset, which tacit
run -m M -d D then uses under that protocol.`

const tuneExample = `  tacit tune -m fedmf -d world -o runs/tune
  tacit tune -m fedmf -d ml-100k lr=0.01..1,log eta=1..200,log dim='16|32|64' epochs=1 --trials 60 -o runs/tune
  tacit tune -m pfedrec -d ml-100k batch --search random --rounds 30 -o runs/random
  tacit tune --resume runs/tune
  tacit run runs/tune/preset.toml
  tacit tune save runs/tune`

func (a *app) tuneCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use: "tune [TUNE.toml] [key | key=value | key=range ...]", Short: "Search the parameters of a method, on " +
			"validation only",
		Long: tuneLong, Example: tuneExample, Args: cobra.ArbitraryArgs,
	}
	fl := c.Flags()
	run := settingFlags(fl)
	own := map[string]*string{}
	for _, p := range param.Fields(&tune.Options{}) {
		doc := p.Doc
		if len(p.Choices) > 0 {
			doc += " (" + strings.Join(p.Choices, ", ") + ")"
		}
		own[p.Key] = fl.String(p.Key, p.Default, doc)
	}
	flags := func() []experiment.Setting {
		out := run()
		for _, p := range param.Fields(&tune.Options{}) {
			if fl.Changed(p.Key) {
				out = append(out, experiment.Setting{Key: p.Key, Value: *own[p.Key], From: "flag --" + p.Key})
			}
		}
		return out
	}
	fl.StringVarP(&f.out, "out", "o", "", "the folder of the search")
	fl.StringVar(&f.dataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	fl.StringVar(&f.resume, "resume", "", "go on with the search in this folder")
	fl.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "trials that run at a time; the answer is the same for any "+
		"number")
	fl.BoolVar(&f.force, "force", false, "replace a search that the folder holds")
	fl.BoolVar(&f.noPreset, "no-preset", false, "start from the defaults: the same as --preset none")
	c.RunE = func(c *cobra.Command, words []string) error {
		s, err := a.search(&f, words, flags)
		if err != nil {
			return err
		}
		res, err := s.Run(c.Context())
		if err != nil {
			return err
		}
		return a.tuned(s, res)
	}
	c.AddCommand(a.tuneSaveCmd())
	return c
}

// search makes a search of what was given.
func (a *app) search(f *runFlags, words []string, flags func() []experiment.Setting) (*tune.Search, error) {
	if f.jobs < 1 {
		return nil, input(fmt.Errorf("-j %d: want 1 or more", f.jobs), "")
	}
	given, err := tuneGiven(f, words, flags)
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
	s.Jobs, s.Out, s.Force, s.Version, s.Commit = f.jobs, f.out, f.force, version, revision()
	if f.resume != "" {
		s.Out, s.Resume = f.resume, true
	}
	s.OnProgress = a.tuneTeller(s)
	return s, nil
}

// tuneGiven puts file, environment, words and flags in the order of precedence.
func tuneGiven(f *runFlags, words []string, flags func() []experiment.Setting) ([]experiment.Setting, error) {
	file := ""
	if len(words) > 0 && strings.HasSuffix(words[0], ".toml") {
		file, words = words[0], words[1:]
	}
	if f.resume != "" {
		if file != "" || len(words) > 0 || len(flags()) > 0 || f.out != "" || f.noPreset || f.force {
			return nil, input(fmt.Errorf("--resume goes on with the settings of the folder and takes no others"),
				"tacit tune --resume "+f.resume)
		}
		return tune.ReadFile(filepath.Join(f.resume, tune.ConfigFile))
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
		all = append(all, experiment.Setting{Key: "preset", Value: "none", From: "flag --no-preset"})
	}
	return all, nil
}

// tuneTeller prints what is searched, then one live line on a terminal, or a line
// now and then elsewhere.
func (a *app) tuneTeller(s *tune.Search) func(tune.Progress) {
	if a.quiet {
		return nil
	}
	l := &live{w: a.err, begin: time.Now()}
	if f, ok := a.err.(*os.File); ok {
		l.tty = term.IsTerminal(int(f.Fd()))
	}
	preset := "the defaults"
	if s.Base.Preset != nil {
		preset = "preset " + s.Base.Preset.Name()
	}
	fmt.Fprintf(a.err, "search    %s on %s, protocol %s: %s, by validation %s %s; no test metric is looked at\n",
		s.Base.Method, s.Source.Info().Name, s.Base.Protocol, s.Search, s.Metric, s.Objective)
	for i, x := range s.Axes {
		fmt.Fprintf(a.err, "%-9s %s = %s\n", []string{"space", ""}[min(i, 1)], x.Key, x.Range)
	}
	fmt.Fprintf(a.err, "trial 0   %s, with what was given\n", preset)
	return func(p tune.Progress) {
		every := 10 * time.Second
		if l.tty {
			every = 80 * time.Millisecond
		}
		end := p.Done == p.Of
		if now := time.Now(); now.Sub(l.last) >= every || end {
			l.last = now
			l.put(tuneLine(p, time.Since(l.begin)))
			if end {
				l.flush()
			}
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

// tuned prints what a search found.
func (a *app) tuned(s *tune.Search, res *tune.Result) error {
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
		fmt.Fprintf(a.err, "\nbest setting: %s\nmeasure it:   tacit run %s\nkeep it:      tacit tune save %s\n",
			res.Preset, res.Preset, s.Out)
	}
	return err
}

func (a *app) tuneSaveCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "save DIR|PRESET.toml", Short: "Make what a search found your preset", Args: args(cobra.ExactArgs(1)),
		Long: `Copy the preset of a search to your presets: the folder $TACIT_PRESETS, else
tacit/presets in your settings folder. tacit run -m M -d D then uses it under the
protocol that it was found under, and prints its name.`,
		RunE: func(_ *cobra.Command, words []string) error {
			file := words[0]
			if filepath.Ext(file) != ".toml" {
				file = filepath.Join(file, tune.PresetFile)
			}
			var p experiment.Preset
			if err := p.ReadFile(file); err != nil {
				return err
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
				_, err := fmt.Fprintf(w, "preset %s: %s\ntacit run -m %s -d %s%s uses it\n", p.Name(), where, p.Method,
					p.Data, protocol)
				return err
			})
		},
	}
	return c
}
