package rpc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// newCertificate writes a new certificate with its key, and returns its pin.
func newCertificate(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	_, pin, err := MakeTLS(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "tls.pem"), path); err != nil {
		t.Fatal(err)
	}
	return pin
}

// New connections use a new certificate without a restart; an invalid one changes nothing and is reported once.
func TestCertificateIsReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert.pem")
	first := newCertificate(t, path)
	var warnings []string
	config, pin, err := LoadTLS(path, path, func(err error) { warnings = append(warnings, err.Error()) })
	if err != nil || pin != first {
		t.Fatalf("pin %s, %v, want %s", pin, err, first)
	}
	c := &certificateFile{certificate: path, key: path, warn: func(err error) {
		warnings = append(warnings, err.Error())
	}}
	now := time.Now()
	c.now = func() time.Time { return now }
	if err := c.load(c.stat()); err != nil {
		t.Fatal(err)
	}
	get := func() string {
		now = now.Add(checkEvery)
		return pinOf(c.get().Leaf)
	}
	if got := get(); got != first {
		t.Errorf("the pin is %s, want %s", got, first)
	}
	second := newCertificate(t, path)
	if got := get(); got != second {
		t.Errorf("after a new file the pin is %s, want %s", got, second)
	}
	if err := os.WriteFile(path, []byte("half a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if got := get(); got != second {
			t.Errorf("after a broken file the pin is %s, want %s", got, second)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	get()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "keeps its certificate") ||
		!strings.Contains(warnings[0], path) {
		t.Errorf("warnings: %q, want one that names the file", warnings)
	}
	third := newCertificate(t, path)
	if got := get(); got != third {
		t.Errorf("after a good file the pin is %s, want %s", got, third)
	}
	// A real server, which has loaded the first one.
	st := newFakeCoordinator(keyOf(1))
	s := st.startTLS(t, st.config(Limits{Grace: patience, Call: patience}), config)
	s.pin = third
	if _, err := s.dial(t, keyOf(1), nil).CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Error(err)
	}
}

// A coordinator whose certificate was lost does not silently get another, which devices would refuse.
func TestLostCertificateIsNotReplacedSilently(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := MakeTLS(dir, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
	_, pin, err := MakeTLS(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := MakeTLS(dir, false); err != nil || again != pin {
		t.Errorf("%s, %v, want %s", again, err, pin)
	}
	if _, _, err := LoadTLS(filepath.Join(dir, "x"), filepath.Join(dir, "y"), nil); err == nil {
		t.Error("certificate and key that are missing are loaded")
	}
}
