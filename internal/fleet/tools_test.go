package fleet_test

import (
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/data"
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

func splitOf(t testing.TB, text string) *data.Split { return splitBy(t, "deployed", text) }

func splitBy(t testing.TB, protocol, text string) *data.Split {
	t.Helper()
	cfg, err := data.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := data.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := data.ProtocolNamed(protocol)
	if err != nil {
		t.Fatal(err)
	}
	s, err := data.NewSplit(w, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
