package masked

import (
	"sync"
	"time"
)

// StepTime is how long a step of a masked round waits for messages. After an attempt that failed
// while devices were late, steps take twice as long; after a fast one they become shorter again.
type StepTime struct {
	mu      sync.Mutex
	doubled int
	late    bool // a device was late in this attempt
}

// maxDoubled is how often a step's time is doubled.
const maxDoubled = 4

// Of is the time of a step whose shortest time is base.
func (s *StepTime) Of(base time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return base << s.doubled
}

// NoteLate notes that a device was late.
func (s *StepTime) NoteLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

// Failed is called after an attempt that failed.
func (s *StepTime) Failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late && s.doubled < maxDoubled {
		s.doubled++
	}
	s.late = false
}

// Succeeded is called after an attempt that took a time and had a sum.
func (s *StepTime) Succeeded(took, base time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = false
	if s.doubled > 0 && took < base<<s.doubled/2 {
		s.doubled--
	}
}
