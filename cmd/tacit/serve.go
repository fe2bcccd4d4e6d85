package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// serveFlags are the flags of a coordinator that are not settings of an experiment.
type serveFlags struct {
	state, listen, cert, key, name, dataDir, catalogue string
	devices, evalEvery, groupSize, runs                int
	goal, minShare                                     float64
	deadline                                           time.Duration
	insecure, deterministic, repair, newPin            bool
	countItems                                         bool
	users, rowColumns                                  []string
	metrics, config, schedule                          string
	printConfig                                        bool
	logs                                               logFlags
	limits                                             limitFlags
	pageFlags
	checkIns  coordinator.CheckIns
	enrolment coordinator.EnrolmentLimits
}

const serveLong = `
Devices enrol, train in rounds and download models; histories stay on them. The coordinator adds up
their updates and keeps no single one; with --secagg on it sees only sums. All state is in one
folder and safe against crashes. Without -d or --catalogue it waits until a run is started.`

const serveDetails = `
With -d it takes the items of a data set, and nothing about the users. A run that the folder already
holds resumes without -d. tacit fleet -d NAME starts a run with simulated devices, tacit admin begin
one for your own. Connections use TLS: without --cert, the coordinator creates a certificate and
prints the pin that devices need. Programs of the same user on this machine find address, pin and
tokens in the state folder. Evaluations (--eval-every) are masked sums over 10 devices or more; with
--dp they also need metrics=Z there. docs/security.md says what sums reveal.`

const serveExample = `  tacit serve                          # then, in two other terminals:
  tacit fleet -d world
  tacit device -d world --user 7
  tacit serve -d ml-100k -m tacit --devices 943 --schedule daily@03:00
  tacit serve --catalogue items.csv -m fedmf --devices 5000 --dp epsilon=8 --cohort poisson:0.1
  tacit serve --listen :7633 --cert cert.pem --cert-key key.pem`

func (a *app) serveCmd() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve [key=value ...]", Short: "Run a coordinator", Long: serveLong,
		Example: serveExample,
	}
	fl := c.Flags()
	settings := networkSettingFlags(fl)
	hide(fl, "protocol")
	fl.Lookup("data").DefValue = "" // without -d, the coordinator waits for a run
	fl.StringVar(&f.state, "state", stateDir(), "folder of the coordinator's state")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7633", "address to listen on")
	fl.StringVar(&f.cert, "cert", "", "TLS certificate (PEM), with --cert-key")
	fl.StringVar(&f.key, "cert-key", "", "private key of the certificate")
	fl.StringVar(&f.name, "name", "", "name of the federation, for people")
	fl.StringVar(&f.catalogue, "catalogue", "", "items of the run: a CSV file with the columns id, title and features")
	dataDirFlag(c.Flags(), &f.dataDir)
	f.runFlags(c)
	fl.BoolVar(&f.insecure, "insecure", false, "no TLS: anyone on the network path can read models and updates")
	fl.StringVar(&f.metrics, "metrics", "", "serve /metrics, /healthz and /readyz on this address, without TLS")
	fl.StringVar(&f.dashboard, "dashboard", "",
		"serve the dashboard on this loopback address too, to read without a token")
	fl.StringVar(&f.logs.format, "log-format", "auto", "auto, text or json; auto: lines for people on a terminal")
	fl.StringVar(&f.logs.level, "log-level", "", "debug, info, warn or error; default: info, on a terminal warn")
	f.limits.flags(fl)
	f.web.flags(fl)
	f.checkInFlags(fl)
	fl.BoolVar(&f.newPin, "new-pin", false, "replace a lost certificate although devices know its pin")
	fl.StringVar(&f.schedule, "schedule", "", "starts of runs, UTC: hourly, every:6h, daily@03:00, weekly@mon,03:00")
	fl.StringVar(&f.config, "config", "", "TOML file with the same keys as these flags, which win over it")
	fl.BoolVar(&f.printConfig, "print-config", false, "print the configuration as a file for --config, and stop")
	fl.BoolVar(&f.repair, "repair", false, "move damaged files of the state folder aside, list what was lost, and stop")
	a.describe(c, serveDetails,
		flagsUnder("Server", "listen state metrics config",
			"dashboard web allow-origin print-config name cert cert-key new-pin insecure connections "+
				"address-connections "+
				"open-enrolment check-in-rate idle-interval max-interval log-format log-level repair"),
		flagsUnder("Run", "data catalogue method rounds devices cohort deadline schedule",
			"goal min-share user-column row-column deterministic preset batch negatives mean server keep bits seed"),
		flagsUnder("Data", "", "data-dir columns min-rows world sep header time-format threshold dedup k-core"),
		flagsUnder("Privacy", "dp secagg eval-every", "count-items group-size runs"))
	c.RunE = func(c *cobra.Command, words []string) error {
		words, err := f.configure(c, words)
		switch {
		case err != nil:
			return err
		case f.repair:
			return a.repair(&f)
		case f.printConfig:
			return writeConfig(c, words, a.out)
		}
		if err := missingFlag(c, words); err != nil {
			return err
		}
		begins := c.Flags().Changed("data") || f.catalogue != ""
		if !begins && (len(words) > 0 || len(settings()) > 0 || f.setsRun(c)) {
			return input(errors.New("the settings of a run need its items"), "add -d NAME or --catalogue FILE; "+
				"tacit admin begin starts another run with other settings")
		}
		var spec *experiment.Spec
		if begins {
			if spec, err = networkSpec(c, words, settings, &f); err != nil {
				return err
			}
		}
		return a.serve(c.Context(), &f, spec)
	}
	return c
}

