package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/statefile"
)

// deviceFlags are the flags of a device.
type deviceFlags struct {
	stateFlags
	server, pin, token, tokenFile string
	history, data, user, dataDir  string
	features                      string
	insecure, once, deterministic bool
	noHoldOut, setsFeatures       bool
	duty                          float64
	memory                        int
	moment                        statefile.Conditions
	keepLast, keepDays            int
}

const deviceLong = `
A device trains on its owner's history, which stays on it, and sends at most one bounded report per
round. The history is a CSV file of item IDs, or that of a user of a data set. Stop the device at any
time: it resumes where it was. All private data is in one state file, which --passphrase encrypts.`

const deviceDetails = `
The newest item is held out of training, to measure the recommendations; it joins when a newer one
arrives. tacit device add and undo change the history, even while the device runs. Methods with
features also learn from the owner's (--features, which replaces all earlier ones) and from those of
each event, which are further columns of the history file. The coordinator says which features
exist; an unset one counts as the category "unknown" if the feature has it, and is required otherwise.

The state file is encrypted with a passphrase (--passphrase, $TACIT_PASSPHRASE or --passphrase-file)
or with a key in the system's keyring (--keyring); otherwise only its file mode protects it. It
remembers the coordinator, so the next time --state FILE is enough. If the coordinator does not
answer, the device retries, up to every five minutes. If it has moved, add --server, and --pin if its
certificate changed: the device recognises the coordinator by its key.`

const deviceExample = `  tacit device -d world --user 7               # uses the coordinator on this machine
  tacit device --server https://films.example:7633 --pin PIN --token-file token --history seen.csv
  tacit device --state my.state --once         # the state file remembers the coordinator`

