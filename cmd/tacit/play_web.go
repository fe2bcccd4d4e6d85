package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/play"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// playItems is the number of items of the federation's catalogue. A small one is learnt in few rounds.
const playItems = 200

// playMethod are the settings of the federation. They were chosen on validation items, for a curve that rises over
// several rounds: with longer steps two rounds reach the end of it.
const playMethod = "method=ials dim=8 a0=0.5 step=0.3 momentum=0 secagg=on"

// playGroup is the number of devices per masked sum: the work of a device grows with it, and a group must begin with
// 14.
const playGroup = 16

func (f *playFlags) check() error {
	switch {
	case f.devices < 30 || f.devices > 600:
		return input(fmt.Errorf("--devices %d: must be 30 to 600", f.devices), "example: --devices 120")
	case f.rounds < 1 || f.rounds > 1000:
		return input(fmt.Errorf("--rounds %d: must be 1 to 1000", f.rounds), "example: --rounds 14")
	case f.report == "":
		return input(errors.New("--out is empty: must be the file of the report"), "example: --out tacit-play.html")
	}
	if dir := filepath.Dir(f.report); !exists(dir) {
		return input(fmt.Errorf("--out %s: the folder %s does not exist", f.report, dir), "create it first")
	}
	return nil
}

// world is the data set of the federation and of the runs that measure the leak.
func (f *playFlags) world() string {
	return fmt.Sprintf("world=users=%d,items=%d", f.devices, playItems)
}

// playPages runs a federation with its pages until its rounds are done or, with --stay, until somebody stops it.
func (a *app) playPages(ctx context.Context, f *playFlags) error {
	pages, err := f.pages()
	if err != nil {
		return err
	}
	leak, err := a.measureLeak(ctx, f)
	if err != nil {
		return err
	}
	if a.format == "text" && !a.quiet {
		fmt.Fprintln(a.out, strings.Join(pointLines(leak), "\n"))
	}
	cfg, err := f.federation()
	if err != nil {
		return err
	}
	if cfg.Dir, err = os.MkdirTemp("", "tacit-play-"); err != nil {
		return failed(err, "set TMPDIR to a folder that can be written")
	}
	defer a.cleanups.add(func() { _ = os.RemoveAll(cfg.Dir) })()
	cfg.Workers, cfg.Pages, cfg.Event = max(1, f.jobs), pages, a.roundEnded
	cfg.Intro = func(device string) *coordinator.DashboardIntro { return playIntro(leak, device) }
	fed, err := play.Start(cfg)
	if err != nil {
		return err
	}
	defer fed.Close()
	a.writePlaying(fed, f)
	if err := fed.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if f.stay && ctx.Err() == nil {
		a.progress("all rounds are done; the pages stay until you press Ctrl-C")
		again := func(run int) { a.progress("a browser takes part: run %d begins, from the newest model", run) }
		if err := fed.Stay(ctx, again); err != nil {
			return err
		}
	}
	r := fed.Report()
	r.Leak = leak
	for _, line := range playNext {
		r.Next = append(r.Next, calledAs()+line)
	}
	fed.Close()
	if err := atomicfile.WriteTo(f.report, r.WriteHTML); err != nil {
		return failed(fmt.Errorf("cannot write the report: %w", err), "choose another file with --out")
	}
	return a.result(map[string]any{"federation": r, "report": f.report},
		func(w io.Writer) error { return writePlayed(w, r, f.report) })
}

// pages returns the folder of the device page; empty if it was not built.
func (f *playFlags) pages() (string, error) {
	if f.web != "" {
		if _, err := os.Stat(f.web); err != nil {
			return "", input(fmt.Errorf("--web: %w", err), "run make web in the source of tacit; it builds web/dist")
		}
		return f.web, nil
	}
	program, err := os.Executable()
	if err != nil {
		return "", nil // the page is an extra
	}
	dir := filepath.Join(filepath.Dir(program), "web", "dist")
	if _, err := os.Stat(filepath.Join(dir, "device", "tacit.wasm")); err != nil {
		return "", nil
	}
	return dir, nil
}

// federation returns the settings of the federation.
func (f *playFlags) federation() (cfg play.Config, err error) {
	words := fmt.Sprintf("%s rounds=%d data=world preset=built-in %s", playMethod, f.rounds, f.world())
	given, err := experiment.Assignments(strings.Fields(words), "play")
	if err != nil {
		return cfg, err
	}
	spec, err := experiment.Resolve(given)
	if err != nil {
		return cfg, err
	}
	if cfg.Split, err = splitOf(spec, ""); err != nil {
		return cfg, err
	}
	spec.FitToDevices(f.devices)
	// A visitor may close the tab in the middle of a round: then a step lasts half a deadline. If nobody watches, the
	// deadline is long, for busy machines.
	serve := serveFlags{
		name: "tacit play", devices: f.devices, goal: 1, minShare: 0.5, deadline: time.Minute, runs: 1, evalEvery: 1,
		groupSize: playGroup,
	}
	if f.stay {
		serve.deadline = 12 * time.Second
	}
	cfg.Settings, cfg.Items = coordinatorSettings(spec, &serve), catalogueOf(cfg.Split.Source)
	return cfg, cfg.Settings.Check()
}

