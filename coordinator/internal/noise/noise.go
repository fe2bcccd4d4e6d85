// Package noise draws the secret randomness of a run: the noise of its releases and the seed of
// its cohorts. It never uses the same noise for two releases, not even in two copies of a state folder.
// Its one convention: one goroutine changes a Source, and others read it only in between.
package noise

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"

	"github.com/tacit-rec/tacit/privacy"
)

// Source is the randomness of one federation.
type Source struct {
	secret [32]byte
	fresh  [32]byte
	nodes  []nodeKey
}

// nodeKey is the key of the noise of a node that is in the model. A later round takes the noise out again.
type nodeKey struct {
	Node privacy.Node `json:"node"`
	Key  [32]byte     `json:"key"`
}

// New returns the randomness of a federation's secret.
func New(secret [32]byte) *Source { return &Source{secret: secret} }

// Renew draws the key of the next release. It is kept nowhere: a release that a kill interrupted was
// seen by nobody, and its noise is not used again, even if the store goes back in time.
func (s *Source) Renew() { rand.Read(s.fresh[:]) }

// Release is the noise of a part of the next release.
func (s *Source) Release(n privacy.Node, piece int) io.Reader { return stream(s.fresh, n, piece) }

// Tree is the noise of a node of a tree: the noise with which the node was released, or otherwise fresh noise.
// A node covers only rounds before its release, so two copies of a state folder share the noise of the
// rounds that they share, and no other.
func (s *Source) Tree(n privacy.Node, piece int) io.Reader {
	for _, k := range s.nodes {
		if k.Node == n {
			return stream(k.Key, n, piece)
		}
	}
	return s.Release(n, piece)
}

// NoteTree notes the noise of a round of a tree before the round is released.
func (s *Source) NoteTree(parts []privacy.NoisePart) {
	var nodes []nodeKey
	for _, p := range parts {
		if p.Sign > 0 {
			nodes = append(nodes, nodeKey{p.Node, s.fresh})
		}
	}
	for _, k := range s.nodes {
		gone := func(p privacy.NoisePart) bool { return p.Sign < 0 && p.Node == k.Node || p.Node.Tree > k.Node.Tree }
		if !slices.ContainsFunc(parts, gone) {
			nodes = append(nodes, k)
		}
	}
	s.nodes = nodes
}

// NodeBytes are the keys of the nodes that are in the model, for LoadNodes; empty without a tree.
func (s *Source) NodeBytes() []byte {
	if len(s.nodes) == 0 {
		return nil
	}
	b, err := json.Marshal(s.nodes)
	if err != nil {
		panic(err) // numbers and bytes
	}
	return b
}

// LoadNodes continues a tree after a restart, or none.
func (s *Source) LoadNodes(b []byte) error {
	s.nodes = nil
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, &s.nodes)
}

// CohortKey is the key of the cohorts of a run after a number of rollbacks: no cohort is drawn twice.
func (s *Source) CohortKey(run []byte, rollbacks int) (key [32]byte) {
	data := binary.LittleEndian.AppendUint64(nil, uint64(rollbacks))
	copy(key[:], s.mac("tacit cohorts", append(data, run...)))
	return key
}

// GroupSeed is the seed of the groups of masked sums.
func (s *Source) GroupSeed(run []byte, rollbacks int) uint64 {
	data := binary.LittleEndian.AppendUint64(nil, uint64(rollbacks))
	return binary.LittleEndian.Uint64(s.mac("tacit groups", append(data, run...)))
}

func (s *Source) mac(label string, data []byte) []byte {
	mac := hmac.New(sha256.New, s.secret[:])
	mac.Write([]byte(label))
	mac.Write(data)
	return mac.Sum(nil)
}

// stream is a stream of random bytes for a key that nobody else has.
func stream(key [32]byte, n privacy.Node, piece int) io.Reader {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("tacit noise"))
	for _, x := range []int{n.Tree, n.Level, n.Index, piece} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(x)))
	}
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	return &keyStream{cipher.NewCTR(block, make([]byte, aes.BlockSize))}
}

type keyStream struct{ cipher.Stream }

func (k *keyStream) Read(b []byte) (int, error) {
	clear(b)
	k.XORKeyStream(b, b)
	return len(b), nil
}
