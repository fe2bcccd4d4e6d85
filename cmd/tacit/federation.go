package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// welcome is what a coordinator leaves in its folder for programs of the same user: how
// to reach it, and the tokens. Nobody else can read it.
type welcome struct {
	URL   string `json:"url"`
	Pin   string `json:"pin,omitempty"`
	Token string `json:"token"` // to enrol with
	Admin string `json:"admin"` // an operator's
}

const welcomeFile = "local.json"

// stateDir is where a coordinator keeps its state unless it is told otherwise.
func stateDir() string {
	if dir := os.Getenv("TACIT_STATE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "tacit", "coordinator")
}

func (w *welcome) save(dir string) error {
	b, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, welcomeFile)
	if err := atomicfile.Write(path, append(b, '\n')); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

func readWelcome(dir string) (*welcome, error) {
	b, err := os.ReadFile(filepath.Join(dir, welcomeFile))
	if err != nil {
		return nil, err
	}
	w := &welcome{}
	return w, json.Unmarshal(b, w)
}

// reach are the flags of who calls a coordinator.
type reach struct {
	state, url, pin, token string
	insecure               bool
}

func (r *reach) flags(c *cobra.Command, token string) {
	f := c.Flags()
	f.StringVar(&r.url, "coordinator", "", "its address, such as https://host:7633; else that of --state")
	f.StringVar(&r.pin, "pin", "", "the pin that the coordinator prints, where its certificate is its own")
	f.StringVar(&r.token, "token", "", token)
	f.StringVar(&r.state, "state", stateDir(),
		"the folder of a coordinator on this machine, which says how to reach it")
	f.BoolVar(&r.insecure, "insecure", false, "allow http://, where anybody on the way reads what is sent")
}

// find completes the flags with what the coordinator's folder says.
func (r *reach) find(admin bool) (*welcome, error) {
	w := &welcome{URL: r.url, Pin: r.pin}
	if r.url == "" {
		local, err := readWelcome(r.state)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, input(fmt.Errorf("no coordinator has its state in %s", r.state),
				"start one with tacit serve, or give --coordinator, --pin and --token")
		}
		if err != nil {
			return nil, err
		}
		w = local
	}
	if r.token != "" {
		w.Token, w.Admin = r.token, r.token
	}
	if admin && w.Admin == "" || !admin && w.Token == "" {
		return nil, input(errors.New("a token is missing"), "--token TOKEN; tacit admin token makes one to enrol "+
			"with; the operator's is in local.json of the coordinator's state folder")
	}
	return w, nil
}

func (r *reach) options(w *welcome) rpc.Options {
	return rpc.Options{URL: w.URL, Pin: w.Pin, Insecure: r.insecure, Token: w.Admin}
}

// simulated are settings that only a simulation has a use for.
var simulated = map[string]string{
	"noise": "over a network noise is dp's: --dp epsilon=8", "dropout": "devices drop out by themselves; tacit " +
		"fleet has --drop", "straggle": "devices are late by themselves; tacit fleet has --slow",
	"new-users": "who is not enrolled takes no part", "encode": "reports travel without zeros always", "plain": "",
}

// onNetwork refuses settings that would do nothing here.
func onNetwork(s *experiment.Spec) error {
	for k, hint := range simulated {
		if from := s.From[k]; from != "" && from != "default" && from != "method" {
			return input(fmt.Errorf("%s: %s is of simulations alone", from, k), hint)
		}
	}
	if s.Secagg == "assumed" {
		return input(errors.New("secagg=assumed takes for granted what a network has to do"), "--secagg on")
	}
	return nil
}

// networked resolves the settings of a run that is to be run by real devices.
func networked(words []string, settings func() []experiment.Setting) (*experiment.Spec, error) {
	given, err := collectSettings(words, settings)
	if err != nil {
		return nil, err
	}
	spec, err := experiment.Resolve(given)
	if err != nil {
		return nil, err
	}
	return spec, onNetwork(spec)
}

// federated turns an experiment's settings into those of a coordinator.
func federated(s *experiment.Spec, f *serveFlags) coordinator.Settings {
	out := coordinator.Settings{
		Name: f.name, Method: s.Method, Params: map[string]string{}, Config: s.Config,
		Masked: s.Secagg == "on", Bucket: f.bucket,
		Devices: f.devices, Goal: f.goal, Least: f.least, Deadline: f.deadline, Readout: f.readout,
		Rehearsal: f.rehearsal, Seed: s.Seed,
	}
	if out.Name == "" {
		out.Name = s.Method + " on " + filepath.Base(s.Data)
	}
	if !f.rehearsal {
		out.Seed = 0 // the coordinator draws one
	}
	for k, v := range param.Values(s.Params) {
		out.Params[k] = fmt.Sprint(v)
		if x, ok := v.(float64); ok {
			out.Params[k] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	return out
}

// settled are the settings of a run on a coordinator, when it has been said what its sums
// leave of a device's numbers.
func (a *app) settled(s *experiment.Spec, f *serveFlags, items int, features *rows.Features) (coordinator.Settings,
	error,
) {
	out := federated(s, f)
	if err := out.Check(); err != nil {
		return out, input(err, "")
	}
	out.Features = features
	levels, err := out.Levels(items)
	if err != nil {
		return out, input(err, "")
	}
	a.noteBits(s, f.devices, true, levels)
	return out, nil
}

// catalogueOf is the items of a data set; nothing of its users.
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

// clip shortens a text to so many bytes, at a letter.
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

// splitOf opens the data of an experiment and splits it.
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

// freePort is an address that nothing listens on. It is below those that systems give to
// whoever wants any: a coordinator that was killed finds it free again.
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
