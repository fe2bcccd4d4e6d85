package fleet_test

import (
	"sync"

	"github.com/tacit-rec/tacit/internal/fleet"
)

// sum counts each counted report once.
type sum struct {
	mu sync.Mutex
	by map[fleet.Counted]bool
}

func (s *sum) add(a fleet.Counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[fleet.Counted]bool{}
	}
	s.by[a] = true
}

func (s *sum) n() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by)
}