// runFlags adds the flags that say how rounds are run.
func (f *serveFlags) runFlags(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&f.devices, "devices", 0, "devices with which the first round starts; with -d, default: all users")
	fl.Float64Var(&f.goal, "goal", 1, "fraction of a cohort that ends a round early")
	fl.Float64Var(&f.minShare, "min-share", 0.5,
		"fraction of a cohort that a round waits for, up to three deadlines; not with --dp")
	oldFlag(fl, "least-share", "min-share")
	fl.DurationVar(&f.deadline, "deadline", 30*time.Second, "time that a round waits for its devices")
	fl.IntVar(&f.evalEvery, "eval-every", 0, "rounds between evaluations by devices, as masked sums; 0 means none")
	oldFlag(fl, "readout", "eval-every")
	fl.BoolVar(&f.countItems, "count-items", false, "let devices count popular items once per run, as a masked sum")
	fl.IntVar(&f.groupSize, "group-size", 0, "devices per masked sum, which limits the damage of a false report; "+
		"0: whole "+
		"cohort")
	oldFlag(fl, "bucket", "group-size")
	fl.IntVar(&f.runs, "runs", 1, "runs that share the privacy budget of --dp")
	fl.StringArrayVar(&f.users, "user-column", nil, "user feature and its categories, such as "+
		"'age=18-24|25-34|unknown' (repeatable)")
	fl.StringArrayVar(&f.rowColumns, "row-column", nil, "interaction feature, such as "+
		"'daytime=morning|evening|unknown' (repeatable)")
	fl.BoolVar(&f.deterministic, "deterministic", false,
		"all randomness from --seed, for tests; real devices refuse it")
	oldFlag(fl, "rehearsal", "deterministic")
}

// serve opens the state folder, starts a run if there is a spec, and serves until it is stopped.
func (a *app) serve(ctx context.Context, f *serveFlags, spec *experiment.Spec) error {
	var items []*pb.Item
	var settings coordinator.Settings
	if err := a.setLog(&f.logs); err != nil {
		return err
	}
	a.limitMemory("/")
	a.warnOfTests()
	if err := coordinator.CheckSchedule(f.schedule); err != nil {
		return input(fmt.Errorf("--%w", err), "")
	}
	if err := f.check(); err != nil {
		return err
	}
	opt := coordinator.Options{
		Dir: f.state, Warn: func(text string) { a.log.Warn(text) }, Info: a.log.Info, Event: a.roundEnded,
		Schedule: f.schedule, CheckIns: f.checkIns, Enrolment: f.enrolment,
	}
	if spec != nil {
		var err error
		if items, err = a.runItems(spec, f, &opt); err != nil {
			return err
		}
		if settings, err = a.checkedSettings(spec, f, len(items), opt.Features); err != nil {
			return err
		}
	}
	if err := checkStateDir(f.state); err != nil {
		return err
	}
	l, err := f.openPort() // before the folder is created: a port in use leaves none behind
	if err != nil {
		return err
	}
	defer l.Close()
	m, err := a.startMonitor(f.metrics)
	if err != nil {
		return err
	}
	defer m.Close()
	pages, err := openDashboard(f.dashboard)
	if err != nil {
		return err
	}
	if pages != nil {
		defer pages.Close()
		f.dashboard = pages.Addr().String()
	}
	if err := os.MkdirAll(f.state, 0o700); err != nil {
		return failed(err, "choose another folder with --state")
	}
	if err := closeStateDir(f.state, opt.Warn); err != nil {
		return err
	}
	return a.open(ctx, f, &opt, spec != nil, settings, items, servePorts{l, pages, m})
}

