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
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/param"
)

// stateFlags name the state file and say how to open it.
type stateFlags struct {
	state, phraseFile string
	ask, keyring      bool
}

func (s *stateFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&s.state, "state", "", "state file of the device, instead of the last used one in the cache folder")
	fl.BoolVar(&s.ask, "passphrase", false, "ask for a passphrase, which encrypts the state file")
	fl.StringVar(&s.phraseFile, "passphrase-file", "", "file with the passphrase, instead of $TACIT_PASSPHRASE")
	fl.BoolVar(&s.keyring, "keyring", false, "encrypt a new state file with a key in the system's keyring")
}

// stateGroup is the heading of stateFlags in help pages.
var stateGroup = flagsUnder("State", "state passphrase", "passphrase-file keyring")

func deviceDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "tacit", "devices")
}

// path returns the state file: the given one, that of a name, or the last used one.
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
		return "", input(errors.New("no device found on this machine"),
			"start one (tacit device --help), or add --state FILE")
	}
	return newest, nil
}

// encryption says how a state file is encrypted.
func (s *stateFlags) encryption() statefile.Options {
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
		return nil, input(errors.New("the state file needs a passphrase, but standard input is not a terminal"),
			"set $TACIT_PASSPHRASE, or add --passphrase-file FILE")
	}
	first, err := askPassphrase("passphrase: ")
	if err != nil || !isNew {
		return first, err
	}
	again, err := askPassphrase("repeat the passphrase: ")
	if err == nil && !bytes.Equal(first, again) {
		err = input(errors.New("the two passphrases differ"), "")
	}
	return first, err
}

func askPassphrase(prompt string) ([]byte, error) {
	fmt.Fprint(os.Stderr, prompt)
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(int(os.Stdin.Fd()))
}

// existing opens an existing state file, without a coordinator.
func (s *stateFlags) existing() (*device.Device, *statefile.File, string, error) {
	path, err := s.path("", false)
	if err != nil {
		return nil, nil, "", err
	}
	file := statefile.Open(path, s.encryption())
	if !file.Exists() {
		return nil, nil, "", input(fmt.Errorf("state file %s not found", path), "tacit device --state "+path+
			" creates one; see tacit device --help")
	}
	d, err := device.Open(device.Options{
		Store: file, Blobs: statefile.OpenFolder(path + ".model"),
		Workspace: &device.Workspace{Memory: 16 << 30}, Deterministic: true,
	})
	return d, file, path, err
}

// ownName returns the name of the state file for a user of a data set.
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

// events reads the history and the owner's features from the flags.
func (f *deviceFlags) events() (events []device.Event, features map[string]string, err error) {
	given, err := readFeatures("features", f.features)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case f.history != "" && f.data != "":
		return nil, nil, input(errors.New("--history and -d exclude each other: a device has one history"),
			"omit one of them")
	case (f.data == "") != (f.user == ""):
		return nil, nil, input(errors.New("-d and --user must be given together"),
			"example: tacit device -d world --user 7")
	case f.history != "":
		in, err := os.Open(f.history)
		if err != nil {
			return nil, nil, input(err, "")
		}
		defer in.Close()
		events, err := device.ReadEvents(in)
		if err != nil {
			return nil, nil, input(fmt.Errorf("%s: %w", f.history, err),
				"each line must hold an item ID, or an item ID and a time")
		}
		return events, given, nil
	case f.data != "":
		events, features, err := f.userHistory()
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(features, given)
		return events, features, nil
	}
	return nil, given, nil
}

// userHistory returns the history of a user of a data set, with the item IDs of its catalogue, and the
// user's features.
func (f *deviceFlags) userHistory() ([]device.Event, map[string]string, error) {
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
		return nil, nil, input(fmt.Errorf("unknown user %q in %s", f.user, f.data), fmt.Sprintf("it has %s, such as %s",
			format.Plural(src.Users(), "user"), info.UserName(0)))
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

// valuesAt returns the values of the columns for one user or interaction, as text.
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

// readFeatures reads name=value,... or a CSV file of names and values.
func readFeatures(flag, text string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	hint := "expected name=value,name=value, or a CSV file of name and value"
	if !strings.Contains(text, "=") {
		file, err := os.Open(text)
		if err != nil {
			return nil, input(fmt.Errorf("--%s %q: neither name=value nor a file", flag, text), hint)
		}
		defer file.Close()
		in := csv.NewReader(io.LimitReader(file, 1<<20))
		in.FieldsPerRecord, in.TrimLeadingSpace = 2, true
		lines, err := in.ReadAll()
		if err != nil {
			return nil, input(fmt.Errorf("%s: %w", text, err), hint)
		}
		for _, f := range lines {
			out[strings.TrimSpace(f[0])] = strings.TrimSpace(f[1])
		}
		return out, nil
	}
	for _, word := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(word, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, input(fmt.Errorf("--%s: %q is not name=value", flag, word), hint)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}
