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
	return atomicfile.WriteSecret(filepath.Join(dir, localAccessFile), append(b, '\n'))
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
	state, url, pin, token, tokenFile string
	insecure                          bool
}

// Help texts of --token-file.
const (
	adminToken = "file with the operator's token; default: $TACIT_ADMIN_TOKEN, or the state folder"
	enrolToken = "file with a token for enrolment; default: $TACIT_TOKEN, or the state folder"
)

func (r *connectFlags) flags(c *cobra.Command, tokenFile string) {
	f := c.Flags()
	f.StringVar(&r.url, "coordinator", "", "the coordinator's `URL`, such as https://host:7633")
	f.StringVar(&r.pin, "pin", "", "pin of the coordinator's certificate, which tacit serve prints")
	f.StringVar(&r.tokenFile, "token-file", "", tokenFile)
	f.StringVar(&r.token, "token", "", "the token itself; visible to other users of this machine, unlike --token-file")
	f.StringVar(&r.state, "state", stateDir(),
		"state folder of a coordinator on this machine, which holds address and tokens")
	f.BoolVar(&r.insecure, "insecure", false, "allow http://: anyone on the network path can read the traffic")
}

// connectGroup is the heading of connectFlags in help pages.
var connectGroup = flagsUnder("Coordinator", "state", "coordinator pin token-file token insecure")

// find returns how to reach the coordinator: from the flags, or from its state folder.
func (r *connectFlags) find(admin bool) (*localAccess, error) {
	w := &localAccess{URL: r.url, Pin: r.pin}
	if r.url == "" {
		local, err := readLocalAccess(r.state)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, input(fmt.Errorf("no coordinator found in %s", r.state),
				"start one with tacit serve, or add --coordinator, --pin and --token-file")
		}
		if err != nil {
			return nil, err
		}
		w = local
	}
	token, err := r.readToken(admin)
	switch {
	case err != nil:
		return nil, err
	case token != "" && admin:
		w.Admin = token
	case token != "":
		w.Token = token
	}
	if key := os.Getenv("TACIT_ADMIN_TOKEN"); key != "" && !admin {
		w.Admin = key
	}
	if err := checkTLS(r.url, r.insecure); err != nil {
		return nil, err
	}
	if admin && w.Admin == "" || !admin && w.Token == "" {
		return nil, input(errors.New("the token is missing: set --token-file or "+tokenVariable(admin)),
			"devices: tacit admin token creates one; operators: tacit admin add-operator, on its machine")
	}
	return w, nil
}

// tokenVariable is the environment variable that may hold the token.
func tokenVariable(admin bool) string {
	if admin {
		return "TACIT_ADMIN_TOKEN"
	}
	return "TACIT_TOKEN"
}

// readToken returns the token that the user gave, or none. Arguments are visible to other users of a machine; files
// and the environment are not.
func (r *connectFlags) readToken(admin bool) (string, error) {
	switch {
	case r.tokenFile != "" && r.token != "":
		return "", input(errors.New("--token and --token-file are both set"), "omit --token")
	case r.tokenFile != "":
		return readTokenFile(r.tokenFile)
	case r.token != "":
		return r.token, nil
	}
	return os.Getenv(tokenVariable(admin)), nil
}

// readTokenFile reads a file that holds only a token.
func readTokenFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", input(err, "")
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\n") {
		return "", input(fmt.Errorf("%s must hold one token and nothing else", path), "")
	}
	return token, nil
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
