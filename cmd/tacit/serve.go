package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// serveFlags are those of a coordinator that are no settings of an experiment.
type serveFlags struct {
	state, listen, cert, key, name, dataDir, catalogue string
	devices, readout, bucket                           int
	goal, least                                        float64
	deadline                                           time.Duration
	insecure, rehearsal, repair                        bool
	users, moments                                     []string
}

const serveLong = `Run a coordinator: devices enrol, train round by round and are given models. Histories stay
on devices; what comes here are updates, which the coordinator adds up and forgets (with
--secagg on it sees their sum alone: docs/security.md says what one tells, and --dp adds
noise to it). All of its state is in one folder, on disk before anything is
acknowledged: kill it at any moment, start it again, and it goes on.

Without -d or --catalogue it waits for a run: tacit fleet -d NAME begins one with the
items of a data set, tacit admin begin one of your own. With -d the items (and nothing
of the users) are those of a data set; a run that is there goes on without it.

Connections are TLS. Without --cert it makes a certificate of its own, and prints the pin
that devices need. Programs of the same user on this machine find address, pin and
tokens in the state folder.`

const serveExample = `  tacit serve                                  and in two other terminals:
  tacit fleet -d ml-100k
  tacit device -d ml-100k --user 7

  tacit serve -d ml-100k -m tacit --devices 943 --state run1
  tacit serve --catalogue items.csv -m fedmf --devices 5000 --dp epsilon=8 --cohort poisson:0.1
  tacit serve --listen :7633 --cert cert.pem --cert-key key.pem`

func (a *app) serveCmd() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve [key=value ...]", Short: "Run a coordinator for real devices", Long: serveLong,
		Example: serveExample,
	}
	settings := settingFlags(c.Flags())
	fl := c.Flags()
	fl.StringVar(&f.state, "state", stateDir(), "the folder of all its state")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7633", "where it listens")
	fl.StringVar(&f.cert, "cert", "", "a certificate in PEM form; with --cert-key")
	fl.StringVar(&f.key, "cert-key", "", "its private key")
	fl.StringVar(&f.name, "name", "", "what people call the federation")
	fl.StringVar(&f.catalogue, "catalogue", "", "the items: a CSV file whose first line names its columns: id,title "+
		"and maybe retired, and features such as genre")
	dataDirFlag(c.Flags(), &f.dataDir)
	f.runFlags(c)
	fl.BoolVar(&f.insecure, "insecure", false, "no TLS: anybody on the way reads models and updates")
	fl.BoolVar(&f.repair, "repair", false,
		"move what is damaged in the state folder aside, say what was lost, and stop")
	c.RunE = func(c *cobra.Command, words []string) error {
		if f.repair {
			return a.repair(&f)
		}
		given, err := collectSettings(words, settings)
		if err != nil {
			return err
		}
		return a.serve(c.Context(), &f, given, c.Flags().Changed("data") || f.catalogue != "")
	}
	return c
}

// runFlags are those that say how rounds are run.
func (f *serveFlags) runFlags(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&f.devices, "devices", 0, "devices that a run is for: it begins when so many are enrolled; 0 with -d "+
		"means as many as the set has users")
	fl.Float64Var(&f.goal, "goal", 1, "share of a cohort with which a round ends at once")
	fl.Float64Var(&f.least, "least-share", 0.5, "share of a cohort without which a round goes on past its deadline")
	fl.DurationVar(&f.deadline, "deadline", 30*time.Second, "how long a round waits for its devices")
	fl.IntVar(&f.readout, "readout", 0, "rounds between evaluations by devices; 0 means none. They are masked sums, "+
		"also where training is not, and want 10 devices or more. Without dp devices are also asked once which items they have, in a masked sum: popularity, to compare with; with dp they want metrics=Z")
	fl.IntVar(&f.bucket, "bucket", 0, "devices that a masked sum is over, about: what a liar can do is bounded by "+
		"its bucket; 0 means the whole cohort")
	fl.StringArrayVar(&f.users, "user-column", nil, "with --catalogue, what a method with features learns of users: "+
		"a name and its categories, such as 'age=18-24|25-34|unknown'; may be given again")
	fl.StringArrayVar(&f.moments, "row-column", nil, "the same of the moment of an interaction, such as "+
		"'daytime=morning|evening|unknown'")
	fl.BoolVar(&f.rehearsal, "rehearsal", false, "all draws from a public seed, as in a simulation: for tests; real "+
		"devices refuse it")
}

