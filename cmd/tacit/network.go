package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// simulationOnly are settings that only a simulation has, with what to do instead.
var simulationOnly = map[string]string{
	"noise":     "use --dp for noise, such as --dp epsilon=8",
	"dropout":   "real devices drop out by themselves; tacit fleet simulates it with --drop",
	"straggle":  "real devices are late by themselves; tacit fleet simulates it with --slow",
	"new-users": "users that are not enrolled take no part in training",
	"encode":    "devices always send reports without zeros",
	"plain":     "",

	"time-cut": splitByDevices, "test-file": splitByDevices, "valid-file": splitByDevices,
	"test-rows": splitByDevices,
}

const splitByDevices = "each device holds out its newest interaction for the evaluation by devices"

// checkNetworkSettings rejects settings that have no effect on a coordinator.
func checkNetworkSettings(s *experiment.Spec) error {
	for k, hint := range simulationOnly {
		if from := s.From[k]; from != "" && from != "default" && from != "method" {
			return input(fmt.Errorf("%s: %s is for simulations only", from, k), hint)
		}
	}
	if s.Secagg == "assumed" {
		return input(errors.New("secagg = assumed: for simulations only"), "use --secagg on")
	}
	return nil
}

// networkSpec resolves the settings of a run on a coordinator. Those of the user override those before.
func networkSpec(c *cobra.Command, words []string, settings func() []experiment.Setting,
	f *serveFlags, before ...experiment.Setting,
) (*experiment.Spec, error) {
	given, err := collectSettings(c, words, settings)
	if err != nil {
		return nil, err
	}
	spec, err := experiment.Resolve(append(before, given...))
	if err != nil {
		return nil, err
	}
	if spec.From["eval-every"] == "command line" {
		f.evalEvery = spec.EvalEvery
	}
	return spec, checkNetworkSettings(spec)
}

// runSettings are the settings of a run on a coordinator, by the names of their flags.
func runSettings(s *experiment.Spec, f *serveFlags) map[string]any {
	return map[string]any{
		"method": s.Method, "rounds": s.Rounds, "batch": s.Batch, "negatives": s.Negatives, "cohort": s.Cohort,
		"mean": s.Mean, "server": s.Server, "dp": s.DP, "bits": s.Bits, "keep": s.Keep, "seed": s.Seed,
		"secagg": s.Secagg == "on",
		"name":   f.name, "devices": f.devices, "goal": f.goal, "min-share": f.minShare,
		"deadline": f.deadline.String(), "runs": f.runs, "eval-every": f.evalEvery, "group-size": f.groupSize,
		"count-items": f.countItems, "deterministic": f.deterministic,
	}
}

// typedFlags are the names of the flags that the user set. A former name stands for the flag as well.
func typedFlags(c *cobra.Command) map[string]bool {
	out := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) {
		c.Flags().VisitAll(func(other *pflag.Flag) {
			if other.Value == f.Value {
				out[other.Name] = true
			}
		})
	})
	return out
}

// setsRun reports whether the user set a flag of runFlags, or the name of the federation.
func (f *serveFlags) setsRun(c *cobra.Command) bool {
	all := runSettings(&experiment.Spec{}, f)
	for key := range typedFlags(c) {
		if _, ok := all[key]; ok || key == "user-column" || key == "row-column" {
			return true
		}
	}
	return false
}

// changedSettings are the settings of a run that the user named, with the keys of coordinator.Settings.
func changedSettings(c *cobra.Command, s *experiment.Spec, f *serveFlags) (map[string]any, error) {
	typed := typedFlags(c)
	hasItems := s.Typed("data") || f.catalogue != ""
	all, out, params := runSettings(s, f), map[string]any{}, map[string]string{}
	values := paramTexts(s.Params)
	for key := range s.From {
		if text, ok := values[key]; ok && s.Typed(key) {
			params[key] = text
		} else if s.Typed(key) {
			typed[key] = true
		}
	}
	for key := range typed {
		value, ok := all[key]
		if !ok && !hasItems && (s.Typed(key) || key == "user-column" || key == "row-column") && key != "preset" {
			return nil, input(fmt.Errorf("--%s is for the items of a run", key), "add -d NAME or --catalogue FILE")
		}
		if key == "secagg" {
			key = "masked"
		}
		if ok {
			out[strings.ReplaceAll(key, "-", "_")] = value
		}
	}
	if len(params) > 0 {
		out["params"] = params
	}
	return out, nil
}

