// Package tacit is the front door for Go programs: load interactions, train a
// federated recommender in this process, evaluate it under a named protocol, recommend
// for a user, export vectors, and compare two results. It does what `tacit run` does,
// with the same settings, presets and bits, and opens the folders that `tacit run` writes.
//
// Package tacit never contacts a network. To take part in a real federation, use
// package device; to serve one, package coordinator; to write a method, package method.
package tacit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Data is a set of interactions: which user used which item, and when.
type Data struct {
	open     func(*experiment.Settings) (data.Source, error)
	settings Settings
	source   data.Source
	key      string // the settings with which source was opened
}

// Settings maps names of settings to their values, as `tacit run` takes them on the
// command line: "lr": "0.05", "rounds": "20", "cohort": "10%", "dp": "epsilon=8".
// `tacit run --help` lists the settings of a run, `tacit methods NAME` those of a method.
type Settings map[string]string

// Load opens a data set: "world" (built in), a known set such as "ml-100k" (found in
// $TACIT_DATA or the user's cache folder), or a delimited text file. Settings such as
// "columns" and "min-rows" say how to read it; nil detects and uses the defaults.
func Load(name string, s Settings) (*Data, error) {
	d := &Data{settings: maps.Clone(s)}
	if d.settings == nil {
		d.settings = Settings{}
	}
	d.settings["data"] = name
	d.open = func(s *experiment.Settings) (data.Source, error) { return experiment.OpenData(s, "") }
	return d, d.load()
}

