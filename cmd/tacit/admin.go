package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

func (a *app) adminCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "admin", Short: "Operate a coordinator",
		Long: `On the coordinator's machine these commands find it through its state folder. From other machines,
add --coordinator, --pin and --token; the operator's token is in local.json of the state folder.`,
		Example: "  tacit admin status\n  tacit admin token --uses 100 --hours 24\n  tacit admin rollback 7",
	}
	return group(c, a.adminStatus(), a.adminBegin(), a.adminToken(), a.adminPause(true), a.adminPause(false),
		a.adminHistory(), a.adminRollback(), a.adminRevoke(), a.adminItems(), a.adminExport())
}

// adminCommand makes a command that calls the admin API.
func (a *app) adminCommand(use, short, example string, check cobra.PositionalArgs,
	do func(ctx context.Context, admin *coordinator.AdminClient, words []string) error,
) *cobra.Command {
	var r connectFlags
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: check}
	r.flags(c, "the operator's token, instead of the one in the state folder")
	a.describe(c, "", connectGroup)
	c.RunE = func(c *cobra.Command, words []string) error {
		admin, err := r.admin()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
		defer cancel()
		return networkError(do(ctx, admin, words))
	}
	return c
}

func (r *connectFlags) admin() (*coordinator.AdminClient, error) {
	w, err := r.find(true)
	if err != nil {
		return nil, err
	}
	admin, err := coordinator.DialAdmin(r.options(w))
	if err != nil {
		return nil, input(err, "")
	}
	return admin, nil
}

func (a *app) adminStatus() *cobra.Command {
	return a.adminCommand("status", "Show the state of a coordinator", "  tacit admin status --format json", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			r, err := admin.Status(ctx)
			if err != nil {
				return err
			}
			return a.status(r)
		})
}

// changed prints what a command changed; as JSON, the state of the coordinator afterwards.
func (a *app) changed(s *coordinator.Status, text func(*coordinator.Status) string) error {
	return a.resultLine(s, "%s", text(s))
}

