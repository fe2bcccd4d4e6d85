package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// liveDays runs a federation for a number of days, with one run a day, while devices leave and join.
func (a *app) liveDays(ctx context.Context, spec *experiment.Spec, f *fleetFlags) error {
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tacit-days-")
	if err != nil {
		return err
	}
	defer a.cleanups.add(func() { os.RemoveAll(dir) })()
	y := fleet.Days{
		Days: f.days, Churn: f.churn, Dir: filepath.Join(dir, "state"), Split: split, Items: catalogueOf(split.Source),
		Seed: spec.Seed,
	}
	if isFeatured(spec.Params) {
		if y.Options.Features, err = split.Features(); err != nil {
			return err
		}
	}
	set := f.serve
	if set.devices = split.Users(); spec.DP.On() {
		set.runs = f.days
	}
	if y.Settings, err = a.checkedSettings(spec, &set, len(y.Items), y.Options.Features); err != nil {
		return err
	}
	if a.format != "json" && !a.quiet {
		y.Progress = func(day int, version uint64, left int) {
			if day%30 == 0 {
				fmt.Fprintf(a.err, "day %d: version %d, %s left\n", day, version, format.Plural(left, "device"))
			}
		}
	}
	t, err := y.Live(ctx)
	if err != nil {
		return err
	}
	if err := a.result(t, func(w io.Writer) error { return writeDays(w, t) }); err != nil {
		return err
	}
	if len(t.Wrong) > 0 || t.Runs != f.days {
		return errDays
	}
	return nil
}

var errDays = errors.New("the privacy budget of a device is wrong, or a run is missing")

func writeDays(w io.Writer, t *fleet.DaysResult) error {
	fmt.Fprintf(w, "%s, %s at any time, %d joined, %d left; %s, version %d, %s, %.1f s\n", format.Plural(t.Days, "day"),
		format.Plural(t.Devices, "device"), t.Joined, t.Left, format.Plural(t.Runs, "run"), t.Version,
		format.Plural(t.Reports, "report"), t.Seconds)
	if t.Epsilon != nil {
		fmt.Fprintf(w, "epsilon %s spent, at most %s by one device; of %d budgets, composed independently, %d differ\n",
			format.Epsilon(*t.Epsilon), format.Epsilon(*t.MaxEpsilon), t.Checked, len(t.Wrong))
	}
	for _, s := range t.Growth {
		fmt.Fprintf(w, "day %3d  folder %.2f MB  ledger %.2f MB  heap %.0f MB\n", s.Day, float64(s.Folder)/1e6,
			float64(s.Ledger)/1e6, float64(s.Heap)/1e6)
	}
	return nil
}
