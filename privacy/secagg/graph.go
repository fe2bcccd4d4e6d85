package secagg

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Set is a set of device IDs: bit id%8 of byte id/8.
type Set []byte

// newSet returns an empty set for IDs below n.
func newSet(n int) Set { return make(Set, (n+7)/8) }

// Has reports whether id is in the set.
func (s Set) Has(id uint32) bool {
	return uint64(id/8) < uint64(len(s)) && s[id/8]>>(id%8)&1 != 0
}

// Count is the number of ids.
func (s Set) Count() int {
	n := 0
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// add puts id into the set; it must be below the n of newSet.
func (s Set) add(id uint32) { s[id/8] |= 1 << (id % 8) }

// fits reports whether s holds only IDs below n.
func (s Set) fits(n int) bool {
	return len(s) == (n+7)/8 && (n%8 == 0 || s[len(s)-1]>>(n%8) == 0)
}

func (s Set) within(other Set) bool {
	for i := range s {
		if s[i]&^other[i] != 0 {
			return false
		}
	}
	return true
}

func (s Set) meets(other Set) bool {
	for i := range s {
		if s[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// graph is the neighbour relation: a Harary ring over a random order of the devices that
// are present, each with the degree/2 nearest on both sides, or the complete graph if there
// are too few devices.
type graph struct {
	degree int
	ring   []uint32 // IDs of the devices present, in random order
	place  []int32  // position of an ID in the ring; -1 if not present
}

// newGraph draws the order of all invited devices from the round's seed and skips absent
// devices, so anyone can check it.
func newGraph(r *Round, present Set) *graph {
	g := &graph{degree: r.Degree, ring: make([]uint32, 0, present.Count()), place: make([]int32, r.Devices)}
	for _, id := range shuffled(r.Devices, derive(r.Seed[:], [keySize]byte{}, forGraph, 0, 0)) {
		g.place[id] = -1
		if present.Has(id) {
			g.place[id] = int32(len(g.ring))
			g.ring = append(g.ring, id)
		}
	}
	return g
}

// shuffled is a random order of 0..n-1 (Fisher and Yates), uniform given the key stream:
// draws that would favour small numbers are rejected.
func shuffled(n int, key [keySize]byte) []uint32 {
	s := newStream(key)
	var buf [512]byte
	rest := buf[:0]
	out := make([]uint32, n)
	for i := range out {
		m := uint64(i + 1)
		limit := 1 << 32 / m * m
		for {
			if len(rest) == 0 {
				rest = buf[:]
				s.Read(rest)
			}
			u := uint64(binary.LittleEndian.Uint32(rest))
			if rest = rest[4:]; u < limit {
				j := u % m
				out[i], out[j] = out[j], uint32(i)
				break
			}
		}
	}
	return out
}

// neighbours lists the neighbours of a present device, ascending.
func (g *graph) neighbours(id uint32) []uint32 {
	n := len(g.ring)
	out := make([]uint32, 0, min(g.degree, n-1))
	if g.degree >= n-1 {
		for _, v := range g.ring {
			if v != id {
				out = append(out, v)
			}
		}
	} else {
		at := int(g.place[id])
		for d := 1; d <= g.degree/2; d++ {
			out = append(out, g.ring[(at+d)%n], g.ring[(at-d+n)%n])
		}
	}
	slices.Sort(out)
	return out
}

// holders lists the devices that hold a share of a device's secrets: its neighbours and
// itself, ascending. The i-th holds the share at position i+1.
func (g *graph) holders(id uint32) []uint32 {
	out := g.neighbours(id)
	at, _ := slices.BinarySearch(out, id)
	return slices.Insert(out, at, id)
}