// status prints the state of a coordinator.
func (a *app) status(s *coordinator.Status) error {
	return a.result(s, func(out io.Writer) error {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		line := func(k, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
		line("state", "%s", s.Message)
		if s.Method != "" {
			line("run", "%s (%s), round %d of %d, model version %d", s.Name, s.Method, s.Round, s.Rounds, s.Version)
			line("devices", "%s", enrolment(s))
			if p := evaluationProgress(s); p != "" {
				line("now", "%s", p)
			} else if s.Expected > 0 {
				line("round", "%d of %d reports", s.Counted, s.Expected)
			}
			line("catalogue", "%d items, version %d", s.Items, s.Catalogue)
			line("privacy", "%s", s.Policy)
			if s.Epsilon != nil {
				line("spent", "epsilon %.4g; protects from %s", *s.Epsilon, s.Guarantee)
			}
		}
		if s.Lost > 0 {
			line("LOST", "%d acknowledged reports are in no sum, because the state was damaged", s.Lost)
		}
		var keys []string
		for k := range s.Counts {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			line(strings.ReplaceAll(k, "_", " "), "%d", s.Counts[k])
		}
		for i := range s.Evaluations {
			line(fmt.Sprintf("evaluation %d", s.Evaluations[i].Round), "%s", evaluationText(&s.Evaluations[i]))
		}
		if s.EvaluationMissed != "" {
			line("no evaluation", "%s", s.EvaluationMissed)
		}
		return w.Flush()
	})
}

func (a *app) adminBegin() *cobra.Command {
	var f serveFlags
	var r connectFlags
	c := &cobra.Command{
		Use: "begin [key=value ...]", Short: "Start a run on a coordinator that has none",
		Long: `A run needs items, from a data set or a CSV file, and a number of devices; it starts when all have
enrolled. The coordinator takes the items of a data set only, and nothing about its users.`,
		Example: "  tacit admin begin -d ml-100k -m tacit\n  tacit admin begin --catalogue items.csv --devices 1000 " +
			"-m fedmf rounds=50",
	}
	settings := networkSettingFlags(c.Flags())
	hide(c.Flags(), "protocol")
	r.flags(c, "the operator's token, instead of the one in the state folder")
	c.Flags().StringVar(&f.catalogue, "catalogue", "", "items of the run: a CSV file with the columns id, title and "+
		"features")
	dataDirFlag(c.Flags(), &f.dataDir)
	c.Flags().StringVar(&f.name, "name", "", "name of the federation, for people")
	f.runFlags(c)
	a.describe(c, "",
		flagsUnder("Run", "data catalogue method rounds devices cohort deadline",
			"name goal min-share user-column row-column deterministic preset batch negatives mean server keep "+
				"bits seed"),
		flagsUnder("Data", "", "data-dir columns min-rows world sep header threshold dedup"),
		flagsUnder("Privacy", "dp secagg eval-every", "group-size"),
		connectGroup)
	c.RunE = func(c *cobra.Command, words []string) error {
		spec, err := networkSpec(c, words, settings, &f)
		if err != nil {
			return err
		}
		resp, err := a.begin(c.Context(), &r, spec, &f)
		if err != nil {
			return err
		}
		return a.changed(resp, func(s *coordinator.Status) string {
			return fmt.Sprintf("started the run %s: it begins when %d devices have enrolled", s.Name, s.Devices)
		})
	}
	return c
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

func (a *app) adminToken() *cobra.Command {
	var uses, hours uint32
	var note string
	c := a.adminCommand("token", "Create a token that lets devices enrol", "  tacit admin token --uses 100 --hours 24",
		noArgs, func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			token, err := admin.MakeToken(ctx, int(uses), int(hours), note)
			if err != nil {
				return err
			}
			a.progress("%s can enrol with this token within %s:", count(uses, "device"), count(hours, "hour"))
			return a.resultLine(map[string]any{"token": token, "uses": uses, "hours": hours}, "%s", token)
		})
	c.Flags().Uint32Var(&uses, "uses", 1, "devices that can enrol with the token")
	c.Flags().Uint32Var(&hours, "hours", 24, "hours until it expires")
	c.Flags().StringVar(&note, "note", "", "what the token is for")
	a.describe(c, "", flagsUnder("Token", "uses hours note", ""), connectGroup)
	return c
}

func (a *app) adminPause(pause bool) *cobra.Command {
	use, short := "pause", "Pause training after the round in progress"
	done := "paused: the round in progress ends with the devices that report in time, and no other starts"
	if !pause {
		use, short, done = "resume", "Resume training after a pause", "resumed: the next round starts"
	}
	return a.adminCommand(use, short, "", noArgs, func(ctx context.Context, admin *coordinator.AdminClient,
		_ []string,
	) error {
		r, err := admin.Pause(ctx, pause)
		if err != nil {
			return err
		}
		return a.changed(r, func(*coordinator.Status) string { return done })
	})
}

func (a *app) adminHistory() *cobra.Command {
	return a.adminCommand("history", "List the model versions that tacit admin rollback can restore", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			rows, err := admin.History(ctx)
			if err != nil {
				return err
			}
			return a.result(rows, func(out io.Writer) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "version\trounds\tcreated\t")
				for _, x := range rows {
					note := ""
					if x.RolledBack {
						note = "rolled back"
					}
					created := x.Created.Local().Format(time.DateTime)
					fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", x.Version, x.Round, created, note)
				}
				return w.Flush()
			})
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
			r, err := admin.Rollback(ctx, v)
			if err != nil {
				return err
			}
			return a.changed(r, func(*coordinator.Status) string {
				return fmt.Sprintf("rolling back to version %d, which the next round starts from", v)
			})
		})
}

func (a *app) adminRevoke() *cobra.Command {
	return a.adminCommand("revoke DEVICE", "Revoke a device: the coordinator refuses its key from now on",
		"  tacit admin revoke 7      # the device ID that tacit device log shows",
		checkNumber("tacit device log shows the ID of a device"),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			n, err := strconv.ParseUint(words[0], 10, 32)
			if err != nil {
				return err
			}
			id := uint32(n)
			r, err := admin.Revoke(ctx, id)
			if err != nil {
				return err
			}
			return a.changed(r, func(*coordinator.Status) string {
				return fmt.Sprintf("revoked device %d: the coordinator refuses its calls from now on", id)
			})
		})
}

func (a *app) adminExport() *cobra.Command {
	var version uint64
	var format, out string
	c := a.adminCommand("export", "Write the tables and the catalogue of a model to a zip file",
		"  tacit admin export -o model.zip --as csv", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
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
