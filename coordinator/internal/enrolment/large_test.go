package enrolment

import (
	"testing"
	"time"
)

// BenchmarkActive is the cost of a round's population with 100,000 devices, of which one has changed.
func BenchmarkActive(b *testing.B) {
	start := time.Unix(1_700_000_000, 0)
	r := enrolled(100_000, start)
	for i := 0; b.Loop(); i++ {
		r.mu.Lock()
		r.active.valid = false
		r.mu.Unlock()
		if n := len(r.Active(start)); n != 100_000 {
			b.Fatalf("%d devices", n)
		}
	}
}

// BenchmarkSeen is the cost of a check-in with 100,000 devices.
func BenchmarkSeen(b *testing.B) {
	start := time.Unix(1_700_000_000, 0)
	r := enrolled(100_000, start)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for id := uint32(0); pb.Next(); id = (id + 7919) % 100_000 {
			r.Seen(id, start, time.Minute)
		}
	})
}

// BenchmarkStates is the cost of a look of the dashboard at 100,000 devices.
func BenchmarkStates(b *testing.B) {
	start := time.Unix(1_700_000_000, 0)
	r := enrolled(100_000, start)
	for b.Loop() {
		if states, _ := r.States(start, start); states[Active] != 100_000 {
			b.Fatalf("states are %v", states)
		}
	}
}
