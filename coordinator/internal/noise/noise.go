// Package noise derives the secret randomness of a run: the noise of its releases and the seed of
// its cohorts. It never uses the same noise for two releases. Its one convention: one goroutine
// uses a Source.
package noise

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/tacit-rec/tacit/privacy"
)

// Source is the randomness of one federation.
type Source struct {
	secret [32]byte
	fresh  [32]byte
}

// New returns the randomness of a federation's secret.
func New(secret [32]byte) *Source { return &Source{secret: secret} }

// Renew draws the key of the next release. It is kept nowhere: a release that a kill interrupted was
// seen by nobody, and its noise is not used again, even if the store goes back in time.
func (s *Source) Renew() { rand.Read(s.fresh[:]) }

// Release is the noise of a part of the next release.
func (s *Source) Release(n privacy.Node, piece int) io.Reader { return stream(s.fresh, n, piece) }

// Tree is the noise of a tree of a run. Later rounds need the same noise again, so it comes from the
// federation's secret; a tree is never rolled back.
func (s *Source) Tree(run []byte, n privacy.Node, piece int) io.Reader {
	var key [32]byte
	copy(key[:], s.mac("tacit tree", run))
	return stream(key, n, piece)
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
