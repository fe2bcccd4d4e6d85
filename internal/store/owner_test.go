package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestOneProcessHasAFolderOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a second Open gives %v, want ErrLocked and the number of this process", err)
	}
	if _, err := Repair(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("Repair of an open folder gives %v, want ErrLocked", err)
	}
	must(t, s.Put("a", nil))
	must(t, s.Close())
	open(t, dir)
}

// The lock keeps two processes apart. This is about what holds without it: two
// owners of the same streams.
func TestAFormerOwnerCannotWrite(t *testing.T) {
	old := open(t, t.TempDir())
	must(t, old.Append("log", []byte("1")))
	must(t, old.Append("log", []byte("2")))
	must(t, old.Put("key", []byte("old")))

	owner := &Store{dir: t.TempDir(), part: partSize, healer: healer{eng: old.eng}}
	must(t, owner.load(true, nil))
	defer owner.heads.f.Close()
	if owner.Epoch() != old.Epoch()+1 {
		t.Errorf("epochs %d and %d, want one more", old.Epoch(), owner.Epoch())
	}
	// Before the new owner has written a record of its own.
	_, blobErr := old.PutBlob([]byte("blob"))
	for what, err := range map[string]error{
		"Append":          old.Append("log", []byte("3 of the old owner")),
		"Append, a new":   old.Append("other", []byte("1")),
		"Put":             old.Put("key", []byte("of the old owner")),
		"Drop":            old.Drop("log"),
		"PutBlob":         blobErr,
		"Append, a retry": old.Append("log", []byte("3 of the old owner")),
	} {
		if !errors.Is(err, ErrFenced) {
			t.Errorf("%s by a former owner gives %v, want ErrFenced", what, err)
		}
	}
	must(t, owner.Append("log", []byte("3")))
	must(t, owner.Put("key", []byte("new")))
	if got := records(t, owner, "log"); len(got) != 3 || string(got[2]) != "3" {
		t.Errorf("the log is %q", got)
	}
	if v, _ := owner.Get("key"); string(v) != "new" || len(owner.Blobs()) != 0 || len(owner.Logs("")) != 1 {
		t.Errorf("the value is %q, with %d blobs and logs %q", v, len(owner.Blobs()), owner.Logs(""))
	}
}

func TestAHalfWrittenRecordIsInvisible(t *testing.T) {
	dir := quickDir(t)
	s, err := Open(dir, tiny)
	must(t, err)
	must(t, s.Append("log", []byte("whole")))
	tl := s.state.logs["log"]
	for p := range uint32(2) {
		must(t, s.add(tl, &frame{
			kind: kindLog, chain: tl.id, epoch: s.epoch, part: p, parts: 3,
			payload: []byte("half of a record"),
		}))
	}
	must(t, s.Close())
	for i := range 3 {
		s, err = Open(dir, tiny)
		must(t, err)
		if got := records(t, s, "log"); len(got) != i+1 || string(got[0]) != "whole" {
			t.Fatalf("the log is %q", got)
		}
		must(t, s.Append("log", bytes.Repeat([]byte("after "), 100)))
		must(t, s.Close())
	}
	// The store never begins a record before the last one is complete.
	c := chain{kind: kindLog, id: 1}
	first := frame{kind: kindLog, chain: 1, epoch: 1, number: 1, part: 0, parts: 2}
	appendFrame(nil, &first)
	_, _, err = c.next(&first)
	must(t, err)
	if _, _, err := c.next(&frame{
		kind: kindLog, chain: 1, epoch: 1, number: 2, prev: first.sum, part: 0,
		parts: 1,
	}); err == nil {
		t.Error("a record that begins inside of another one is accepted")
	}
}

