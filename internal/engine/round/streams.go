package round

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Stream is a stream of uniform random numbers.
type Stream interface {
	Uint32n(n uint32) uint32 // below n
	Float64() float64        // in [0, 1)
	Shuffle(order []uint32)
}

// Streams returns the random stream with a name.
type Streams func(name ...uint64) Stream

// SeedStreams are the streams of cohorts of a simulation. Anybody who knows the seed can repeat them.
func SeedStreams(seed uint64) Streams {
	return func(name ...uint64) Stream {
		r := rng.New(append([]uint64{seed, rng.Cohort}, name...)...)
		return &r
	}
}

// KeyedStreams are streams that nobody can predict without the key, whatever part of them is known.
func KeyedStreams(key [32]byte) Streams {
	return func(name ...uint64) Stream {
		b := append([]byte("tacit cohort stream"), key[:]...)
		for _, x := range name {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return keyedStream{rand.New(rand.NewChaCha8(sha256.Sum256(b)))}
	}
}

type keyedStream struct{ *rand.Rand }

func (k keyedStream) Uint32n(n uint32) uint32 { return k.Uint32N(n) }

func (k keyedStream) Shuffle(order []uint32) {
	k.Rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}