// measureLeak evaluates scorers under two protocols on the data of the federation.
func (a *app) measureLeak(ctx context.Context, f *playFlags) (*play.Leak, error) {
	quiet := a.quiet
	a.quiet = true // it takes a second
	defer func() { a.quiet = quiet }()
	leak := &play.Leak{Candidates: 100, Rows: []play.LeakRow{
		{Name: "scorer without a model"}, {Name: "PFedRec"}, {Name: "popularity"},
	}}
	for _, protocol := range []string{"paper", "deployed"} {
		r, err := a.playRun(ctx, "method=pfedrec rounds=30 protocol="+protocol+" "+f.world(), &f.runFlags,
			func(experiment.Event) {})
		if err != nil {
			return nil, err
		}
		all := []float64{0, r.Test.Sampled["hr@10"], 0}
		for i, name := range map[int]string{0: "memoriser", 2: "popularity"} {
			if ref := r.References[name]; ref != nil && ref.Test != nil {
				all[i] = ref.Test.Sampled["hr@10"]
			}
		}
		for i, x := range all {
			if protocol == "paper" {
				leak.Rows[i].Paper = x
			} else {
				leak.Rows[i].Honest = x
			}
		}
	}
	return leak, nil
}

// pointLines are the point of play in three lines.
func pointLines(leak *play.Leak) []string {
	scorer := leak.Rows[0]
	return []string{
		"A recommender is tested on an item that each user liked and that was held out of training.",
		fmt.Sprintf("The leak: many papers never draw that item as a negative; without a model, HR@10 is then %.2f.",
			scorer.Paper),
		fmt.Sprintf("Honest accuracy: devices do not know the answer; the same scorer reaches %.2f, which is chance.",
			scorer.Honest),
	}
}

// playIntro is the text above the dashboard.
func playIntro(leak *play.Leak, device string) *coordinator.DashboardIntro {
	return &coordinator.DashboardIntro{
		Title: "A federation learns on this machine",
		Lines: append(pointLines(leak),
			"The devices below evaluate honestly: each ranks its held-out film among all that it has not seen."),
		Facts: [][2]string{
			{fmt.Sprintf("%.2f", leak.Rows[0].Paper), "HR@10 of a scorer without a model, with the leak"},
			{fmt.Sprintf("%.2f", leak.Rows[0].Honest), "HR@10 of the same scorer, honestly"},
		},
		Note: "All devices but yours are simulated in one process. Masking hides a device among others, so it hides " +
			"nothing here. The films are synthetic.",
		Link: device, LinkText: "Take part with this browser",
	}
}

// writePlaying prints where the pages are, and opens the dashboard in a browser if somebody sits in front of one.
func (a *app) writePlaying(fed *play.Federation, f *playFlags) {
	if a.quiet || a.format != "text" {
		a.progress("dashboard    %s", fed.Dashboard())
		return
	}
	device := fed.DevicePage()
	if device == "" {
		device = "not built; run make web, then tacit play --web web/dist"
	}
	fmt.Fprintf(a.out, "\ndashboard    %s\ndevice page  %s\nreport       %s, written at the end (Ctrl-C)\n\n",
		fed.Dashboard(), device, f.report)
	if !f.noBrowser && terminalOf(a.out) != nil && hasDesktop(os.Getenv, runtime.GOOS) {
		openBrowser(fed.Dashboard())
	}
}

var playNext = []string{
	" run -d world -o runs/first  # the default; see runs/first/report.html",
	" serve                       # a coordinator for your own devices",
	" play --no-web               # the leak in tables: PFedRec with and without it",
}

// writePlayed prints a summary of the federation.
func writePlayed(w io.Writer, r *play.Report, file string) error {
	fmt.Fprintf(w, "\n%d of %s, %s", r.Round, format.Plural(r.Rounds, "round"),
		format.Plural(r.Devices, "simulated device"))
	if r.Others > 0 {
		fmt.Fprintf(w, ", %s", format.Plural(r.Others, "other device"))
	}
	fmt.Fprintf(w, ", %.1f MB of masked updates\n", float64(r.Received)/1e6)
	if e := r.Last(); e != nil {
		fmt.Fprintf(w, "evaluation after round %d: %s\n", e.Round, evaluationText(e))
	} else {
		fmt.Fprintln(w, "no evaluation was complete before the end")
	}
	fmt.Fprintf(w, "report: %s\n\nNext:\n", file)
	for _, line := range r.Next {
		fmt.Fprintf(w, "  %s\n", line)
	}
	return nil
}
