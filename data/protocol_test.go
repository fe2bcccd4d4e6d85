package data

import (
	"slices"
	"testing"
)

func mustProtocol(t testing.TB, name string) Protocol {
	t.Helper()
	p, err := ProtocolNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOnlyThePaperProtocolLeaks(t *testing.T) {
	want := map[string]bool{
		"paper": true, "isolated": false, "deployed": false, "complete": false, "temporal": false, "fedrecgel": false,
		"privrec": false,
	}
	for _, p := range Protocols() {
		leaks, known := want[p.Name]
		if !known || p.Leaks() != leaks {
			t.Errorf("%s leaks: %v, want %v", p.Name, p.Leaks(), leaks)
		}
		if p.Sampled != 99 && p.Split != NewUsers || p.About == "" {
			t.Errorf("%s ranks against %d items, want 99, and says of itself %q", p.Name, p.Sampled, p.About)
		}
		// Full ranking compares with items that may have been drawn as negatives,
		// which is fair only where the held-out item may be drawn too.
		if p.Full && p.Hide != HideNothing {
			t.Errorf("%s ranks over the catalogue though it hides held-out items", p.Name)
		}
		delete(want, p.Name)
	}
	if len(want) != 0 {
		t.Errorf("protocols %v are missing", want)
	}
}

// Leaks by its definition: is a held-out item hidden where those it is ranked
// against are not, or the other way round? Read off what a device is told to hide.
func TestLeaksIsWhatHiddenSays(t *testing.T) {
	src := mustWorld(t, "users=20,items=400").Generate()
	for _, p := range Protocols() {
		s, err := NewSplit(src, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		var part Part
		differs := false
		for u := range s.Users() {
			s.User(u, &part)
			hidden := slices.Concat(s.Hidden(&part)[0], s.Hidden(&part)[1])
			for i, held := range []int64{part.Valid, part.Test} {
				for _, other := range part.Candidates[i] {
					if held != None && slices.Contains(hidden, uint32(held)) != slices.Contains(hidden, other) {
						differs = true
					}
				}
			}
		}
		if differs != p.Leaks() {
			t.Errorf("%s: held-out items are hidden unlike their rivals: %v, and Leaks says %v", p.Name, differs,
				p.Leaks())
		}
	}
}

func TestEachProtocolHidesWhatItSays(t *testing.T) {
	src := mustWorld(t, "users=10,items=400").Generate()
	for name, want := range map[string]func(p *Part) []uint32{
		"paper": func(p *Part) []uint32 { return []uint32{uint32(p.Valid), uint32(p.Test)} },
		"isolated": func(p *Part) []uint32 {
			return slices.Concat([]uint32{uint32(p.Valid), uint32(p.Test)}, p.Candidates[0], p.Candidates[1])
		},
		"deployed":  func(*Part) []uint32 { return nil },
		"complete":  func(*Part) []uint32 { return nil },
		"temporal":  func(*Part) []uint32 { return nil },
		"fedrecgel": func(*Part) []uint32 { return nil },
		"privrec":   func(*Part) []uint32 { return nil },
	} {
		s, err := NewSplit(src, mustProtocol(t, name), 1)
		if err != nil {
			t.Fatal(err)
		}
		var p Part
		for u := range s.Users() {
			s.User(u, &p)
			h := s.Hidden(&p)
			got, want := slices.Concat(h[0], h[1]), want(&p)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: user %d hides %v, want %v", name, u, got, want)
			}
		}
	}
}

func TestUnknownProtocolErrorListsTheKnownOnes(t *testing.T) {
	const want = `unknown protocol "fair"; must be one of paper, isolated, deployed, complete, temporal, fedrecgel, privrec`
	if _, err := ProtocolNamed("fair"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
