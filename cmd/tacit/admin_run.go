package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
)

func (a *app) adminBegin() *cobra.Command {
	var f serveFlags
	var r connectFlags
	c := &cobra.Command{
		Use: "begin [key=value ...]", Short: "Start a run: the first one, or another one for the same devices",
		Long: `The first run needs items, from a data set or a CSV file, and a number of devices; it starts when all
have enrolled. The coordinator takes the items of a data set only, and nothing about its users. A later
run starts from the last model. It keeps the items of the run before, and all settings that the command
does not name; --dp none ends the privacy guarantee.`,
		Example: `  tacit admin begin --catalogue items.csv --devices 1000 -m fedmf rounds=50
  tacit admin begin
  tacit admin begin --rounds 20`,
	}
	settings := networkSettingFlags(c.Flags())
	hide(c.Flags(), "protocol")
	c.Flags().Lookup("data").DefValue = ""
	r.flags(c, adminToken)
	c.Flags().StringVar(&f.catalogue, "catalogue", "", "items of the run: a CSV file with the columns id, title and "+
		"features")
	dataDirFlag(c.Flags(), &f.dataDir)
	c.Flags().StringVar(&f.name, "name", "", "name of the federation, for people")
	f.runFlags(c)
	a.describe(c, "",
		flagsUnder("Run", "data catalogue method rounds devices cohort deadline",
			"name goal min-share user-column row-column deterministic preset batch negatives mean server keep "+
				"bits seed"),
		flagsUnder("Data", "", "data-dir columns min-rows world sep header time-format threshold dedup k-core"),
		flagsUnder("Privacy", "dp secagg eval-every", "count-items group-size runs"),
		connectGroup)
	c.RunE = func(c *cobra.Command, words []string) error {
		admin, err := r.admin()
		if err != nil {
			return err
		}
		before, err := admin.Status(c.Context())
		if err != nil {
			return networkError(err)
		}
		if before.Method != "" {
			return a.beginNext(c, admin, before, words, settings, &f)
		}
		spec, err := networkSpec(c, words, settings, &f)
		if err != nil {
			return err
		}
		if !spec.Typed("data") && f.catalogue == "" {
			return input(errors.New("the first run needs items"), "add -d NAME or --catalogue FILE")
		}
		s, err := a.begin(c.Context(), &r, spec, &f)
		if err != nil {
			return err
		}
		return a.changed(s, "started run %d of %s: its rounds begin when %s or more are active", s.RunNumber, s.Name,
			format.Plural(s.Devices, "device"))
	}
	return c
}

// beginNext starts another run. It keeps the items of the run before, and the settings that the user does not name.
func (a *app) beginNext(c *cobra.Command, admin *coordinator.AdminClient, before *coordinator.Status, words []string,
	settings func() []experiment.Setting, f *serveFlags,
) error {
	spec, err := networkSpec(c, words, settings, f, experiment.Setting{
		Key: "method", Value: before.Method, From: "default",
	})
	if err != nil {
		return err
	}
	changes, err := changedSettings(c, spec, f)
	if err != nil {
		return err
	}
	var opt coordinator.Options
	var items []*pb.Item
	if spec.Typed("data") || f.catalogue != "" {
		if items, err = a.runItems(spec, f, &opt); err != nil {
			return err
		}
	}
	stop := a.sayLater("waiting for the coordinator to begin the run")
	s, err := admin.BeginNext(c.Context(), changes, items, opt.Features)
	stop()
	if err != nil {
		return networkError(err)
	}
	return a.changed(s, "started run %d of %s, from model version %d", s.RunNumber, s.Name, s.Version)
}

// begin starts a run on a coordinator.
func (a *app) begin(ctx context.Context, r *connectFlags, spec *experiment.Spec, f *serveFlags) (*coordinator.Status,
	error,
) {
	admin, err := r.admin()
	if err != nil {
		return nil, err
	}
	var opt coordinator.Options
	items, err := a.runItems(spec, f, &opt)
	if err != nil {
		return nil, err
	}
	settings, err := a.checkedSettings(spec, f, len(items), opt.Features)
	if err != nil {
		return nil, err
	}
	settings.Features = opt.Features
	resp, err := admin.Begin(ctx, settings, items)
	return resp, networkError(err)
}