// paramTexts are the parameters of a method as text.
func paramTexts(m method.Method) map[string]string {
	out := map[string]string{}
	for k, v := range param.Values(m) {
		out[k] = fmt.Sprint(v)
		if x, ok := v.(float64); ok {
			out[k] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	return out
}

// coordinatorSettings turns an experiment's settings into those of a coordinator.
func coordinatorSettings(s *experiment.Spec, f *serveFlags) coordinator.Settings {
	out := coordinator.Settings{
		Name: f.name, Method: s.Method, Params: paramTexts(s.Params), Config: s.Config,
		Masked: s.Secagg == "on", GroupSize: f.groupSize, Runs: f.runs,
		Devices: f.devices, Goal: f.goal, Minimum: f.minShare, Deadline: f.deadline, EvalEvery: f.evalEvery,
		CountItems:    f.countItems,
		Deterministic: f.deterministic, Seed: s.Seed,
	}
	if out.Name == "" {
		from := filepath.Base(s.Data)
		if f.catalogue != "" {
			from = strings.TrimSuffix(filepath.Base(f.catalogue), filepath.Ext(f.catalogue))
		}
		out.Name = s.Method + " on " + from
	}
	if !f.deterministic {
		out.Seed = 0 // the coordinator draws a secret one
	}
	return out
}

// checkedSettings are the settings of a run on a coordinator. It prints a note if sums are imprecise.
func (a *app) checkedSettings(s *experiment.Spec, f *serveFlags, items int,
	features *rows.Features) (coordinator.Settings,
	error,
) {
	if f.devices == 0 {
		return coordinator.Settings{}, input(errors.New("--devices is missing: the number of devices of the run"),
			"example: --devices 1000")
	}
	s.FitToDevices(f.devices)
	out := coordinatorSettings(s, f)
	if err := out.Check(); err != nil {
		return out, input(err, "")
	}
	out.Features = features
	levels, err := out.MaxInteger(items)
	if err != nil {
		return out, input(err, "")
	}
	a.noteBits(s, f.devices, true, levels)
	return out, nil
}

// catalogueOf returns the items of a data set, and nothing about its users.
func catalogueOf(src data.Source) []*pb.Item {
	info := src.Info()
	out := make([]*pb.Item, src.Items())
	for i := range out {
		id := fmt.Sprint(i)
		if info.ItemID != nil {
			id = info.ItemID[i]
		}
		out[i] = &pb.Item{Id: id, Title: clip(info.ItemName(i), 200)}
	}
	return out
}

// clip shortens a text to at most the given number of bytes, without splitting a letter.
func clip(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return -1
		}
		return r
	}, s)
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && s[len(s)-1]&0xc0 == 0x80 {
		s = s[:len(s)-1]
	}
	return s[:max(len(s)-1, 0)]
}

// splitOf opens and splits the data of an experiment.
func splitOf(s *experiment.Spec, dir string) (*data.Split, error) {
	src, err := experiment.OpenData(&s.Settings, dir)
	if err != nil {
		return nil, err
	}
	p, err := data.ProtocolNamed(s.Protocol)
	if err != nil {
		return nil, input(err, "")
	}
	return data.NewSplit(src, p, s.Seed)
}

func isFeatured(m method.Method) bool {
	_, ok := method.As[method.Featured](m)
	return ok
}

// freePort returns a free local address. Its port is below the range that systems hand out, so that a
// coordinator that was killed finds it free again.
func freePort() (string, error) {
	var l net.Listener
	var err error
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// enrolment describes how many devices have enrolled and are active.
func enrolment(s *coordinator.Status) string {
	if s.Enrolled < s.Devices {
		return fmt.Sprintf("%d of %d enrolled", s.Enrolled, s.Devices)
	}
	return fmt.Sprintf("%d active, %d enrolled; the run is planned for %d", s.Active, s.Enrolled, s.Devices)
}
