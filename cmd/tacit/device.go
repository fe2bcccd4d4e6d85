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

// deviceFlags are those of a device.
type deviceFlags struct {
	stateFlags
	server, pin, token           string
	history, data, user, dataDir string
	features                     string
	insecure, once, rehearsal    bool
	noHoldOut, retells           bool
	duty                         float64
	memory                       int
	moment                       statefile.Conditions
	keepLast, keepDays           int
}

const deviceLong = `Run a device: it learns from its owner's history, which stays on it, and sends one
bounded report per round. Stop it or kill it at any moment: started again it goes on
where it was, and no round has two reports of it.

The history is a CSV file of item ids (or of id and time), or a user of a data set.
tacit device add and undo change it, also while the device runs. The newest item is
held out of training, to measure what the recommendations are worth; it joins when a
newer one comes.

Some methods also learn from what their users are like (--features age=25,gender=F) and from
what a moment was like (more columns of the history, named in its first line). Which
there are the coordinator says, and a wrong one is refused with a list. A value that was not
told counts as the category "unknown", where there is one, and else is asked for.

What is private is in one state file: encrypted with a passphrase (--passphrase asks, or
$TACIT_PASSPHRASE, or --passphrase-file) or with a key in the system's keyring (--keyring),
else protected by its mode alone, which it says. The state file remembers the coordinator:
the next time tacit device --state FILE is enough.

While the coordinator is gone the device tries again, ever more rarely, up to every five
minutes; what it could not send is sent then, if its round still wants it. tacit recommend
needs no coordinator. One that has moved is found with --server and, if its certificate is
another, --pin: the device knows it by its key, and follows no other. If it is gone for good,
tacit device forget wipes the device, and says that nobody could be told.

  tacit device log         what was sent, when, and under which promise
  tacit recommend          recommendations, offline
  tacit device forget      leave, and wipe everything`

const deviceExample = `  tacit device -d ml-100k --user 7             with the coordinator of this machine
  tacit device --server https://films.example:7633 --pin sha256/... --token TOKEN --history seen.csv --passphrase
  tacit device --state my.state --only-on-power --duty 0.25
  tacit device log --state my.state`

func (a *app) deviceCmd() *cobra.Command {
	var f deviceFlags
	c := &cobra.Command{
		Use: "device", Short: "Run a device, and look after it", Long: deviceLong,
		Example: deviceExample, Args: noArgs,
	}
	f.stateFlags.flags(c)
	fl := c.Flags()
	fl.StringVar(&f.server, "server", "", "the coordinator's address, such as https://host:7633; else that of the "+
		"state file, else of this machine ($TACIT_STATE is the folder of its state)")
	fl.StringVar(&f.server, "coordinator", "", "the same as --server")
	_ = fl.MarkHidden("coordinator")
	fl.StringVar(&f.pin, "pin", "", "the pin that the coordinator prints, where its certificate is its own")
	fl.StringVar(&f.token, "token", "", "to enrol with, once")
	fl.BoolVar(&f.insecure, "insecure", false, "allow http://, where anybody on the way reads what is sent")
	fl.StringVar(&f.history, "history", "",
		"a CSV file of item ids, or of item id and time; what is new in it is added")
	fl.StringVar(&f.features, "features", "", "what the owner tells of themselves, for methods that learn from it, "+
		"such as age=25,gender=F, or a CSV file of name and value; it replaces all that was told before, and an empty value deletes; it is sent to nobody (docs/security.md: what an update tells)")
	fl.StringVarP(&f.data, "data", "d", "", "a data set, to play one of its users; with --user")
	fl.StringVar(&f.user, "user", "", "the user of the data set")
	dataDirFlag(c.Flags(), &f.dataDir)
	fl.BoolVar(&f.once, "once", false, "check in once, do what is asked for, and stop")
	fl.BoolVar(&f.rehearsal, "rehearsal", false, "take part in a rehearsal, whose draws are public: never with a "+
		"real history")
	fl.BoolVar(&f.noHoldOut, "no-hold-out", false, "train on the newest item too, and say nothing of how good the "+
		"recommendations are")
	fl.Float64Var(&f.duty, "duty", 1, "largest share of time that is spent computing")
	fl.IntVar(&f.memory, "memory", 1024, "MiB that a model and its training may take; a larger one is refused")
	fl.BoolVar(&f.moment.OnPower, "only-on-power", false, "stay away while the computer runs on a battery")
	fl.BoolVar(&f.moment.OnNetwork, "only-on-network", false, "stay away while no network is up")
	fl.BoolVar(&f.moment.WhenIdle, "only-when-idle", false, "stay away while the computer is busy")
	fl.IntVar(&f.keepLast, "keep-last", -1, "keep only so many newest events; 0 keeps all")
	fl.IntVar(&f.keepDays, "keep-days", -1, "forget events after so many days; 0 keeps all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		f.retells = fl.Changed("features")
		return deviceHint(a.device(c.Context(), &f))
	}
	c.AddCommand(a.deviceLog(), a.devicePause(true), a.devicePause(false), a.deviceAdd(), a.deviceUndo(),
		a.deviceForget())
	return c
}