// serve opens the folder, begins a run if one is given, and serves until it is stopped.
func (a *app) serve(ctx context.Context, f *serveFlags, given []experiment.Setting, begins bool) error {
	var spec *experiment.Spec
	var items []*pb.Item
	var settings coordinator.Settings
	opt := coordinator.Options{
		Dir: f.state, Warn: func(text string) { fmt.Fprintf(a.err, "tacit: %s\n", text) },
		Event: a.heard,
	}
	if begins {
		var err error
		if spec, err = experiment.Resolve(given); err != nil {
			return err
		}
		if err := onNetwork(spec); err != nil {
			return err
		}
		if items, err = a.stock(spec, f, &opt); err != nil {
			return err
		}
		if settings, err = a.settled(spec, f, len(items), opt.Features); err != nil {
			return err
		}
	} else if len(given) > 0 {
		return input(errors.New("settings of a run without its items"), "add -d NAME or --catalogue FILE")
	}
	if err := vacant(f.state); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return input(fmt.Errorf("--listen %s: %w", f.listen, err), "want host:port, such as :7633 or 127.0.0.1:7633")
	}
	l, err := net.Listen("tcp", f.listen) // before there is a folder: a port in use leaves none
	if err != nil {
		return input(err, "another coordinator may be running: --listen 127.0.0.1:0 takes a free port")
	}
	defer l.Close()
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return input(err, "")
	}
	c, err := coordinator.Open(opt)
	var damage *store.Damage
	if errors.As(err, &damage) {
		return input(err, "tacit serve --repair --state "+f.state)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if begins {
		if err := c.Begin(settings, items); err != nil {
			hint := ""
			if errors.Is(err, coordinator.ErrBegun) {
				hint = "tacit serve --state ANOTHER-FOLDER, or leave -d out to go on with the run that is there"
			}
			return input(err, hint)
		}
	}
	return a.listen(ctx, c, f, l)
}

// vacant refuses a folder that holds something, and no coordinator's state.
func vacant(dir string) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return input(err, "")
	}
	other := ""
	for _, e := range all {
		switch e.Name() {
		case "lock", "format", "jetstream": // the first that a store makes
			return nil
		case "lost+found": // a disk of its own
		default:
			if other == "" {
				other = e.Name()
			}
		}
	}
	if other == "" {
		return nil
	}
	return input(fmt.Errorf("--state %s is no coordinator's folder, and is not empty: %s is in it", dir, other),
		"give a new folder, or an empty one")
}

// stock is the items of a run.
func (a *app) stock(spec *experiment.Spec, f *serveFlags, opt *coordinator.Options) ([]*pb.Item, error) {
	if f.catalogue != "" {
		if f.devices == 0 {
			return nil, input(errors.New("--devices is missing: how many the run is for"), "--devices 1000")
		}
		file, err := os.Open(f.catalogue)
		if err != nil {
			return nil, input(err, "")
		}
		defer file.Close()
		items, err := readItems(file, f.catalogue)
		if err == nil && isFeatured(spec.Params) {
			opt.Features, err = columnsOf(items, f.users, f.moments)
		}
		return items, err
	}
	split, err := splitOf(spec, f.dataDir)
	if err != nil {
		return nil, err
	}
	if f.devices == 0 {
		f.devices = split.Users()
	}
	if isFeatured(spec.Params) {
		if opt.Features, err = split.Features(); err != nil {
			return nil, err
		}
	}
	return catalogueOf(split.Source), nil
}

// listen serves on the network until ctx is done.
func (a *app) listen(ctx context.Context, c *coordinator.Coordinator, f *serveFlags, l net.Listener) error {
	w := &welcome{}
	if old, err := readWelcome(f.state); err == nil {
		w = old
	}
	if w.Admin == "" {
		var b [24]byte
		rand.Read(b[:])
		w.Admin = base64.RawURLEncoding.EncodeToString(b[:])
	}
	var secure *tls.Config
	var err error
	switch {
	case f.insecure:
		w.Pin = ""
	case f.cert != "":
		secure, _, err = rpc.LoadTLS(f.cert, f.key)
		w.Pin = ""
	default:
		secure, w.Pin, err = rpc.MakeTLS(filepath.Join(f.state, "tls"))
	}
	if err != nil {
		return input(err, "")
	}
	if w.Token, err = c.Token(1<<20, 7*24*time.Hour, "local"); err != nil {
		return err
	}
	w.URL = "https://" + reachable(l.Addr())
	if f.insecure {
		w.URL = "http://" + reachable(l.Addr())
	}
	config := c.Config()
	config.AdminToken = func() string { return w.Admin }
	config.Limits = rpc.Limits{AddressConns: 4096, Conns: 8192, AddressRate: -1, KeyRate: 200}
	config.Fault = func(procedure string, err error) { fmt.Fprintf(a.err, "tacit: %s: %v\n", procedure, err) }
	server, err := rpc.NewServer(config)
	if err != nil {
		return err
	}
	if err := w.save(f.state); err != nil {
		return err
	}
	a.greet(w, f, c)
	return a.attend(ctx, c, server, server.HTTP(secure), server.Listener(l))
}

