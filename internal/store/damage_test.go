package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// quickDir is a folder in memory, if the system has one: these tests do not depend on the disk.
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
	for _, at := range []int{0, n / 2, n - 40, n - 1} {
		if at >= 0 && at < n {
			out = append(out, harm{
				fmt.Sprintf("cut to %d of %d bytes", at, n),
				func(b []byte) []byte { return b[:at] },
			})
		}
	}
	return append(out, harm{"removed", func([]byte) []byte { return nil }})
}

// checkRepair repairs a folder and holds what is left against what was written.
func checkRepair(t *testing.T, dir, what, want string) {
	t.Helper()
	r, err := Repair(dir, tiny)
	if err != nil {
		t.Errorf("%s: repair: %v", what, err)
		return
	}
	got, err := examine(t, dir)
	if err != nil {
		t.Errorf("%s: after the repair: %v", what, err)
		return
	}
	if (got != want) != (len(r.Lost) > 0) {
		t.Errorf("%s: the repair lost %q, and the folder says\n%swant\n%s", what, r.Lost, got, want)
	}
	// What an index that went back a step may bring again.
	older := []string{"value run/1=the first value", "log dropped: ", "blob "}
	byLog := func(text string) map[string][]string {
		out := map[string][]string{}
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, ":")
			out[name] = append(out[name], line)
		}
		return out
	}
	wants := byLog(want)
	for name, lines := range byLog(got) {
		for i, line := range lines {
			known := slices.ContainsFunc(older, func(p string) bool { return strings.HasPrefix(line, p) })
			if !known && (i >= len(wants[name]) || wants[name][i] != line) {
				t.Errorf("%s: the repaired folder says %q, which nobody wrote there", what, line)
			}
		}
	}
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
				places := 3
				if strings.HasSuffix(name, ".blk") {
					places = 12
				}
				found := 0
				for i, h := range harms(len(b), places) {
					dir := filepath.Join(base, "trial", filepath.Base(from), name, fmt.Sprint(i))
					copyTree(t, dir, from)
					if hurt := h.do(append([]byte{}, b...)); hurt != nil {
						must(t, os.WriteFile(filepath.Join(dir, name), hurt, 0o600))
					} else {
						must(t, os.Remove(filepath.Join(dir, name)))
					}
					got, err := examine(t, dir)
					var d *Damage
					switch {
					case errors.As(err, &d):
						found++
						if found%4 == 1 {
							checkRepair(t, dir, h.name, want)
						}
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

// A folder of another version of Tacit is refused with what to do, and neither Open nor Repair changes it.
func TestAnotherFormatIsRefused(t *testing.T) {
	for text, word := range map[string]string{"tacit store 1\n": "older", "tacit store 99\n": "newer"} {
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err := errors.Join(err, s.Put("key", []byte("value")), s.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "format")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, opened := Open(dir, Options{})
		_, repaired := Repair(dir, Options{})
		for _, err := range []error{opened, repaired} {
			var e *FormatError
			if !errors.As(err, &e) || !strings.Contains(e.Error(), word) || !strings.Contains(e.Hint(), "--state") {
				t.Errorf("%q: %v", text, err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("the file format says %q, %v", b, err)
		}
		if err := os.WriteFile(path, []byte(formatText), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Get("key"); err != nil || string(b) != "value" {
			t.Errorf("%q, %v", b, err)
		}
		s.Close()
	}
}