// openPort listens on --listen.
func (f *serveFlags) openPort() (net.Listener, error) {
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return nil, input(fmt.Errorf("--listen %s: must be host:port", f.listen), "example: --listen :7633")
	}
	l, err := net.Listen("tcp", f.listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, failed(fmt.Errorf("cannot listen on %s: the port is in use%s", f.listen, portOwner(f.listen)),
			"another coordinator may be running; --listen 127.0.0.1:0 chooses a free port")
	case err != nil:
		return nil, failed(fmt.Errorf("cannot listen on %s: %w", f.listen, err), "choose another address with --listen")
	}
	return l, nil
}

// networkSettingFlags adds the flags of the settings that a run on a coordinator has. Those of
// simulations are hidden, and rejected with a reason.
func networkSettingFlags(fs *pflag.FlagSet) func() []experiment.Setting {
	settings := settingFlags(fs, "eval-every")
	hide(fs, "noise", "dropout", "straggle", "new-users", "encode", "sums", "eval-users", "ties", "time-ties", "seeds",
		"time-cut", "test-file", "valid-file", "test-rows")
	return settings
}

// checkStateDir rejects a folder that holds other files than a coordinator's state.
func checkStateDir(dir string) error {
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
		case "lock", "format", "jetstream": // the first files that a store creates
			return nil
		case "lost+found": // of a mounted disk
		default:
			if other == "" {
				other = e.Name()
			}
		}
	}
	if other == "" {
		return nil
	}
	return input(fmt.Errorf("--state %s: the folder is not empty and holds no coordinator's state: %s is in it", dir,
		other),
		"choose a new or empty folder")
}

// runItems returns the items of a run, and adds features to the options if the method reads them.
func (a *app) runItems(spec *experiment.Spec, f *serveFlags, opt *coordinator.Options) ([]*pb.Item, error) {
	if f.catalogue != "" {
		file, err := os.Open(f.catalogue)
		if err != nil {
			return nil, input(err, "")
		}
		defer file.Close()
		items, err := readItems(file, f.catalogue)
		if err == nil && isFeatured(spec.Params) {
			opt.Features, err = columnsOf(items, f.users, f.rowColumns)
		}
		return items, err
	}
	if len(f.users) > 0 || len(f.rowColumns) > 0 {
		return nil,
			input(errors.New("--user-column and --row-column need --catalogue: a data set has its own features"),
				"omit them, or use --catalogue FILE instead of -d")
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
	if err := checkLocalAccess(f.state); err != nil {
		return err
	}
	w := &localAccess{}
	if old, err := readLocalAccess(f.state); err == nil {
		w = old
	}
	if w.Admin == "" {
		var b [24]byte
		rand.Read(b[:])
		w.Admin = hex.EncodeToString(b[:])
	}
	secure, pin, err := f.secure(int(c.Status().Enrolled), func(text string) { a.log.Warn(text) })
	if err != nil {
		return err
	}
	w.Pin = pin
	if w.Token, err = c.Token(1<<20, 7*24*time.Hour, "local"); err != nil {
		return err
	}
	w.URL = "https://" + reachable(l.Addr())
	if f.insecure {
		w.URL = "http://" + reachable(l.Addr())
	}
	config := c.Config()
	config.Limits = f.limits.limits()
	c.SetAdminToken(w.Admin)
	config.Fault = func(call string, err error) { a.log.Error("internal error", "call", call, "error", err) }
	pages, err := f.web.configure(&config)
	if err != nil {
		return err
	}
	defer pages.Close()
	server, err := rpc.NewServer(config)
	if err != nil {
		return err
	}
	if err := w.save(f.state); err != nil {
		return err
	}
	go a.followCertificate(ctx, f, *w)
	a.writeServing(w, f, c)
	a.log.Info("listening", "url", w.URL, "pin", w.Pin, "state_folder", f.state, "version", version)
	return a.runCoordinator(ctx, c, server, server.HTTP(secure), server.Listener(l))
}

// runCoordinator runs the rounds and the server until one of them ends.
func (a *app) runCoordinator(ctx context.Context, c *coordinator.Coordinator, server *rpc.Server, h *http.Server,
	l net.Listener,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.ErrorLog = a.errorLog()
	c.CountRefusals(server.Refused)
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go a.showEvaluations(ctx, c)
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
	return first
}

// reachable returns the address under which this machine reaches a listener.
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