// Read reads a delimited text of interactions from r, to its end. It is [Load] for data
// that is not a file; name appears in errors and results.
func Read(r io.Reader, name string, s Settings) (*Data, error) {
	if r == nil {
		return nil, errors.New("no reader: pass the interactions, or use Load")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	d := &Data{settings: maps.Clone(s)}
	d.open = func(s *experiment.Settings) (data.Source, error) { return experiment.ReadData(s, text, name) }
	return d, d.load()
}

// load opens the data with the settings that no protocol has changed.
func (d *Data) load() error {
	spec, err := resolve(nil, d.settings)
	if err != nil {
		return err
	}
	_, err = d.sourceFor(&spec.Settings)
	return err
}

// sourceFor returns the source as a run with these settings needs it: some protocols require
// more interactions per user.
func (d *Data) sourceFor(s *experiment.Settings) (data.Source, error) {
	key := fmt.Sprintln(s.Data, s.World, s.Reading)
	if d.source != nil && d.key == key {
		return d.source, nil
	}
	src, err := d.open(s)
	if err != nil {
		return nil, message(err)
	}
	if d.source == nil {
		d.source, d.key = src, key
	}
	return src, nil
}

// dataKeys are the settings that say what the data is. A time cut belongs to a run, because it requires a protocol.
var dataKeys = slices.DeleteFunc(append([]string{"data", "world"}, param.Keys(&experiment.Reading{})...),
	func(key string) bool { return key == "time-cut" })

// Users is the number of users.
func (d *Data) Users() int { return d.source.Users() }

// Items is the number of items.
func (d *Data) Items() int { return d.source.Items() }

// Config says what to run. The zero value trains the default method under the protocol
// "deployed" with seed 1.
type Config struct {
	Method   string // a name that `tacit methods` lists, plug-ins included; default "tacit"
	Protocol string // the evaluation protocol; default "deployed"
	Seed     uint64 // of all randomness; default 1
	Settings Settings
	Methods  *method.Registry // where Method is looked up; default methods.Default()
	Workers  int              // goroutines; default one per core. It does not change a bit of the result
	Progress func(Round)      // if set, called after each round
}

// Round reports one finished round.
type Round struct {
	Round, Rounds int     // Round counts from 1
	Devices       int     // devices whose update was counted
	HR, NDCG      float64 // at 10, on validation items; 0 in rounds that were not evaluated
}

// Metrics maps names such as "hr@10" and "ndcg@10" to values.
type Metrics map[string]float64

// Result is a trained and evaluated run. Its methods may be called from several
// goroutines.
type Result struct {
	Method, Data, Protocol string
	Seed                   uint64
	Leaks                  bool    // the protocol leaks the held-out item: compare with published numbers only
	Round                  int     // selected on validation; metrics are from it, Recommend uses the last round
	Sampled, Full          Metrics // on test items, ranked among sampled candidates and among all items
	Epsilon, Delta         float64 // the privacy budget that was spent; 0 without differential privacy

	mu     sync.Mutex
	run    *sim.Run
	source data.Source
	user   map[string]int
	item   map[string]int
	mean   float32 // rating; 0 before it is computed
}

// Open loads a finished run from the folder that `tacit run -o` wrote, with its trained
// model; of a run with several seeds, the first. The data must be where it was, and
// unchanged. dataDir is the folder of the known data sets; empty means $TACIT_DATA or the
// user's cache folder.
func Open(dir, dataDir string) (*Result, error) {
	return OpenWith(methods.Default(), dir, dataDir)
}

// OpenWith is [Open] for a run with a method of the given registry.
func OpenWith(registry *method.Registry, dir, dataDir string) (*Result, error) {
	s, err := experiment.Restore(registry, dir, dataDir)
	if err != nil {
		return nil, message(err)
	}
	r := &Result{run: s.Run, source: s.Source}
	return r.describe(s.Result, r.spent)
}

// Run trains a method on the data and evaluates it. If ctx is done, it stops after the
// round in progress and returns an error that wraps ctx's.
func Run(ctx context.Context, d *Data, c Config) (*Result, error) {
	if d == nil || d.source == nil {
		return nil, errors.New("no data: use Load or Read first")
	}
	for key, value := range c.Settings {
		switch {
		case slices.Contains(dataKeys, key) && value != d.settings[key]:
			return nil, fmt.Errorf("setting %s belongs to the data: pass it to Load or Read", key)
		case key == "seeds":
			return nil, errors.New("setting seeds: call Run once per seed, with Config.Seed")
		}
	}
	given := maps.Clone(d.settings)
	if given == nil {
		given = Settings{}
	}
	maps.Copy(given, c.Settings)
	for key, value := range map[string]string{"method": c.Method, "protocol": c.Protocol} {
		if value != "" {
			given[key] = value
		}
	}
	if c.Seed != 0 {
		given["seed"] = fmt.Sprint(c.Seed)
	}
	spec, err := resolve(c.Methods, given)
	if err != nil {
		return nil, err
	}
	src, err := d.sourceFor(&spec.Settings)
	if err != nil {
		return nil, err
	}
	spec.FitTo(src)
	r := &Result{source: src}
	job := &experiment.Job{Spec: spec, Source: src, Jobs: c.Workers, NoReferences: true}
	if job.Jobs < 1 {
		job.Jobs = runtime.NumCPU()
	}
	job.OnEvent = func(event experiment.Event) {
		switch e := event.(type) {
		case experiment.Started:
			r.run = e.Run
		case experiment.RoundEnded:
			if c.Progress != nil {
				c.Progress(roundOf(e.Event, spec.Rounds))
			}
		}
	}
	if err := job.ChooseSettings(ctx); err != nil {
		return nil, stopped(ctx, err)
	}
	got, err := job.Run(ctx)
	if err != nil {
		return nil, stopped(ctx, err)
	}
	return r.describe(got, r.spent)
}

// describe sets the exported fields and returns r, or nil if the privacy budget that was spent cannot be computed.
func (r *Result) describe(got *result.Result, spent func() (epsilon, delta float64, err error)) (*Result, error) {
	r.Method, r.Data, r.Protocol, r.Seed = got.Method, got.Dataset, got.Protocol, got.Seed
	r.Leaks, r.Round = got.Leaks, got.SelectedRound
	r.Sampled, r.Full = Metrics(got.Test.Sampled), Metrics(got.Test.Full)
	var err error
	if r.Epsilon, r.Delta, err = spent(); err != nil {
		return nil, fmt.Errorf("the privacy budget that the run spent: %w", err)
	}
	return r, nil
}

// spent returns the privacy budget that was spent; 0 without differential privacy.
func (r *Result) spent() (epsilon, delta float64, err error) {
	s, private, err := r.run.Spent()
	if err != nil || !private {
		return 0, 0, err
	}
	return s.Epsilon, s.Delta, nil
}

func roundOf(e sim.Event, rounds int) Round {
	out := Round{Round: e.Round, Rounds: rounds, Devices: e.Devices}
	if e.Valid != nil {
		out.HR, out.NDCG = e.Valid.Sampled["hr@10"], e.Valid.Sampled["ndcg@10"]
	}
	return out
}

// resolve checks the settings and adds defaults and the preset.
func resolve(registry *method.Registry, s Settings) (*experiment.Spec, error) {
	if registry == nil {
		registry = methods.Default()
	}
	var given []experiment.Setting
	for _, key := range slices.Sorted(maps.Keys(s)) {
		given = append(given, experiment.Setting{Key: key, Value: s[key], From: "settings"})
	}
	spec, err := experiment.ResolveIn(registry, given)
	return spec, message(err)
}

// message adds the next step to an error that has one.
func message(err error) error {
	var in *experiment.InputError
	if errors.As(err, &in) && in.Hint != "" {
		return fmt.Errorf("%w (%s)", err, in.Hint)
	}
	return err
}

// stopped wraps the context's error if that is why a run stopped.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return message(err)
}

// Methods lists the names of the built-in methods.
func Methods() []string {
	var out []string
	for _, e := range methods.Default().Entries() {
		out = append(out, e.Name)
	}
	return out
}

// Protocols lists the names of the evaluation protocols.
func Protocols() []string {
	var out []string
	for _, p := range data.Protocols() {
		out = append(out, p.Name)
	}
	return out
}