func (a *app) adminEnd() *cobra.Command {
	return a.adminCommand("end", "End the run after the round in progress", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			s, err := admin.EndRun(ctx)
			if err == nil {
				s, err = a.settle(ctx, admin, s, func(s *coordinator.Status) bool { return s.State.Over() })
			}
			if err != nil {
				return err
			}
			if !s.State.Over() {
				return a.changed(s, "run %d ends after %s", s.RunNumber, inProgress(s))
			}
			return a.changed(s, "run %d ended after %s: %s", s.RunNumber, format.Plural(s.Round, "round"), s.Message)
		})
}

// working reports whether a round or an evaluation is in progress.
func working(s *coordinator.Status) bool {
	return s.State == coordinator.Training || s.State == coordinator.Evaluating
}

// stands reports whether nothing is trained until an operator does something.
func stands(s *coordinator.Status) bool { return s.State == coordinator.Paused || s.State.Over() }

// inProgress describes the round in progress, or the state without one.
func inProgress(s *coordinator.Status) string {
	if p := evaluationProgress(s); p != "" {
		return p
	}
	if !working(s) {
		return fmt.Sprintf("the state %s (%s)", s.State, s.Message)
	}
	text := fmt.Sprintf("round %d of %d, which is in progress", min(s.Round+1, s.Rounds), s.Rounds)
	if s.Expected > 0 { // otherwise the cohort is a secret sample
		text += fmt.Sprintf(" (%d of %d reports)", s.Counted, s.Expected)
	}
	return text
}

func (a *app) adminPause(pause bool) *cobra.Command {
	use, short := "pause", "Pause training: devices get no more tasks until tacit admin resume"
	if !pause {
		use, short = "resume", "Resume training after a pause"
	}
	return a.adminCommand(use, short, "", noArgs, func(ctx context.Context, admin *coordinator.AdminClient,
		_ []string,
	) error {
		s, err := admin.Pause(ctx, pause)
		if err == nil {
			s, err = a.settle(ctx, admin, s, func(s *coordinator.Status) bool {
				return s.Paused == pause && (pause && stands(s) || !pause && s.State != coordinator.Paused)
			})
		}
		switch {
		case err != nil:
			return err
		case pause && !stands(s):
			return a.changed(s, "pausing: training stops after %s", inProgress(s))
		case pause:
			return a.changed(s, "paused after round %d of %d, at model version %d", s.Round, s.Rounds, s.Version)
		}
		return a.changed(s, "resumed: %s", s.Message)
	})
}

func (a *app) adminRollback() *cobra.Command {
	return a.adminCommand("rollback VERSION", "Restore an older model version, from the next round on",
		"  tacit admin history\n  tacit admin rollback 7",
		checkNumber("tacit admin history lists the versions"),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			v, err := strconv.ParseUint(words[0], 10, 64)
			if err != nil {
				return err
			}
			s, err := admin.Rollback(ctx, v)
			if err == nil {
				s, err = a.settle(ctx, admin, s, func(s *coordinator.Status) bool { return s.RollbackTo != v })
			}
			if err != nil {
				return err
			}
			if s.RollbackTo == v {
				return a.changed(s, "version %d will be restored after %s", v, inProgress(s))
			}
			made, err := newest(ctx, admin, func(m *coordinator.ModelVersion) bool { return m.RolledBack })
			if err != nil || made == nil {
				return err
			}
			return a.changed(s, "restored version %d: model version %d, round %d of %d", v, made.Version, made.Round,
				s.Rounds)
		})
}

// newest is the newest model version with a property; nil if no version has it.
func newest(ctx context.Context, admin *coordinator.AdminClient, is func(*coordinator.ModelVersion) bool) (
	*coordinator.ModelVersion, error,
) {
	all, err := admin.History(ctx)
	for i := range slices.Backward(all) {
		if is(&all[i]) {
			return &all[i], err
		}
	}
	return nil, err
}