func (a *app) deviceCmd() *cobra.Command {
	var f deviceFlags
	c := &cobra.Command{
		Use: "device", Short: "Run a device", Long: deviceLong,
		Example: deviceExample, Args: noArgs,
	}
	f.stateFlags.flags(c)
	fl := c.Flags()
	fl.StringVar(&f.server, "server", "", "the coordinator's `URL`, such as https://host:7633; the state file keeps it")
	oldFlag(fl, "coordinator", "server")
	fl.StringVar(&f.pin, "pin", "", "pin of the coordinator's certificate, which tacit serve prints")
	fl.StringVar(&f.token, "token", "", "token for the first enrolment, unless it is open; other users can see it")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the token; default: $TACIT_TOKEN")
	fl.BoolVar(&f.insecure, "insecure", false, "allow http://: anyone on the network path can read the traffic")
	fl.StringVar(&f.history, "history", "", "CSV file of item IDs, optionally with times; new events are added")
	fl.StringVar(&f.features, "features", "", "the owner's features, such as age=25,gender=F, or a CSV file; never "+
		"sent to anyone")
	fl.StringVarP(&f.data, "data", "d", "", "data set whose --user this device plays")
	fl.StringVar(&f.user, "user", "", "user of the data set")
	dataDirFlag(c.Flags(), &f.dataDir)
	fl.BoolVar(&f.once, "once", false, "check in once, do the assigned task, if any, and stop")
	fl.BoolVar(&f.deterministic, "deterministic", false, "accept a run with public randomness; never with a real "+
		"history")
	oldFlag(fl, "rehearsal", "deterministic")
	fl.BoolVar(&f.noHoldOut, "no-hold-out", false, "also train on the newest item, without measuring recommendations")
	fl.Float64Var(&f.duty, "duty", 1, "largest fraction of time spent computing")
	fl.IntVar(&f.memory, "memory", 1024, "MiB for a model and its training; larger ones are refused")
	fl.BoolVar(&f.moment.OnPower, "only-on-power", false, "train only while the computer is on mains power")
	fl.BoolVar(&f.moment.OnNetwork, "only-on-network", false, "train only while a network is up")
	fl.BoolVar(&f.moment.WhenIdle, "only-when-idle", false, "train only while the computer is idle")
	fl.IntVar(&f.keepLast, "keep-last", -1, "keep this many of the newest events; 0 keeps all")
	fl.IntVar(&f.keepDays, "keep-days", -1, "keep events for this many days; 0 keeps all")
	a.describe(c, deviceDetails,
		flagsUnder("Coordinator", "server pin token", "token-file insecure"),
		flagsUnder("History", "data user history", "features no-hold-out keep-last keep-days data-dir"),
		flagsUnder("State", "state passphrase", "passphrase-file keyring"),
		flagsUnder("When", "once", "only-on-power only-on-network only-when-idle duty memory deterministic"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		f.setsFeatures = fl.Changed("features")
		return deviceHint(a.device(c.Context(), &f))
	}
	c.AddCommand(a.deviceStatus(), a.deviceLog(), a.devicePause(true), a.devicePause(false), a.deviceAdd(),
		a.deviceUndo(),
		a.deviceForget())
	return c
}

// deviceHint adds what to do next to an error of a device.
func deviceHint(err error) error {
	for known, hint := range map[error]string{
		device.ErrDeterministic: "for tests only, add --deterministic; never with a real history",
		device.ErrWrongCoordinator: "if the coordinator was set up again: run tacit device forget, then enrol with a " +
			"new --token",
		device.ErrRevoked:  "ask the operator; to enrol again, run tacit device forget, then use a new --token",
		device.ErrExcluded: "ask the operator to readmit it with tacit admin readmit",
		device.ErrGuarantee: "the device sends nothing under this plan, and tacit device log shows the reason; ask " +
			"the operator",
		device.ErrPin:         "check --server and --pin; tacit serve prints both",
		device.ErrCertificate: "add --pin PIN with the pin that tacit serve prints",
		device.ErrTooLarge:    "allow more with --memory MIB",
		device.ErrFeatures: "set the owner's features with --features NAME=VALUE, those of an event in the history " +
			"file or with tacit device add --with; they are sent to nobody",
		device.ErrNoModel: "tacit device --once downloads one",
		statefile.ErrPassphrase: "try again; a lost passphrase cannot be recovered, but another --state FILE starts " +
			"over",
		statefile.ErrCorrupt: "restore a backup, or start over with another --state FILE",
		statefile.ErrInUse:   "stop the other tacit device first",
	} {
		if errors.Is(err, known) {
			if known == device.ErrRevoked || known == device.ErrPin {
				err = known // the rest says the same, or names hashes
			}
			return input(err, hint)
		}
	}
	switch rpc.Code(err) {
	case rpc.BadToken:
		return input(err, "tacit admin token, on the coordinator's machine, creates one; pass it with --token-file "+
			"FILE, $TACIT_TOKEN or --token")
	case rpc.UnknownKey:
		return input(err, "enrol again with --token-file FILE; the device keeps its history")
	case rpc.WrongVersion:
		return input(err, "")
	case "unavailable":
		return &unreachableError{err}
	}
	return err
}

// unreachableError means that the coordinator does not answer.
type unreachableError struct{ error }

func (e *unreachableError) Error() string {
	if strings.Contains(e.error.Error(), "server gave HTTP response to HTTPS client") {
		return "the address answers without TLS: it is not the port for devices, but perhaps that of --metrics"
	}
	return "the coordinator does not answer: " + plainText(e.error)
}
func (e *unreachableError) Unwrap() error { return e.error }

const unreachableHint = "without --once the device keeps trying; if the coordinator has moved, add --server ADDRESS; " +
	"tacit recommend works offline if the device has a model"

// device runs a device.
func (a *app) device(ctx context.Context, f *deviceFlags) error {
	if err := f.checkAddress(); err != nil {
		return err
	}
	if err := checkFlags(
		flagRule{f.duty > 0 && f.duty <= 1, "duty", f.duty, "above 0 and at most 1"},
		flagRule{f.memory >= 1, "memory", f.memory, "1 MiB or more"},
		flagRule{f.keepLast >= -1, "keep-last", f.keepLast, "0 or more"},
		flagRule{f.keepDays >= -1, "keep-days", f.keepDays, "0 or more"},
	); err != nil {
		return err
	}
	events, features, err := f.events()
	if err != nil {
		return err
	}
	path, err := f.path(f.ownName(), true)
	if err != nil {
		return err
	}
	file := statefile.Open(path, f.encryption())
	if _, err := file.Load(); err != nil { // before a lock file is created beside it
		return err
	}
	release, err := file.Acquire()
	if err != nil {
		return err
	}
	defer release()
	d, about, err := f.open(path, file)
	if err != nil {
		return err
	}
	if err := f.checkMoved(ctx, d, about); err != nil {
		return err
	}
	if err := f.update(d, about, events, features); err != nil {
		return err
	}
	if !a.quiet {
		fmt.Fprintf(a.err, "state  %s (%s)\n", path, file.Protection())
		if about.Events == 0 && len(events) == 0 {
			fmt.Fprintln(a.err, "no history yet: the device has nothing to train on, and its recommendations are not "+
				"personal; add events with --history FILE or tacit device add ITEM")
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a device uses one processor at most
	if f.once {
		defer a.sayLater("this takes a while: the device waits for the coordinator, or computes")()
		out, err := d.Step(ctx)
		if err != nil {
			return err
		}
		return a.result(out, func(w io.Writer) error { return writeStep(w, out) })
	}
	return d.Run(ctx, a.deviceProgress(path))
}

// sayLater prints a line if the work takes long. The caller must call done at its end.
func (a *app) sayLater(line string) (done func()) {
	said := make(chan struct{})
	t := time.AfterFunc(2*time.Second, func() {
		defer close(said)
		if !a.quiet {
			fmt.Fprintln(a.err, line)
		}
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// checkMoved checks the coordinator at another address than before, so that a refused one changes nothing. A
// coordinator that does not answer is checked when it does.
func (f *deviceFlags) checkMoved(ctx context.Context, d *device.Device, about *device.About) error {
	if !about.Enrolled || f.server == "" && f.pin == "" ||
		(f.server == "" || f.server == about.Settings["server"]) && (f.pin == "" || f.pin == about.Settings["pin"]) {
		return nil
	}
	err := d.Check(ctx)
	for _, wrong := range []error{
		device.ErrWrongCoordinator, device.ErrPin, device.ErrCertificate, device.ErrDeterministic,
	} {
		if errors.Is(err, wrong) {
			return err
		}
	}
	return ctx.Err()
}

// deviceProgress returns a function that prints the steps of a device, except repeated ones.
func (a *app) deviceProgress(path string) func(out device.StepResult, err error) {
	model, before, state := uint64(0), "", ""
	idle := func(did string) bool { return did == "paused" || did == "stayed away" }
	return func(out device.StepResult, err error) {
		if a.quiet {
			return
		}
		if err != nil {
			fmt.Fprintf(a.err, "%s  %s; retrying\n", time.Now().Format(time.TimeOnly), plainText(deviceHint(err)))
			if model == 0 && out.ModelVersion > 0 {
				fmt.Fprintf(a.err, "meanwhile: tacit recommend --state %s\n", path)
			}
			model = out.ModelVersion
			return
		}
		same := out.Action == "waited" && !idle(before) || idle(out.Action) && out.Action == before
		if out.Action == "waited" && out.Coordinator != state {
			same, state = false, out.Coordinator
		}
		before = out.Action
		if !same || out.ModelVersion != model {
			fmt.Fprintf(a.err, "%s  ", time.Now().Format(time.TimeOnly))
			_ = writeStep(a.err, out)
		}
		if model == 0 && out.ModelVersion > 0 {
			fmt.Fprintf(a.err, "model downloaded; try: tacit recommend --state %s\n", path)
		}
		model = out.ModelVersion
	}
}

// checkAddress rejects a malformed address or pin before anything is created or called.
func (f *deviceFlags) checkAddress() error {
	_, err := rpc.Dial(rpc.Options{URL: cmp.Or(f.server, "https://localhost"), Pin: f.pin, Insecure: true})
	if err != nil {
		return input(err, "tacit serve prints the address and the pin")
	}
	return nil
}

// writeStep writes a line about a step.
func writeStep(w io.Writer, out device.StepResult) error {
	var err error
	switch out.Action {
	case "trained", "evaluated", "counted items":
		fate := out.State
		if fate == "" {
			fate = "no answer yet"
		}
		_, err = fmt.Fprintf(w, "round %d: %s, %d samples, %d bytes sent: %s (model version %d)\n", out.Round+1,
			out.Action,
			out.Samples, out.Bytes, fate, out.ModelVersion)
	default:
		text := out.Reason
		if !strings.HasPrefix(text, out.Action) {
			text = out.Action + ": " + text
		}
		if state := stateText(out.Coordinator); !strings.Contains(text, state) {
			text += "; state of the coordinator: " + state
		}
		if out.After >= time.Second {
			text += "; next check-in in " + out.After.Round(time.Second).String()
		}
		_, err = fmt.Fprintf(w, "%s (model version %d)\n", text, out.ModelVersion)
	}
	return err
}

// stateText writes a state of the coordinator as words: disk-full is disk full.
func stateText(state string) string { return strings.ReplaceAll(state, "-", " ") }

// open opens the device of a state file, with the coordinator from the flags or the file.
func (f *deviceFlags) open(path string, file *statefile.File) (*device.Device, *device.About, error) {
	opt := device.Options{
		Store: file, Blobs: statefile.OpenFolder(path + ".model"),
		Workspace:     &device.Workspace{Memory: float64(f.memory) * (1 << 20)},
		Deterministic: f.deterministic, HoldOut: !f.noHoldOut, Duty: f.duty,
		Eligible: func() (bool, string) { return f.moment.Met(os.DirFS("/")) },
	}
	about := &device.About{}
	if file.Exists() { // otherwise an error leaves no state file behind
		peek, err := device.Open(device.Options{
			Store: opt.Store, Blobs: opt.Blobs, Workspace: opt.Workspace,
			Deterministic: true,
		})
		if err != nil {
			return nil, nil, err
		}
		if about, err = peek.About(); err != nil {
			return nil, nil, err
		}
	}
	w, err := f.findCoordinator(about)
	if err != nil {
		return nil, nil, err
	}
	insecure := f.insecure || about.Settings["insecure"] == "yes"
	if err := checkTLS(w.URL, insecure); err != nil {
		return nil, nil, err
	}
	if _, err := rpc.Dial(rpc.Options{URL: w.URL, Pin: w.Pin, Insecure: insecure}); err != nil {
		return nil, nil, input(err, "")
	}
	opt.Token, opt.Software = w.Token, "tacit "+version
	opt.Settings = map[string]string{"server": w.URL, "pin": w.Pin}
	if f.insecure {
		opt.Settings["insecure"] = "yes"
	}
	opt.Dial = func(key ed25519.PrivateKey) (device.Conn, error) {
		return rpc.Dial(rpc.Options{URL: w.URL, Pin: w.Pin, Key: key, Insecure: insecure})
	}
	d, err := device.Open(opt)
	if err != nil {
		return nil, nil, err
	}
	return d, about, nil
}

// findCoordinator returns how to reach the coordinator: from the flags, the state file, or a
// coordinator on this machine.
func (f *deviceFlags) findCoordinator(about *device.About) (*localAccess, error) {
	token, err := (&connectFlags{token: f.token, tokenFile: f.tokenFile}).readToken(false)
	if err != nil {
		return nil, err
	}
	w := &localAccess{URL: f.server, Pin: cmp.Or(f.pin, about.Settings["pin"]), Token: token}
	if w.URL == "" {
		w.URL = about.Settings["server"]
	}
	if w.URL == "" {
		found, err := readLocalAccess(stateDir())
		if err != nil {
			return nil, input(errors.New("no coordinator given, and none found on this machine"),
				"add --server, --pin and --token, or start one with tacit serve")
		}
		w = found
		w.Token = cmp.Or(token, w.Token)
	}
	if local, err := readLocalAccess(stateDir()); err == nil && w.Token == "" && local.URL == w.URL {
		w.Token = local.Token
	}
	return w, nil
}

// update stores the owner's features, adds new events to the history, and sets how much of it is kept.
func (f *deviceFlags) update(d *device.Device, about *device.About, events []device.Event,
	features map[string]string,
) error {
	if f.setsFeatures || len(features) > 0 {
		for name := range about.Features { // the new features replace all
			if _, again := features[name]; !again {
				features[name] = ""
			}
		}
		if err := d.Describe(features); err != nil {
			return input(err, "")
		}
	}
	if f.keepLast >= 0 || f.keepDays >= 0 {
		last, days := about.KeepLast, about.KeepDays
		if f.keepLast >= 0 {
			last = f.keepLast
		}
		if f.keepDays >= 0 {
			days = f.keepDays
		}
		if err := d.Retain(last, days); err != nil {
			return err
		}
	}
	_, err := d.Merge(events)
	return err
}
