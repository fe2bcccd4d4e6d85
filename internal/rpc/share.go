//go:build !js

package rpc

import (
	"net/netip"
	"sync"
)

// memoryShares divides memory among addresses: an address may hold as much as nobody holds. So one address gets
// at most half of the memory, two get a third each, and there is always some left for another.
type memoryShares struct {
	mu   sync.Mutex
	free int
	held map[netip.Prefix]int
}

func newMemoryShares(bytes int) *memoryShares {
	return &memoryShares{free: bytes, held: map[netip.Prefix]int{}}
}

func (m *memoryShares) take(from netip.Prefix, n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[from]+n > m.free {
		return false
	}
	m.free -= n
	m.held[from] += n
	return true
}

func (m *memoryShares) give(from netip.Prefix, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += n
	if m.held[from] -= n; m.held[from] == 0 {
		delete(m.held, from)
	}
}

// left returns the free memory.
func (m *memoryShares) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free
}

// unenrolledCalls are the calls without an enrolled key whose bodies are being read: Hello and Enrol. They are limited
// in total and per address. At a limit, the call that has taken longest ends, of the same address or of
// the address with most calls: an honest call takes one round trip, a slow one waits.
type unenrolledCalls struct {
	most, perAddress int

	mu    sync.Mutex
	all   int
	calls map[netip.Prefix][]*timedBody // oldest first
}

func newUnenrolled(most, perAddress int) *unenrolledCalls {
	return &unenrolledCalls{most: most, perAddress: perAddress, calls: map[netip.Prefix][]*timedBody{}}
}

// begin adds a body, and ends another if necessary.
func (s *unenrolledCalls) begin(from netip.Prefix, b *timedBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim := from
	switch {
	case len(s.calls[from]) >= s.perAddress:
		s.endOldest(from)
	case s.all >= s.most:
		for a, calls := range s.calls {
			if len(calls) > len(s.calls[victim]) {
				victim = a
			}
		}
		s.endOldest(victim)
	}
	s.calls[from] = append(s.calls[from], b)
	s.all++
}

func (s *unenrolledCalls) endOldest(from netip.Prefix) {
	oldest := s.calls[from][0]
	s.remove(from, 0)
	oldest.end()
}

// done removes a body that was read, or that failed. Afterwards the body is not ended any more.
func (s *unenrolledCalls) done(from netip.Prefix, b *timedBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.calls[from] {
		if c == b {
			s.remove(from, i)
			return
		}
	}
}

func (s *unenrolledCalls) remove(from netip.Prefix, i int) {
	calls := s.calls[from]
	copy(calls[i:], calls[i+1:])
	calls[len(calls)-1] = nil
	if calls = calls[:len(calls)-1]; len(calls) == 0 {
		delete(s.calls, from)
	} else {
		s.calls[from] = calls
	}
	s.all--
}
