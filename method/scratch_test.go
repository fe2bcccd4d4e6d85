package method_test

import (
	"testing"

	"github.com/tacit-rec/tacit/method"
)

func TestScratchIsNotSharedUntilReleased(t *testing.T) {
	var s method.Scratch
	mark := s.Mark()
	a, b := s.Floats(5000), s.Floats(7)
	a[0], b[0] = 1, 2
	inner := s.Mark()
	c := s.Floats(100000) // more than any block
	c[0] = 3
	s.Release(inner)
	d := s.Floats(1)
	d[0] = 4
	if a[0] != 1 || b[0] != 2 {
		t.Errorf("memory that is in use was handed out again: %g and %g", a[0], b[0])
	}
	s.Release(mark)
}

func TestScratchAllocatesOnlyUntilItHasGrown(t *testing.T) {
	var s method.Scratch
	take := func() {
		mark := s.Mark()
		for n := range 50 {
			s.Floats(n * 100)
			s.Float64s(n)
			s.Uint32s(n)
		}
		s.Release(mark)
	}
	take()
	take()
	if n := testing.AllocsPerRun(10, take); n > 0 {
		t.Errorf("%g allocations, expected none", n)
	}
}

func TestWorkspaceIsOnePerType(t *testing.T) {
	type first struct{ a method.Buffer }
	type second struct{ a method.Buffer }
	var s method.Scratch
	method.Workspace[first](&s).a.Floats(3)[1] = 5
	method.Workspace[second](&s).a.Floats(3)[1] = 6
	if x := method.Workspace[first](&s).a.Floats(3)[1]; x != 5 {
		t.Errorf("a workspace holds %g after another was written, expected 5", x)
	}
}
