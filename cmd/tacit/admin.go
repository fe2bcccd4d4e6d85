package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/wire"
)

func (a *app) adminCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "admin", Short: "Operate a coordinator",
		Long: `Operate a coordinator: look at it, let devices in, pause it, add and retire items, go
back to an older model, take a model out. On the coordinator's machine it finds its
way by the state folder; from elsewhere give --coordinator, --pin and --token.`,
	}
	return group(c, a.adminStatus(), a.adminBegin(), a.adminToken(), a.adminPause(true), a.adminPause(false),
		a.adminHistory(), a.adminRollback(), a.adminRevoke(), a.adminItems(), a.adminExport())
}

// call makes a command that calls the operator's API.
func (a *app) call(use, short, example string, check cobra.PositionalArgs,
	do func(ctx context.Context, admin pbconnect.AdminClient, words []string) error,
) *cobra.Command {
	var r reach
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: check}
	r.flags(c, "the operator's token, which tacit serve keeps in its state folder")
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

func (r *reach) admin() (pbconnect.AdminClient, error) {
	w, err := r.find(true)
	if err != nil {
		return nil, err
	}
	admin, err := rpc.DialAdmin(r.options(w))
	if err != nil {
		return nil, input(err, "")
	}
	return admin, nil
}

func (a *app) adminStatus() *cobra.Command {
	return a.call("status", "How a coordinator is doing", "  tacit admin status --format json", noArgs,
		func(ctx context.Context, admin pbconnect.AdminClient, _ []string) error {
			r, err := admin.Status(ctx, &pb.StatusRequest{})
			if err != nil {
				return err
			}
			return a.status(r)
		})
}

// status prints one.
func (a *app) status(r *pb.StatusResponse) error {
	var s coordinator.Status
	if err := json.Unmarshal([]byte(r.Json), &s); err != nil {
		return err
	}
	return a.result(&s, func(out io.Writer) error {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		line := func(k, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
		line("state", "%s", s.State)
		if s.Method != "" {
			line("run", "%s (%s), round %d of %d, model %d", s.Name, s.Method, s.Round, s.Rounds, s.Version)
			line("devices", "%d enrolled, the run is for %d", s.Enrolled, s.Devices)
			if p := evaluating(&s); p == "" {
				line("round", "%d of %d reports", s.Counted, s.Asked)
			} else {
				line("now", "%s", p)
			}
			line("catalogue", "%d items, version %d", s.Items, s.Catalogue)
			line("privacy", "%s", s.Promise)
			if s.Epsilon != nil {
				line("spent", "epsilon %.4g, which holds against %s", *s.Epsilon, s.Holds)
			}
		}
		if s.Lost > 0 {
			line("LOST", "%d reports were acknowledged and are in no sum: the state was damaged", s.Lost)
		}
		var keys []string
		for k := range s.Counts {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			line(k, "%d", s.Counts[k])
		}
		for i := range s.Readouts {
			line(fmt.Sprintf("readout %d", s.Readouts[i].Round), "%s", readoutText(&s.Readouts[i]))
		}
		if s.Missed != "" {
			line("no readout", "%s", s.Missed)
		}
		return w.Flush()
	})
}

func (a *app) adminBegin() *cobra.Command {
	var f serveFlags
	var r reach
	c := &cobra.Command{
		Use: "begin [key=value ...]", Short: "Begin the run of a coordinator that waits for one",
		Example: "  tacit admin begin -d ml-100k -m tacit\n  tacit admin begin --catalogue items.csv --devices 1000 " +
			"-m fedmf rounds=50",
	}
	settings := settingFlags(c.Flags())
	r.flags(c, "the operator's token")
	c.Flags().StringVar(&f.catalogue, "catalogue", "", "the items: a CSV file of id and title")
	dataDirFlag(c.Flags(), &f.dataDir)
	c.Flags().StringVar(&f.name, "name", "", "what people call the federation")
	f.runFlags(c)
	c.RunE = func(c *cobra.Command, words []string) error {
		spec, err := networked(words, settings)
		if err != nil {
			return err
		}
		resp, err := a.begin(c.Context(), &r, spec, &f)
		if err != nil {
			return err
		}
		return a.status(resp)
	}
	return c
}

// begin begins a run on a coordinator.
func (a *app) begin(ctx context.Context, r *reach, spec *experiment.Spec, f *serveFlags) (*pb.StatusResponse, error) {
	admin, err := r.admin()
	if err != nil {
		return nil, err
	}
	var opt coordinator.Options
	items, err := a.stock(spec, f, &opt)
	if err != nil {
		return nil, err
	}
	settings, err := a.settled(spec, f, len(items), opt.Features)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	req := &pb.BeginRequest{Json: string(text), Items: items}
	if opt.Features != nil {
		req.Features = wire.EncodeFeatures(opt.Features)
	}
	resp, err := admin.Begin(ctx, req)
	return resp, networkError(err)
}

func (a *app) adminToken() *cobra.Command {
	var uses, hours uint32
	var note string
	c := a.call("token", "Make a token that lets devices enrol", "  tacit admin token --uses 100 --hours 24",
		noArgs, func(ctx context.Context, admin pbconnect.AdminClient, _ []string) error {
			r, err := admin.MakeToken(ctx, &pb.MakeTokenRequest{Uses: uses, Hours: hours, Note: note})
			if err != nil {
				return err
			}
			return a.result(map[string]any{"token": r.Token, "uses": uses, "hours": hours}, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, r.Token)
				return err
			})
		})
	c.Flags().Uint32Var(&uses, "uses", 1, "devices that may enrol with it")
	c.Flags().Uint32Var(&hours, "hours", 24, "how long it is good for")
	c.Flags().StringVar(&note, "note", "", "what it is for")
	return c
}

