package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A state folder that others can use is closed, or refused if they could have changed its files.
func TestStateFolderIsClosedToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders have no mode on Windows")
	}
	for _, c := range []struct {
		mode, after fs.FileMode
		refused     bool
	}{{0o700, 0o700, false}, {0o755, 0o700, false}, {0o770, 0o700, false}, {0o777, 0o777, true}, {0o702, 0o702, true}} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		warnings := 0
		err := closeStateDir(dir, func(string) { warnings++ })
		if info, _ := os.Stat(dir); (err != nil) != c.refused || info.Mode().Perm() != c.after {
			t.Errorf("mode %04o: %v, mode %04o afterwards, want %04o", c.mode, err, info.Mode().Perm(), c.after)
		}
		if want := c.mode != c.after; (warnings == 1) != want {
			t.Errorf("mode %04o: %d warnings", c.mode, warnings)
		}
	}
	dir := t.TempDir()
	if err := (&localAccess{Admin: "secret"}).save(dir); err != nil {
		t.Fatal(err)
	}
	if err := checkLocalAccess(dir); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(dir, localAccessFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkLocalAccess(dir); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a token that all may read: %v", err)
	}
}

// Nothing in a coordinator's folder can be read by other users.
func TestEveryFileOfACoordinatorIsClosed(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("starts a coordinator: run without -short")
	}
	dir := serving(t, "-d", "world", "--world", "users=8,items=40,mean-rows=8", "-m", "fedmf")
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // a temporary file
		}
		info, err := e.Info()
		switch {
		case err != nil:
		case e.IsDir() && info.Mode().Perm()&0o077 == 0 && path != dir:
			files++
			return fs.SkipDir // nobody else can enter it
		case !e.IsDir() && info.Mode().Perm()&0o077 != 0 && isSecret(e.Name()),
			path == dir && info.Mode().Perm() != 0o700:
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		files++
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
}

// isSecret reports whether a file may hold a key or a token. The others hold public numbers.
func isSecret(name string) bool { return name != "clock" && name != "released.json" }

// A coordinator whose certificate was lost does not start with a new pin, unless asked to.
func TestLostPinIsReplacedOnPurposeOnly(t *testing.T) {
	f := serveFlags{state: t.TempDir()}
	_, _, err := f.secure(3, nil)
	if failure, _ := explainError(err); err == nil || !strings.Contains(failure.Message, "3 devices are enrolled") ||
		!strings.Contains(failure.Hint, "--new-pin") {
		t.Errorf("with 3 devices: %v", err)
	}
	f.newPin = true
	_, pin, err := f.secure(3, nil)
	if err != nil || !strings.HasPrefix(pin, "sha256/") {
		t.Errorf("with --new-pin: %q, %v", pin, err)
	}
	f.newPin = false
	if _, again, err := f.secure(3, nil); err != nil || again != pin {
		t.Errorf("at the next start: %q, %v, want %q", again, err, pin)
	}
	fresh := serveFlags{state: t.TempDir()}
	if _, _, err := fresh.secure(0, nil); err != nil {
		t.Errorf("without devices: %v", err)
	}
}

// A state folder that another version of Tacit wrote is refused with exit code 2, so that systemd does not try
// again, and with what to do. --repair does not touch it.
func TestFolderOfAnotherVersionIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte("tacit store 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"serve", "--state", dir, "--listen", "127.0.0.1:0"},
		{"serve", "--state", dir, "--repair"},
		{"admin", "backup", "--offline", dir, "-o", filepath.Join(t.TempDir(), "backup")},
	} {
		code, _, errs := tacit(words...)
		if code != exitInput || !strings.Contains(errs, "was written by an older version of Tacit") ||
			!strings.Contains(errs, "choose a new folder with --state") {
			t.Errorf("%q: exit code %d, %s", words, code, errs)
		}
	}
}
