package statefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/zalando/go-keyring"
)

func phrase(s string) func(bool) ([]byte, error) {
	return func(bool) ([]byte, error) { return []byte(s), nil }
}

func TestStateFileRoundTripsWithEveryEncryption(t *testing.T) {
	keyring.MockInit()
	secret := []byte("what the owner did on Sunday")
	for name, c := range map[string]struct {
		opt   Options
		words string
		open  bool // the secret is readable in the file
	}{
		"passphrase": {Options{Passphrase: phrase("correct horse"), kib: 64}, "passphrase", false},
		"keyring":    {Options{Keyring: true}, "keyring", false},
		"mode":       {Options{}, "NOT encrypted", true},
		"no phrase":  {Options{Passphrase: phrase("")}, "NOT encrypted", true},
	} {
		path := filepath.Join(t.TempDir(), "deep", "a.state")
		f := Open(path, c.opt)
		if b, err := f.Load(); b != nil || err != nil {
			t.Fatalf("%s: an absent file holds %q, %v", name, b, err)
		}
		for _, b := range [][]byte{[]byte("first"), secret} {
			if err := f.Save(b); err != nil {
				t.Fatal(name, err)
			}
		}
		again := Open(path, c.opt)
		got, err := again.Load()
		if err != nil || !bytes.Equal(got, secret) || !strings.Contains(again.Protection(), c.words) {
			t.Errorf("%s: %q, %v, %s", name, got, err, again.Protection())
		}
		raw, _ := os.ReadFile(path)
		if bytes.Contains(raw, secret) != c.open {
			t.Errorf("%s: the secret can be read in the file: %v", name, !c.open)
		}
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
		for i := range raw { // every byte matters
			bad := bytes.Clone(raw)
			bad[i] ^= 1
			os.WriteFile(path, bad, 0o600)
			if b, err := Open(path, cheap(c.opt, bad)).Load(); err == nil {
				t.Errorf("%s: with byte %d changed it holds %q", name, i, b)
			}
		}
		os.WriteFile(path, raw, 0o600)
		if err := again.Wipe(); err != nil || again.Exists() {
			t.Errorf("%s: wiped, %v", name, err)
		}
		os.WriteFile(path, raw, 0o600) // a copy that somebody kept
		if b, err := Open(path, c.opt).Load(); name == "keyring" && err == nil {
			t.Errorf("%s: a copy can be read after the key was wiped: %q", name, b)
		}
	}
}

// cheap returns opt. If a changed header asks for a costly passphrase, it returns options without one, which
// is an error too.
func cheap(opt Options, b []byte) Options {
	if s, _, err := parse(b); err == nil && s.kind == byPassphrase {
		if n, m, _ := s.cost(); n != passes || m != 64 {
			return Options{}
		}
	}
	return opt
}

func TestRejectsAWrongPassphrase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.state")
	if err := Open(path, Options{Passphrase: phrase("right"), kib: 64}).Save([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Passphrase: phrase("wrong")}).Load(); !errors.Is(err, ErrPassphrase) {
		t.Error(err)
	}
	if _, err := Open(path, Options{}).Load(); err == nil || errors.Is(err, ErrPassphrase) {
		t.Errorf("without one: %v", err)
	}
}

func TestRefusesFilesOfOtherVersionsAndCosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.state")
	head := append([]byte(magic), fileVersion+1, plain)
	os.WriteFile(path, head, 0o600)
	if _, err := Open(path, Options{}).Load(); err == nil || !strings.Contains(err.Error(), "version") {
		t.Error(err)
	}
	costly := append(append([]byte(magic), fileVersion, byPassphrase), bytes.Repeat([]byte{255}, 60)...)
	os.WriteFile(path, costly, 0o600)
	if _, err := Open(path, Options{Passphrase: phrase("x")}).Load(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a passphrase that costs 4 billion passes: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	good, err := (&encryption{kind: plain, header: append([]byte(magic), fileVersion, plain)}).encrypt([]byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(append([]byte(magic), fileVersion, byPassphrase), make([]byte, 60)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, body, err := parse(b)
		if err != nil || s.kind == byKeyring || s.kind == byPassphrase {
			return
		}
		if got, err := s.decrypt(body); err == nil {
			if again, _ := s.encrypt(got); !bytes.Equal(again, b) {
				t.Error("a file is read that nobody would write")
			}
		}
	})
}

// Concurrent changes under the lock lose nothing.
func TestLockExcludesOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.state")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				f := Open(path, Options{})
				unlock, err := f.Lock()
				if err != nil {
					t.Error(err)
					return
				}
				b, err := f.Load()
				if err == nil {
					err = f.Save(append(bytes.Clone(b), '.'))
				}
				unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if b, err := Open(path, Options{}).Load(); err != nil || len(b) != 80 {
		t.Errorf("of 80 changes %d are there, %v", len(b), err)
	}
	release, err := Open(path, Options{}).Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}).Acquire(); !errors.Is(err, ErrInUse) {
		t.Errorf("two run it: %v", err)
	}
	release()
	if release, err = Open(path, Options{}).Acquire(); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

func TestFolderKeepsOnlyTheGivenBlobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	f := OpenFolder(dir)
	a, b := [32]byte{1}, [32]byte{2}
	for _, h := range [][32]byte{a, b} {
		if got, err := f.Get(h); got != nil || err != nil {
			t.Fatal(err)
		}
		if err := f.Put(h, h[:1]); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600)
	if err := f.Keep([][32]byte{b}); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Get(a); got != nil {
		t.Error("the first is still there")
	}
	if got, _ := f.Get(b); !bytes.Equal(got, b[:1]) {
		t.Error("the second is gone")
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error("a file of somebody else is gone")
	}
}

func TestReadsConditionsFromTheComputer(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	const dir = "sys/class/power_supply/"
	battery := fstest.MapFS{dir + "BAT0/type": file("Battery"), dir + "BAT0/status": file("Discharging")}
	plugged := fstest.MapFS{dir + "BAT0/type": file("Battery"), dir + "BAT0/status": file("Discharging"), dir +
		"AC/type": file("Mains"), dir + "AC/online": file("1")}
	mouse := fstest.MapFS{dir + "hid/type": file("Battery"), dir + "hid/status": file("Discharging"), dir +
		"hid/scope": file("Device")}
	for name, c := range map[string]struct {
		root fstest.MapFS
		m    Conditions
		want bool
	}{
		"on a battery":          {battery, Conditions{OnPower: true}, false},
		"on a battery, allowed": {battery, Conditions{}, true},
		"plugged in":            {plugged, Conditions{OnPower: true}, true},
		"a mouse's battery":     {mouse, Conditions{OnPower: true}, true},
		"not known":             {fstest.MapFS{}, Conditions{OnPower: true, WhenIdle: true}, true},
		"busy": {
			fstest.MapFS{"proc/loadavg": file("9999.0 1 1 1/1 1")},
			Conditions{WhenIdle: true},
			false,
		},
		"idle": {fstest.MapFS{"proc/loadavg": file("0.00 1 1 1/1 1")}, Conditions{WhenIdle: true}, true},
	} {
		if got, why := c.m.Met(c.root); got != c.want || got == (why != "") {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}
