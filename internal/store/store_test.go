package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func records(t testing.TB, s *Store, log string) [][]byte {
	t.Helper()
	var out [][]byte
	must(t, s.Replay(log, func(r []byte) error {
		out = append(out, r)
		return nil
	}))
	return out
}

// large is longer than one message.
func large(seed byte) []byte {
	b := make([]byte, 2*partSize+12345)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

func TestWhatIsWrittenIsThereAfterAReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must(t, s.Put("run", []byte("one")))
	must(t, s.Put("run", []byte("two")))
	must(t, s.Put("empty", nil))
	must(t, s.Put("gone", []byte("x")))
	must(t, s.Delete("gone"))
	var want [][]byte
	for i := range 300 {
		want = append(want, fmt.Appendf(nil, "record %d", i))
		must(t, s.Append("enrolments", want[i]))
	}
	must(t, s.Append("round/7/shard/1", large(1)))
	must(t, s.Append("round/7/shard/1", []byte{}))
	must(t, s.Append("dropped", []byte("x")))
	must(t, s.Drop("dropped"))
	h, err := s.PutBlob(large(2))
	must(t, err)
	again, err := s.PutBlob(large(2))
	must(t, err)
	if h != again {
		t.Errorf("the same blob has hashes %x and %x", h, again)
	}
	gone, err := s.PutBlob([]byte("old model"))
	must(t, err)
	must(t, s.DropBlob(gone))

	checkAll(t, s, want, h, gone)
	for range 3 {
		must(t, s.Close())
		s = open(t, dir)
		checkAll(t, s, want, h, gone)
	}
	if s.Epoch() != 4 {
		t.Errorf("epoch %d after four openings", s.Epoch())
	}
}

func checkAll(t *testing.T, s *Store, want [][]byte, h, gone Hash) {
	t.Helper()
	if v, err := s.Get("run"); err != nil || string(v) != "two" {
		t.Errorf("run = %q, %v; want two", v, err)
	}
	if _, err := s.Get("gone"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted value gives %v, want ErrNotFound", err)
	}
	if got := s.Keys(""); !slices.Equal(got, []string{"empty", "run"}) {
		t.Errorf("keys %q", got)
	}
	if got := s.Logs("round/"); !slices.Equal(got, []string{"round/7/shard/1"}) {
		t.Errorf("logs %q", got)
	}
	if got := records(t, s, "enrolments"); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d records, want %d equal ones", len(got), len(want))
	}
	if got := records(t, s, "round/7/shard/1"); len(got) != 2 || !bytes.Equal(got[0], large(1)) || len(got[1]) != 0 {
		t.Errorf("a large and an empty record come back as %d records", len(got))
	}
	if got := records(t, s, "dropped"); got != nil {
		t.Errorf("a dropped log has %d records", len(got))
	}
	if b, err := s.Blob(h); err != nil || !bytes.Equal(b, large(2)) {
		t.Errorf("blob: %d bytes, %v", len(b), err)
	}
	if _, err := s.Blob(gone); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dropped blob gives %v, want ErrNotFound", err)
	}
	if got := s.Blobs(); len(got) != 1 || got[h] != int64(len(large(2))) {
		t.Errorf("blobs %v", got)
	}
	must(t, s.Verify())
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