// deviceHint adds to an error what to type next.
func deviceHint(err error) error {
	for known, hint := range map[error]string{
		device.ErrDeterministic: "a rehearsal is for tests: add --rehearsal, and give it no real history",
		device.ErrWrongCoordinator: "if the coordinator was set up anew: tacit device forget, then enrol again with " +
			"another --token",
		device.ErrRevoked: "ask the operator; tacit device forget wipes this device, and a new token enrols " +
			"it anew",
		device.ErrTooLarge: "--memory gives it more",
		device.ErrFeatures: "--features NAME=VALUE,... tells what its owner is like; columns of a history " +
			"file, and tacit device add --with, what a moment was like; both are sent to nobody",
		device.ErrNoModel:       "tacit device --once fetches one",
		statefile.ErrPassphrase: "try again; nobody can recover it, and another --state FILE starts anew",
		statefile.ErrCorrupt:    "take it from a backup, or start anew with another --state FILE",
		statefile.ErrInUse:      "stop the other tacit device first",
	} {
		if errors.Is(err, known) {
			return input(err, hint)
		}
	}
	switch rpc.Code(err) {
	case rpc.BadToken:
		return input(err, "tacit admin token, on the coordinator's machine, makes one to enrol with")
	case rpc.UnknownKey:
		return input(err, "the coordinator does not know this device: tacit device forget, then enrol again")
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
	return "the coordinator does not answer: " + e.error.Error()
}
func (e *unreachableError) Unwrap() error { return e.error }

const unreachableHint = "without --once the device keeps trying; if the coordinator has moved, add --server ADDRESS; " +
	"tacit recommend works offline"

// device runs one.
func (a *app) device(ctx context.Context, f *deviceFlags) error {
	if err := f.checkAddress(); err != nil {
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
	file := statefile.Open(path, f.sealing())
	if _, err := file.Load(); err != nil { // what is no state file gets no others beside it
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
	if err := f.tell(d, about, events, features); err != nil {
		return err
	}
	if !a.quiet {
		fmt.Fprintf(a.err, "state  %s (%s)\n", path, file.Protection())
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a device never takes more than one processor
	if f.once {
		out, err := d.Step(ctx)
		if err != nil {
			return err
		}
		return a.result(out, func(w io.Writer) error { return sayStep(w, out) })
	}
	return d.Run(ctx, a.sayRun(path))
}

// sayRun says what the steps of a device come to, where that is news.
func (a *app) sayRun(path string) func(out device.StepResult, err error) {
	model, before := uint64(0), ""
	idle := func(did string) bool { return did == "paused" || did == "stayed away" }
	return func(out device.StepResult, err error) {
		if a.quiet {
			return
		}
		if err != nil {
			fmt.Fprintf(a.err, "%s  %v; it tries again\n", time.Now().Format(time.TimeOnly), deviceHint(err))
			if model == 0 && out.ModelVersion > 0 {
				fmt.Fprintf(a.err, "meanwhile: tacit recommend --state %s\n", path)
			}
			model = out.ModelVersion
			return
		}
		same := out.Action == "waited" && !idle(before) || idle(out.Action) && out.Action == before
		if before = out.Action; !same || out.ModelVersion != model {
			fmt.Fprintf(a.err, "%s  ", time.Now().Format(time.TimeOnly))
			_ = sayStep(a.err, out)
		}
		if model == 0 && out.ModelVersion > 0 {
			fmt.Fprintf(a.err, "there is a model: tacit recommend --state %s\n", path)
		}
		model = out.ModelVersion
	}
}

// checkAddress says what of an address and a pin no coordinator can have, before anything is
// made or called.
func (f *deviceFlags) checkAddress() error {
	_, err := rpc.Dial(rpc.Options{URL: cmp.Or(f.server, "https://localhost"), Pin: f.pin, Insecure: true})
	if err != nil {
		return input(err, "tacit serve prints address and pin")
	}
	return nil
}

// sayStep says in a line what a step came to.
func sayStep(w io.Writer, out device.StepResult) error {
	var err error
	switch out.Action {
	case "trained", "evaluated", "counted items":
		fate := out.State
		if fate == "" {
			fate = "its fate is not known yet"
		}
		_, err = fmt.Fprintf(w, "round %d: %s, %d samples, %d bytes sent: %s (model %d)\n", out.Round+1, out.Action,
			out.Samples, out.Bytes, fate, out.ModelVersion)
	default:
		_, err = fmt.Fprintf(w, "%s: %s (model %d)\n", out.Action, out.Reason, out.ModelVersion)
	}
	return err
}

// open makes the device of a state file, with the coordinator that it remembers or is
// given.
func (f *deviceFlags) open(path string, file *statefile.File) (*device.Device, *device.About, error) {
	opt := device.Options{
		Store: file, Blobs: statefile.OpenFolder(path + ".model"),
		Workspace:     &device.Workspace{Memory: float64(f.memory) * (1 << 20)},
		Deterministic: f.rehearsal, HoldOut: !f.noHoldOut, Duty: f.duty,
		Eligible: func() (bool, string) { return f.moment.Met(os.DirFS("/")) },
	}
	peek, err := device.Open(device.Options{
		Store: opt.Store, Blobs: opt.Blobs, Workspace: opt.Workspace,
		Deterministic: true,
	})
	if err != nil {
		return nil, nil, err
	}
	about, err := peek.About()
	if err != nil {
		return nil, nil, err
	}
	w, err := f.reachCoordinator(about)
	if err != nil {
		return nil, nil, err
	}
	insecure := f.insecure || about.Settings["insecure"] == "yes"
	if strings.HasPrefix(w.URL, "http://") && !insecure {
		return nil, nil, input(fmt.Errorf("%s: without TLS anybody on the way reads what is sent", w.URL),
			"--insecure allows it")
	}
	if _, err := rpc.Dial(rpc.Options{URL: w.URL, Pin: w.Pin, Insecure: insecure}); err != nil {
		return nil, nil, input(err, "")
	}
	opt.Token = w.Token
	opt.Dial = func(key ed25519.PrivateKey) (device.Conn, error) {
		return rpc.Dial(rpc.Options{URL: w.URL, Pin: w.Pin, Key: key, Insecure: insecure})
	}
	d, err := device.Open(opt)
	if err != nil {
		return nil, nil, err
	}
	set := map[string]string{"server": w.URL, "pin": w.Pin}
	if f.insecure {
		set["insecure"] = "yes"
	}
	return d, about, d.Configure(set)
}

// reachCoordinator is where the coordinator is: the flags say it, the state file, or a
// coordinator on this machine.
func (f *deviceFlags) reachCoordinator(about *device.About) (*welcome, error) {
	w := &welcome{URL: f.server, Pin: f.pin, Token: f.token}
	if w.URL == "" && about.Settings["server"] != "" {
		w.URL, w.Pin = about.Settings["server"], cmp.Or(f.pin, about.Settings["pin"])
	}
	if w.URL == "" {
		found, err := readWelcome(stateDir())
		if err != nil {
			return nil, input(errors.New("no coordinator is given, and none is on this machine"),
				"give --server, --pin and --token, or start one with tacit serve")
		}
		if w = found; f.token != "" {
			w.Token = f.token
		}
	}
	if w.Token == "" && !about.Enrolled {
		return nil, input(errors.New("the device is not enrolled, and has no token"),
			"--token TOKEN, which tacit admin token makes")
	}
	return w, nil
}

// tell keeps what the owner is like, adds what is new of the history that was given, and
// sets what is kept of it.
func (f *deviceFlags) tell(d *device.Device, about *device.About, events []device.Event,
	features map[string]string,
) error {
	if f.retells || len(features) > 0 {
		for name := range about.Features { // what is told now is all of it
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
	n, err := d.Merge(events)
	if err == nil && n == 0 && about.Events == 0 {
		return input(errors.New("the device has no history to learn from"),
			"--history FILE, or -d NAME --user USER, or: tacit device add ITEM")
	}
	return err
}