func TestAGrownIndexIsWrittenAnew(t *testing.T) {
	dir := quickDir(t)
	s := open(t, dir)
	must(t, s.Append("log", []byte("1")))
	h, err := s.PutBlob([]byte("blob"))
	must(t, err)
	first := s.index.id
	for i := range 12 {
		must(t, s.Put("large", bytes.Repeat([]byte{byte(i)}, maxValue)))
	}
	if s.index.id == first {
		t.Fatalf("the index is still the first one, with %d bytes", s.size)
	}
	must(t, s.Put("after", []byte("x")))
	must(t, s.Close())
	s = open(t, dir)
	v, err := s.Get("large")
	must(t, err)
	if !bytes.Equal(v, bytes.Repeat([]byte{11}, maxValue)) || fmt.Sprint(s.Keys("")) != "[after large]" ||
		len(records(t, s, "log")) != 1 {
		t.Errorf("a new index says %q, logs %q", s.Keys(""), s.Logs(""))
	}
	if _, err := s.Blob(h); err != nil {
		t.Error(err)
	}
}

// The server says that it syncs each write, and we count what it answered; the
// system's own count says whether both are true.
func TestEachWriteIsOneSync(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace: install it to count the system's calls")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", trace, os.Args[0])
	cmd.Env = append(os.Environ(), syncEnv+"="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("strace cannot follow a process here: %v", err)
	}
	want, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	b, err := os.ReadFile(trace)
	must(t, err)
	got := 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "sync(") && strings.Contains(line, ".blk>") {
			got++
		}
	}
	if want < 50 || got < want {
		t.Errorf("%d writes were answered, and the system synced a block %d times", want, got)
	}
}

// syncChild writes fifty records and prints how many writes it counted.
func syncChild(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for range 50 {
		if err := s.Append("log", []byte("x")); err != nil {
			return err
		}
	}
	fmt.Println(s.Stats().Syncs)
	return s.Close()
}

func TestSyncedWritesAreCounted(t *testing.T) {
	s := open(t, t.TempDir())
	before := s.Stats()
	must(t, s.Append("log", []byte("x")))
	if got := s.Stats().Syncs - before.Syncs; got != 2 {
		t.Errorf("the first record of a log took %d synced writes, want 2: its name and itself", got)
	}
	must(t, s.Append("log", []byte("y")))
	if got := s.Stats().Syncs - before.Syncs; got != 3 {
		t.Errorf("%d synced writes after one more record, want 3", got)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	s := open(t, quickDir(t))
	for what, err := range map[string]error{
		"a value without a key": s.Put("", nil),
		"a log without a name":  s.Append("", nil),
		"a long key":            s.Put(strings.Repeat("k", maxKey+1), nil),
		"a long value":          s.Put("k", make([]byte, maxValue+1)),
	} {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if s.Drop("none") != nil || s.Delete("none") != nil || s.DropBlob(Hash{}) != nil || s.Replay("none", nil) != nil {
		t.Error("what is not there cannot be removed or replayed without an error")
	}
	var d *Damage
	if err := s.Verify(Hash{1}); !errors.As(err, &d) || !strings.Contains(d.Hint, "--repair") {
		t.Errorf("a blob that a caller names and that is not there gives %v, want Damage with a hint", err)
	}
}

func TestManyGoroutinesMayUseAStore(t *testing.T) {
	dir := quickDir(t)
	s := open(t, dir)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				shared, own := fmt.Sprint(i%3), fmt.Sprintf("%d/%d", g, i)
				err := errors.Join(s.Append("shared/"+shared, []byte(own)), s.Append(own, []byte("x")),
					s.Put(own, []byte(own)))
				h, err2 := s.PutBlob([]byte(own))
				if _, err3 := s.Blob(h); err3 != nil {
					t.Error(err3)
				}
				err4 := s.Replay("shared/"+shared, func([]byte) error { return nil })
				if err := errors.Join(err, err2, err4, s.Drop(own), s.Delete(own), s.DropBlob(h)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.Verify())
	must(t, s.Close())
	s = open(t, dir)
	n := 0
	for _, log := range s.Logs("") {
		n += len(records(t, s, log))
	}
	if n != 160 || len(s.Logs("")) != 3 || len(s.Keys(""))+len(s.Blobs()) != 0 {
		t.Errorf("%d records in logs %q, keys %q, %d blobs; want 160 in three logs", n, s.Logs(""), s.Keys(""),
			len(s.Blobs()))
	}
}