func (a *app) adminResetBudget() *cobra.Command {
	var reason string
	c := a.adminCommand("reset-budget", "Begin a new budget period: what was spent before no longer counts",
		"  tacit admin reset-budget --reason ticket-815", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return input(errors.New("--reason is missing"),
					"say why the same people may be asked for more; the ledger keeps the text for ever")
			}
			s, err := admin.ResetBudget(ctx, reason)
			if err != nil {
				return err
			}
			tells := uint64(0) // the first version of the period
			s, err = a.settle(ctx, admin, s, func(s *coordinator.Status) bool {
				tells = firstOfPeriod(ctx, admin, s.BudgetPeriod)
				return tells > 0
			})
			switch {
			case err != nil:
				return err
			case tells == 0:
				return a.changed(s, "budget period %d has begun; devices learn of it after %s. Spent: %s",
					s.BudgetPeriod, inProgress(s), spent(s))
			}
			return a.changed(s, "budget period %d has begun; model version %d tells the devices. Spent: %s",
				s.BudgetPeriod, tells, spent(s))
		})
	c.Long = `The policy's epsilon covers all runs since the last reset. A reset adds the same epsilon again for the
same people: it is recorded in the ledger with its reason, and every device logs it.`
	c.Flags().StringVar(&reason, "reason", "", "why, for the ledger")
	a.describe(c, "", flagsUnder("Budget", "reason", ""), connectGroup)
	return c
}

// firstOfPeriod is the first model version that tells devices of a budget period; 0 before it is published.
func firstOfPeriod(ctx context.Context, admin *coordinator.AdminClient, period int) uint64 {
	all, _ := admin.History(ctx) // the next call reports the error
	for i := range all {
		if m, err := all[i].Manifest(); err == nil && int(m.BudgetPeriod) >= period {
			return all[i].Version
		}
	}
	return 0
}

func spent(s *coordinator.Status) string {
	if s.Delta == nil {
		return "nothing: the run has no privacy guarantee"
	}
	return budgetText(&s.Budget)
}

func (a *app) adminRuns() *cobra.Command {
	return a.adminCommand("runs", "List the runs of the federation, at most the last 101", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			rows, err := admin.Runs(ctx)
			if err != nil {
				return err
			}
			return list(a, rows, "no runs yet", "run, method, rounds, begun, ended, state",
				func(x coordinator.RunInfo) []any {
					ended := "-"
					if x.Ended != nil {
						ended = moment(*x.Ended)
					}
					return []any{
						x.Number, x.Method, fmt.Sprintf("%d of %d", x.Round, x.Rounds), moment(x.Begun), ended, x.State,
					}
				})
		})
}

func (a *app) adminHistory() *cobra.Command {
	return a.adminCommand("history", "List the model versions that tacit admin rollback can restore", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			rows, err := admin.History(ctx)
			if err != nil {
				return err
			}
			return list(a, rows, "no model versions yet", "version, run, rounds, created, note",
				func(x coordinator.ModelVersion) []any {
					note := "-"
					if x.RolledBack {
						note = "rolled back"
					}
					return []any{x.Version, x.RunNumber, x.Round, moment(x.Created), note}
				})
		})
}

func (a *app) adminExport() *cobra.Command {
	var version uint64
	var format, out string
	c := a.adminCommand("export", "Write the tables and the catalogue of a model to a zip file",
		"  tacit admin export -o model.zip --as csv", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			if _, err := os.Stat(filepath.Dir(out)); err != nil {
				return input(fmt.Errorf("--out %s: folder %s not found", out, filepath.Dir(out)), "")
			}
			f, err := os.CreateTemp(filepath.Dir(out), ".export-*")
			if err != nil {
				return err
			}
			defer os.Remove(f.Name())
			n, err := admin.Export(ctx, version, format, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			if err := os.Rename(f.Name(), out); err != nil {
				return err
			}
			return a.resultLine(map[string]any{"file": out, "bytes": n}, "wrote %s (%s)", out, size(float64(n)))
		})
	c.Flags().Uint64Var(&version, "version", 0, "model version; 0 means the newest")
	c.Flags().StringVar(&format, "as", "npy", "format of the tables: npy or csv")
	c.Flags().StringVarP(&out, "out", "o", "model.zip", "write to this file")
	a.describe(c, "", flagsUnder("Export", "version as out", ""), connectGroup)
	return c
}
