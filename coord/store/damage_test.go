package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tiny makes a record of a few hundred bytes take several messages.
var tiny = Options{part: 128}

// fill writes some of everything, and things that are gone again.
func fill(t *testing.T, s *Store) {
	t.Helper()
	text := func(n int, seed string) []byte { return []byte(strings.Repeat(seed, n)) }
	must(t, s.Put("run/1", []byte("the first value")))
	must(t, s.Append("enrolments", []byte("device 1")))
	must(t, s.Append("dropped", text(20, "not this one ")))
	must(t, s.Append("enrolments", []byte("device 2")))
	must(t, s.Append("round/1", text(40, "a long record ")))
	_, err := s.PutBlob(text(50, "a model "))
	must(t, err)
	gone, err := s.PutBlob(text(30, "an old model "))
	must(t, err)
	must(t, s.Drop("dropped"))
	must(t, s.DropBlob(gone))
	for i := range 8 {
		must(t, s.Append("enrolments", fmt.Appendf(nil, "device %d", i+3)))
		must(t, s.Append(fmt.Sprintf("round/2/%d", i%3), text(3+i, "sum ")))
	}
	_, err = s.PutBlob(text(2, "catalogue "))
	must(t, err)
	must(t, s.Put("run/1", []byte("the second value")))
	must(t, s.Put("run/2", []byte("another one")))
}

// contents is all that a store says, as text.
func contents(t *testing.T, s *Store) (string, error) {
	t.Helper()
	var b strings.Builder
	for _, k := range s.Keys("") {
		v, err := s.Get(k)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "value %s=%s\n", k, v)
	}
	for _, name := range s.Logs("") {
		err := s.Replay(name, func(r []byte) error {
			fmt.Fprintf(&b, "log %s: %s\n", name, r)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	if err := s.Verify(); err != nil {
		return "", err
	}
	var blobs []string
	for h, n := range s.Blobs() {
		got, err := s.Blob(h)
		if err != nil {
			return "", err
		}
		blobs = append(blobs, fmt.Sprintf("blob %x %d %s", h, n, got))
	}
	for _, line := range sorted(blobs) {
		fmt.Fprintln(&b, line)
	}
	return b.String(), nil
}

// examine opens a folder and reads all of it.
func examine(t *testing.T, dir string) (string, error) {
	t.Helper()
	s, err := Open(dir, tiny)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return contents(t, s)
}

func copyTree(t *testing.T, to, from string) {
	t.Helper()
	must(t, os.CopyFS(to, os.DirFS(from)))
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	}))
	return out
}

// quickDir is a folder in memory where there is one: nothing here is about the disk.
func quickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tacit-store-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// harm is one way to damage a file.
type harm struct {
	name string
	do   func(b []byte) []byte
}

func harms(n, places int) []harm {
	var out []harm
	step := max(1, n/places)
	for at := step / 2; at < n; at += step {
		out = append(out, harm{fmt.Sprintf("bit %d of byte %d", at%8, at), func(b []byte) []byte {
			b[at] ^= 1 << (at % 8)
			return b
		}})
	}
	for _, at := range []int{0, 1, n / 3, n / 2, n - 40, n - 9, n - 1} {
		if at >= 0 && at < n {
			out = append(out, harm{fmt.Sprintf("cut to %d of %d bytes", at, n), func(b []byte) []byte { return b[:at] }})
		}
	}
	return out
}

func TestDamageIsFoundOrHarmless(t *testing.T) {
	base := quickDir(t)
	live := filepath.Join(base, "live")
	s, err := Open(live, tiny)
	must(t, err)
	fill(t, s)
	want, err := contents(t, s)
	must(t, err)
	// As a kill leaves it, and as Close does: JetStream then has an index file of its own.
	killed, closed := filepath.Join(base, "killed"), filepath.Join(base, "closed")
	copyTree(t, killed, live)
	must(t, s.Close())
	copyTree(t, closed, live)

	for _, from := range []string{killed, closed} {
		dir := from + "-control"
		copyTree(t, dir, from)
		if got, err := examine(t, dir); err != nil || got != want {
			t.Fatalf("without damage: %v, and\n%swant\n%s", err, got, want)
		}
		for _, name := range files(t, from) {
			t.Run(filepath.Base(from)+"/"+name, func(t *testing.T) {
				b, err := os.ReadFile(filepath.Join(from, name))
				must(t, err)
				places := 6
				if strings.HasSuffix(name, ".blk") {
					places = 24
				}
				found := 0
				for i, h := range harms(len(b), places) {
					dir := filepath.Join(base, "trial", filepath.Base(from), name, fmt.Sprint(i))
					copyTree(t, dir, from)
					must(t, os.WriteFile(filepath.Join(dir, name), h.do(append([]byte{}, b...)), 0o600))
					println(from, name, h.name)
					began := time.Now()
					got, err := examine(t, dir)
					if d := time.Since(began); d > time.Second {
						println("SLOW", d.String(), name, h.name, fmt.Sprint(err))
					}
					var d *Damage
					switch {
					case errors.As(err, &d):
						found++
					case err != nil:
						t.Errorf("%s: %v; want Damage", h.name, err)
					case got != want:
						t.Errorf("%s: opens without a word, and says\n%swant\n%s", h.name, got, want)
					}
					must(t, os.RemoveAll(dir))
				}
				t.Logf("found %d of %d", found, len(harms(len(b), places)))
			})
		}
	}
}
