package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// No other user can read a secret at any moment: neither the file nor what it is written to first.
func TestSecretsAreClosedFromTheFirstByte(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode on Windows")
	}
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "local.json")
	if err := WriteSecret(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	for range 2 {
		watch.Go(func() {
			for seen := 0; ; seen++ {
				select {
				case <-stop:
					return
				default:
				}
				all, _ := os.ReadDir(dir)
				for _, e := range all {
					info, err := e.Info()
					if errors.Is(err, fs.ErrNotExist) {
						continue // renamed meanwhile
					}
					if err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("%s has mode %v, %v after %d looks", e.Name(), info.Mode(), err, seen)
						return
					}
				}
			}
		})
	}
	for i := range 100 {
		if err := WriteSecret(path, []byte(strings.Repeat("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	watch.Wait()
}

func TestReplacesAWholeFileOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b.txt")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", info.Mode(), err)
	}
	broken := errors.New("broken")
	if err := WriteTo(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("after a failure the file is %q, %v", b, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("a failure left %d files, %v", len(all), err)
	}
}
