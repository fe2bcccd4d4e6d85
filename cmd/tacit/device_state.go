package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/statefile"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
)

// stateFlags say which state file, and how it is opened.
type stateFlags struct {
	state, phraseFile string
	ask, keyring      bool
}

func (s *stateFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&s.state, "state", "", "the device's state file; else the one of the user's cache folder that was "+
		"used last")
	fl.BoolVar(&s.ask, "passphrase", false, "ask for the passphrase of the state file")
	fl.StringVar(&s.phraseFile, "passphrase-file", "", "a file with the passphrase; else $TACIT_PASSPHRASE")
	fl.BoolVar(&s.keyring, "keyring", false, "encrypt a new state file with a key in the system's keyring")
}

func deviceDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "tacit", "devices")
}

// path is the state file: the one that is given, the one of a name, or the newest.
func (s *stateFlags) path(name string, isNew bool) (string, error) {
	if s.state != "" {
		return s.state, nil
	}
	if name != "" {
		return filepath.Join(deviceDir(), name+".state"), nil
	}
	files, err := filepath.Glob(filepath.Join(deviceDir(), "*.state"))
	if err != nil {
		return "", err
	}
	newest, at := "", int64(0)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && (newest == "" || info.ModTime().UnixNano() > at) {
			newest, at = f, info.ModTime().UnixNano()
		}
	}
	if newest == "" && isNew {
		return filepath.Join(deviceDir(), "device.state"), nil
	}
	if newest == "" {
		return "", input(errors.New("no device has run here"), "tacit device --help shows how to start one; or give "+
			"--state FILE")
	}
	return newest, nil
}

// sealing is how a state file is opened, or a new one sealed.
func (s *stateFlags) sealing() statefile.Options {
	return statefile.Options{Keyring: s.keyring, Passphrase: s.passphrase}
}

func (s *stateFlags) passphrase(isNew bool) ([]byte, error) {
	if s.phraseFile != "" {
		b, err := os.ReadFile(s.phraseFile)
		if err != nil {
			return nil, input(err, "")
		}
		return bytes.TrimRight(b, "\r\n"), nil
	}
	if p := os.Getenv("TACIT_PASSPHRASE"); p != "" {
		return []byte(p), nil
	}
	if isNew && !s.ask {
		return nil, nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, input(errors.New("the state file has a passphrase, and nobody is here to type it"),
			"set $TACIT_PASSPHRASE, or give --passphrase-file FILE")
	}
	first, err := askPhrase("passphrase: ")
	if err != nil || !isNew {
		return first, err
	}
	again, err := askPhrase("once more: ")
	if err == nil && !bytes.Equal(first, again) {
		err = input(errors.New("the two passphrases differ"), "")
	}
	return first, err
}

func askPhrase(prompt string) ([]byte, error) {
	fmt.Fprint(os.Stderr, prompt)
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(int(os.Stdin.Fd()))
}

// existing opens a state file that must be there, without a coordinator.
func (s *stateFlags) existing() (*device.Device, *statefile.File, string, error) {
	path, err := s.path("", false)
	if err != nil {
		return nil, nil, "", err
	}
	file := statefile.Open(path, s.sealing())
	if !file.Exists() {
		return nil, nil, "", input(fmt.Errorf("there is no state file %s", path), "tacit device --state "+path+
			" makes one; see tacit device --help")
	}
	d, err := device.Open(device.Options{
		Store: file, Blobs: statefile.OpenFolder(path + ".model"),
		Workspace: &device.Workspace{Memory: 16 << 30}, Deterministic: true,
	})
	return d, file, path, err
}

// ownName is the name of the state file of a user that is played.
func (f *deviceFlags) ownName() string {
	if f.data == "" {
		return ""
	}
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:. `, r) {
			return '_'
		}
		return r
	}, filepath.Base(f.data)+"-"+f.user)
	return clean
}

// events reads the history that the flags name, and what its owner is like.
func (f *deviceFlags) events() (events []device.Event, features map[string]string, err error) {
	given, err := readFeatures("features", f.features)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case f.history != "" && f.data != "":
		return nil, nil, input(errors.New("--history and -d are two histories"), "give one of them")
	case (f.data == "") != (f.user == ""):
		return nil, nil, input(errors.New("-d and --user go together"), "for example: tacit device -d ml-100k --user 7")
	case f.history != "":
		in, err := os.Open(f.history)
		if err != nil {
			return nil, nil, input(err, "")
		}
		defer in.Close()
		events, err := device.ReadEvents(in)
		if err != nil {
			return nil, nil, input(fmt.Errorf("%s: %w", f.history, err),
				"one line per event: item id, or item id and time")
		}
		return events, given, nil
	case f.data != "":
		events, features, err := f.played()
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(features, given)
		return events, features, nil
	}
	return nil, given, nil
}

// played is the history of a user of a data set, with the ids of its catalogue, and what
// the set knows of the user.
func (f *deviceFlags) played() ([]device.Event, map[string]string, error) {
	var s experiment.Settings
	param.Defaults(&s)
	s.Data = f.data
	src, err := experiment.OpenData(&s, f.dataDir)
	if err != nil {
		return nil, nil, err
	}
	info := src.Info()
	u := -1
	for i := range src.Users() {
		if info.UserName(i) == f.user {
			u = i
			break
		}
	}
	if u < 0 {
		return nil, nil, input(fmt.Errorf("%s has no user %q", f.data, f.user), fmt.Sprintf("it has %d, such as %s",
			src.Users(), info.UserName(0)))
	}
	var h data.History
	src.History(u, &h)
	items := catalogueOf(src)
	out := make([]device.Event, len(h.Items))
	for i, item := range h.Items {
		out[i] = device.Event{Item: items[item].Id, Time: int64(i)}.WithFeatures(valuesAt(info.Features.Row, h.First+i))
		if h.Times != nil && info.TimeKind == data.RealTime {
			out[i].Time = 1000 * h.Times[i]
		}
	}
	return out, valuesAt(info.Features.User, u), nil
}

// valuesAt is what columns say of one user or interaction, in words.
func valuesAt(columns []rows.Column, k int) map[string]string {
	out := map[string]string{}
	for i := range columns {
		c := &columns[i]
		if c.Card == 0 {
			out[c.Name] = fmt.Sprint(c.Value[k])
			continue
		}
		var names []string
		for _, code := range c.Of(uint32(k)) {
			name := fmt.Sprint(code)
			if len(c.Names) > 0 {
				name = c.Names[code]
			}
			names = append(names, name)
		}
		out[c.Name] = strings.Join(names, "|")
	}
	return out
}

// readFeatures reads name=value,..., or a file of lines of name and value.
func readFeatures(flag, text string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	want := "want name=value,name=value, or a CSV file of name and value"
	if !strings.Contains(text, "=") {
		file, err := os.Open(text)
		if err != nil {
			return nil, input(fmt.Errorf("--%s %q: that is no name=value, and no file: %w", flag, text, err), want)
		}
		defer file.Close()
		in := csv.NewReader(io.LimitReader(file, 1<<20))
		in.FieldsPerRecord, in.TrimLeadingSpace = 2, true
		lines, err := in.ReadAll()
		if err != nil {
			return nil, input(fmt.Errorf("%s: %w", text, err), want)
		}
		for _, f := range lines {
			out[strings.TrimSpace(f[0])] = strings.TrimSpace(f[1])
		}
		return out, nil
	}
	for _, word := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(word, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, input(fmt.Errorf("--%s: %q is no name=value", flag, word), want)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}
