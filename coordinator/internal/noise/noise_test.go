package noise

import (
	"bytes"
	"io"
	"testing"

	"github.com/tacit-rec/tacit/privacy"
)

func first(t *testing.T, r io.Reader) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, 32); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestNoTwoReleasesHaveTheSameNoise(t *testing.T) {
	s := New([32]byte{1})
	seen := map[string]bool{}
	add := func(r io.Reader) { seen[first(t, r)] = true }
	for range 3 {
		s.Renew()
		for _, n := range []privacy.Node{{}, {Tree: 1}, {Level: 1}, {Index: 1}} {
			for piece := range 2 {
				add(s.Release(n, piece))
			}
		}
	}
	add(s.Tree([]byte("run"), privacy.Node{}, 0))
	add(s.Tree([]byte("other"), privacy.Node{}, 0))
	if len(seen) != 3*4*2+2 {
		t.Errorf("%d different streams", len(seen))
	}
	run := []byte("run")
	key := s.CohortKey(run, 0)
	for _, other := range [][32]byte{
		s.CohortKey(run, 1), s.CohortKey([]byte("other"), 0), New([32]byte{2}).CohortKey(run, 0),
	} {
		if key == other {
			t.Error("a key of cohorts repeats")
		}
	}
}

// The rounds of a tree need its noise again, after a restart too.
func TestTreeNoiseIsRepeatable(t *testing.T) {
	a, b := New([32]byte{1}), New([32]byte{1})
	b.Renew()
	run, node := []byte("run"), privacy.Node{Tree: 2}
	if first(t, a.Tree(run, node, 1)) != first(t, b.Tree(run, node, 1)) {
		t.Error("the noise of a tree differs after a restart")
	}
}