// attend runs the rounds and the server, until one of them ends.
func (a *app) attend(ctx context.Context, c *coordinator.Coordinator, server *rpc.Server, h *http.Server,
	l net.Listener,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Refusals(server.Refused)
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go a.overlook(ctx, c)
	go func() {
		var err error
		if h.TLSConfig != nil {
			err = h.ServeTLS(l, "", "")
		} else {
			err = h.Serve(l)
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		ended <- err
	}()
	var first error
	select {
	case <-ctx.Done():
		first = ctx.Err()
	case first = <-ended:
	}
	cancel()
	stop, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	if err := h.Shutdown(stop); err != nil {
		h.Close()
	}
	if first == nil || errors.Is(first, context.Canceled) {
		return context.Canceled
	}
	if errors.Is(first, coordinator.ErrOlderRound) {
		return input(first, "start the program of before, tacit admin pause, wait for the state paused, stop it, "+
			"and upgrade then")
	}
	return first
}

// reachable is an address that this machine can call.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (a *app) greet(w *welcome, f *serveFlags, c *coordinator.Coordinator) {
	if a.format == "json" {
		b, _ := json.Marshal(map[string]any{"listening": w.URL, "pin": w.Pin, "state": f.state})
		fmt.Fprintf(a.out, "%s\n", b)
		return
	}
	s := c.Status()
	fmt.Fprintf(a.out, "coordinator  %s\n", w.URL)
	if w.Pin != "" {
		fmt.Fprintf(a.out, "pin          %s\n", w.Pin)
	} else if f.insecure {
		fmt.Fprintf(a.out, "INSECURE     no TLS: anybody on the way reads models and updates\n")
	}
	fmt.Fprintf(a.out, "state        %s\n", f.state)
	if s.Method != "" {
		fmt.Fprintf(a.out, "run          %s, %d items, %d of %d devices enrolled, round %d of %d\n", s.Name, s.Items,
			s.Enrolled, s.Devices, s.Round, s.Rounds)
	} else {
		fmt.Fprintf(a.out, "run          none yet\n\n  tacit fleet -d world            begins one, in another "+
			"terminal\n  tacit admin begin --help        begins one of your own\n")
	}
	fmt.Fprintf(a.out, "\n  tacit admin status              how it goes\n  tacit admin token --uses 100    lets "+
		"others enrol\n\n")
}

// heard tells of a round.
func (a *app) heard(e coordinator.Event) {
	if a.quiet {
		return
	}
	line := fmt.Sprintf("round %d/%d  %d of %d devices  %.2f s", e.Round, e.Rounds, e.Counted, e.Asked, e.Seconds)
	if e.Kept {
		line += "  kept back: too few came"
	}
	if e.Epsilon > 0 {
		line += fmt.Sprintf("  eps %.3g", e.Epsilon)
	}
	if r := e.Readout; r != nil {
		line += fmt.Sprintf("  HR@10 %s, by devices", within(r.HR10, r))
		if r.Popular {
			line += fmt.Sprintf(" (popularity %s)", within(r.PopHR10, r))
		}
	} else if e.Missed != "" {
		line += "  no readout"
	}
	if e.Missed != "" {
		line += ": " + e.Missed
	}
	fmt.Fprintln(a.err, line)
}

func (a *app) repair(f *serveFlags) error {
	report, err := coordinator.Repair(f.state)
	if err != nil {
		return err
	}
	return a.result(report, func(w io.Writer) error {
		for _, line := range report.Kept {
			fmt.Fprintf(w, "kept  %s\n", line)
		}
		for _, line := range report.Lost {
			fmt.Fprintf(w, "LOST  %s\n", line)
		}
		if len(report.Lost) == 0 {
			fmt.Fprintln(w, "nothing was lost")
		}
		_, err := fmt.Fprintf(w, "the damaged files are in %s\n", report.Aside)
		return err
	})
}
