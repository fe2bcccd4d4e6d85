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
	if len(seen) != 3*4*2 {
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

// A later round of a tree takes the noise of a node out again, also after a restart. Every other node has noise of
// its own, in each copy of a folder.
func TestTreeNoiseIsRepeatedForReleasedNodesOnly(t *testing.T) {
	a, node, other := New([32]byte{1}), privacy.Node{Tree: 2, Index: 1}, privacy.Node{Tree: 2, Level: 1, Index: 1}
	a.Renew()
	released := first(t, a.Tree(node, 1))
	a.NoteTree([]privacy.NoisePart{{Sign: 1, Node: node}})
	copies := []*Source{a}
	seen := map[string]bool{}
	for range 2 {
		b := New([32]byte{1})
		if err := b.LoadNodes(a.NodeBytes()); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, b)
	}
	for _, s := range copies {
		s.Renew()
		if first(t, s.Tree(node, 1)) != released {
			t.Error("the noise of a released node differs")
		}
		seen[first(t, s.Tree(other, 1))] = true
		s.NoteTree([]privacy.NoisePart{{Sign: 1, Node: other}, {Sign: -1, Node: node}})
		seen[first(t, s.Tree(other, 1))] = true
		s.Renew()
		if first(t, s.Tree(node, 1)) == released {
			t.Error("the noise of a node is used again after it was taken out")
		}
		s.NoteTree([]privacy.NoisePart{{Sign: 1, Node: privacy.Node{Tree: 3}}})
		if n := len(s.nodes); n != 1 {
			t.Errorf("%d nodes are kept after the first round of another tree", n)
		}
	}
	if len(seen) != len(copies) {
		t.Errorf("%d copies drew %d different streams for a new node", len(copies), len(seen))
	}
}