func (a *app) adminPause(pause bool) *cobra.Command {
	use, short := "pause", "Give out no more tasks: the round in progress ends with who came, and no other begins"
	if !pause {
		use, short = "resume", "Go on after a pause"
	}
	return a.call(use, short, "", noArgs, func(ctx context.Context, admin pbconnect.AdminClient,
		_ []string,
	) error {
		r, err := admin.Pause(ctx, &pb.PauseRequest{Pause: pause})
		if err != nil {
			return err
		}
		return a.status(r)
	})
}

func (a *app) adminHistory() *cobra.Command {
	return a.call("history", "List the models that can be gone back to", "", noArgs,
		func(ctx context.Context, admin pbconnect.AdminClient, _ []string) error {
			r, err := admin.History(ctx, &pb.HistoryRequest{})
			if err != nil {
				return err
			}
			type row struct {
				Version uint64    `json:"version"`
				Round   uint32    `json:"round"`
				Made    time.Time `json:"made"`
				Back    bool      `json:"rolled_back"`
			}
			var rows []row
			for _, s := range r.Manifests {
				var m pb.Manifest
				if err := proto.Unmarshal(s.Body, &m); err != nil {
					return err
				}
				rows = append(rows, row{m.Version, m.Round, time.UnixMilli(m.CreatedMs), m.RolledBack})
			}
			return a.result(rows, func(out io.Writer) error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "version\trounds\tmade\t")
				for _, x := range rows {
					note := ""
					if x.Back {
						note = "went back"
					}
					fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", x.Version, x.Round, x.Made.Format(time.DateTime), note)
				}
				return w.Flush()
			})
		})
}

func (a *app) adminRollback() *cobra.Command {
	return a.call("rollback VERSION", "Go back to an older model, from the next round on",
		"  tacit admin history\n  tacit admin rollback 7", exactArgs(1),
		func(ctx context.Context, admin pbconnect.AdminClient, words []string) error {
			var v uint64
			if _, err := fmt.Sscan(words[0], &v); err != nil {
				return input(fmt.Errorf("%q is no version", words[0]), "tacit admin history lists them")
			}
			r, err := admin.Rollback(ctx, &pb.RollbackRequest{Version: v})
			if err != nil {
				return err
			}
			return a.status(r)
		})
}

func (a *app) adminRevoke() *cobra.Command {
	return a.call("revoke SEAT", "Show a device the door: its key is refused from now on", "", exactArgs(1),
		func(ctx context.Context, admin pbconnect.AdminClient, words []string) error {
			var seat uint32
			if _, err := fmt.Sscan(words[0], &seat); err != nil {
				return input(fmt.Errorf("%q is no seat", words[0]), "")
			}
			r, err := admin.Revoke(ctx, &pb.RevokeRequest{DeviceId: seat})
			if err != nil {
				return err
			}
			return a.status(r)
		})
}

func (a *app) adminExport() *cobra.Command {
	var version uint64
	var format, out string
	c := a.call("export", "Write a model's tables and catalogue to a zip file",
		"  tacit admin export -o model.zip --as csv", noArgs,
		func(ctx context.Context, admin pbconnect.AdminClient, _ []string) error {
			s, err := admin.Export(ctx, &pb.ExportRequest{Version: version, Format: format})
			if err != nil {
				return err
			}
			f, err := os.CreateTemp(".", ".export-*")
			if err != nil {
				return err
			}
			defer os.Remove(f.Name())
			n := 0
			for s.Receive() {
				if _, err := f.Write(s.Msg().Data); err != nil {
					return err
				}
				n += len(s.Msg().Data)
			}
			if err := errors.Join(s.Err(), f.Close()); err != nil {
				return err
			}
			if err := os.Rename(f.Name(), out); err != nil {
				return err
			}
			return a.result(map[string]any{"file": out, "bytes": n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %d bytes\n", out, n)
				return err
			})
		})
	c.Flags().Uint64Var(&version, "version", 0, "the model; 0 means the newest")
	c.Flags().StringVar(&format, "as", "npy", "npy or csv")
	c.Flags().StringVarP(&out, "out", "o", "model.zip", "the file")
	return c
}
