package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Every bit of every block. What the walk that comes before the server does not
// find must be found by what we check after it.
func TestEveryFlippedBitOfABlockIsFound(t *testing.T) {
	base := quickDir(t)
	from := filepath.Join(base, "live")
	s, err := Open(from, tiny)
	must(t, err)
	fill(t, s)
	want, err := contents(t, s)
	must(t, err)
	must(t, s.Close())
	bits, tried := 0, 0
	for _, c := range streams() {
		blocks, err := blockFiles(from, c.Name)
		must(t, err)
		for _, f := range blocks {
			b, err := os.ReadFile(f.path)
			must(t, err)
			missed := 0
			for bit := range 8 * len(b) {
				bits++
				b[bit/8] ^= 1 << (bit % 8)
				if walkBlock(b, c.Name, f.number, func([]byte) {}) == len(b) {
					if missed++; missed <= 40 {
						tried++
						tryBlock(t, filepath.Join(base, fmt.Sprint(tried)), from, f.path, b, want)
					}
				}
				b[bit/8] ^= 1 << (bit % 8)
			}
			if 50*missed > 8*len(b) {
				t.Errorf("%s: the walk misses %d of %d flipped bits", f.path, missed, 8*len(b))
			}
		}
	}
	t.Logf("%d bits, of which %d were tried with the server", bits, tried)
}

func tryBlock(t *testing.T, dir, from, path string, b []byte, want string) {
	t.Helper()
	copyTree(t, dir, from)
	defer os.RemoveAll(dir)
	rel, err := filepath.Rel(from, path)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, rel), b, 0o600))
	got, err := examine(t, dir)
	var d *Damage
	if !errors.As(err, &d) && (err != nil || got != want) {
		t.Errorf("%s: %v, says\n%s", rel, err, got)
	}
}

// After a power cut the heads may be those of some time ago, or not there.
func TestOldHeadsAreNoDamage(t *testing.T) {
	dir := quickDir(t)
	s, err := Open(dir, tiny)
	must(t, err)
	must(t, s.Append("log", []byte("1")))
	must(t, s.Append("dropped", []byte("1")))
	old, err := os.ReadFile(filepath.Join(dir, "heads"))
	must(t, err)
	must(t, s.Drop("dropped"))
	fill(t, s)
	want, err := contents(t, s)
	must(t, err)
	must(t, s.Close())
	for _, heads := range [][]byte{old, old[:len(old)/2], make([]byte, len(old)), nil} {
		must(t, os.WriteFile(filepath.Join(dir, "heads"), heads, 0o600))
		if got, err := examine(t, dir); err != nil || got != want {
			t.Errorf("with %d bytes of heads: %v, says\n%swant\n%s", len(heads), err, got, want)
		}
	}
}

// JetStream starts without its last block and says nothing; the heads do.
func TestRecordsThatAreCutOffCleanlyAreMissed(t *testing.T) {
	for _, log := range []string{"log", "index"} {
		dir := quickDir(t)
		s, err := Open(dir, tiny)
		must(t, err)
		must(t, s.Append("log", []byte("1")))
		before := blockSizes(t, dir)
		if log == "index" {
			must(t, s.Put("key", []byte("2")))
		} else {
			must(t, s.Append("log", []byte("2")))
		}
		killed := filepath.Join(quickDir(t), "killed")
		copyTree(t, killed, dir)
		must(t, s.Close())
		for path, size := range before {
			must(t, os.Truncate(filepath.Join(killed, path), size))
		}
		got, err := examine(t, killed)
		var d *Damage
		if !errors.As(err, &d) {
			t.Errorf("%s: without its last record: %v, says\n%s", log, err, got)
		}
	}
}

func blockSizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for _, name := range files(t, dir) {
		if filepath.Ext(name) == ".blk" {
			info, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			out[name] = info.Size()
		}
	}
	return out
}
