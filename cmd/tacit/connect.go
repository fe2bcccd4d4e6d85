package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// localAccess is the file that a coordinator keeps in its state folder for programs of the same user:
// how to reach it, and the tokens. Other users cannot read it.
type localAccess struct {
	URL   string `json:"url"`
	Pin   string `json:"pin,omitempty"`
	Token string `json:"token"` // for enrolment
	Admin string `json:"admin"` // for the admin API
}

const localAccessFile = "local.json"

// stateDir is the default folder of a coordinator's state.
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

func (w *localAccess) save(dir string) error {
	b, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, localAccessFile)
	if err := atomicfile.Write(path, append(b, '\n')); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

func readLocalAccess(dir string) (*localAccess, error) {
	b, err := os.ReadFile(filepath.Join(dir, localAccessFile))
	if err != nil {
		return nil, err
	}
	w := &localAccess{}
	if err := json.Unmarshal(b, w); err != nil {
		return nil, input(fmt.Errorf("%s is corrupt", filepath.Join(dir, localAccessFile)),
			"delete it and start tacit serve again, which writes a new one")
	}
	return w, nil
}

// connectFlags say how to reach a coordinator.
type connectFlags struct {
	state, url, pin, token string
	insecure               bool
}

func (r *connectFlags) flags(c *cobra.Command, token string) {
	f := c.Flags()
	f.StringVar(&r.url, "coordinator", "", "the coordinator's `URL`, such as https://host:7633")
	f.StringVar(&r.pin, "pin", "", "pin of the coordinator's certificate, which tacit serve prints")
	f.StringVar(&r.token, "token", "", token)
	f.StringVar(&r.state, "state", stateDir(),
		"state folder of a coordinator on this machine, which holds address and tokens")
	f.BoolVar(&r.insecure, "insecure", false, "allow http://: anyone on the network path can read the traffic")
}

// connectGroup is the heading of connectFlags in help pages.
var connectGroup = flagsUnder("Coordinator", "state", "coordinator pin token insecure")

// find returns how to reach the coordinator: from the flags, or from its state folder.
func (r *connectFlags) find(admin bool) (*localAccess, error) {
	w := &localAccess{URL: r.url, Pin: r.pin}
	if r.url == "" {
		local, err := readLocalAccess(r.state)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, input(fmt.Errorf("no coordinator found in %s", r.state),
				"start one with tacit serve, or add --coordinator, --pin and --token")
		}
		if err != nil {
			return nil, err
		}
		w = local
	}
	if r.token != "" {
		w.Token, w.Admin = r.token, r.token
	}
	if err := checkTLS(r.url, r.insecure); err != nil {
		return nil, err
	}
	if admin && w.Admin == "" || !admin && w.Token == "" {
		return nil, input(errors.New("--token is missing"), "devices: tacit admin token creates one; operators: "+
			"it is the field admin of local.json in the coordinator's state folder")
	}
	return w, nil
}

// checkTLS rejects an address without TLS unless --insecure allows it.
func checkTLS(url string, insecure bool) error {
	if strings.HasPrefix(url, "http://") && !insecure {
		return input(fmt.Errorf("%s: without TLS, anyone on the network path can read the traffic", url),
			"use https://, or add --insecure")
	}
	return nil
}

func (r *connectFlags) options(w *localAccess) rpc.Options {
	return rpc.Options{URL: w.URL, Pin: w.Pin, Insecure: r.insecure, Token: w.Admin}
}
