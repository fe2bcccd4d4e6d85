package coordinator

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/privacy"
)

// bareSmall are settings of masked sums without DP.
func bareSmall(n int) Settings {
	s := small(n)
	s.Method, s.Masked, s.Bits = "ials", true, 24
	return s
}

// Without DP the coordinator checks each number of a group's sum against the range of its devices. A
// lying device costs its group only.
func TestALyingDeviceWithoutDPCostsOnlyItsGroup(t *testing.T) {
	t.Parallel()
	const n, liar = 45, 7
	for name, lie := range map[string]int32{"more than there are": 11, "fewer than none": -15} {
		t.Run(name, func(t *testing.T) {
			s := bareSmall(n)
			s.GroupSize, s.Rounds = 15, 1
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
			d := r.enrolled(n)
			var wg sync.WaitGroup
			for i := range d {
				task := d[i].task()
				m := task.Masking
				if m.GetDevices() != 15 || m.MinDevices < privacy.MinMaskedSum || int(m.Bits) != s.Bits ||
					!task.Bound.PerSlot ||
					task.Bound.Noise != 0 {
					t.Fatalf("device %d has the task %v", i, task)
				}
				values := make([]int32, task.Length)
				values[0], values[len(values)-1] = int32(task.Bound.Max), 1 // all that an honest device may send
				if i == liar {
					values[len(values)-1] = lie
				}
				wg.Go(func() { d[i].played(t, task, values, nil) })
			}
			wg.Wait()
			waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
			if ids := r.counted(0); len(ids) != n-15 || slices.Contains(ids, d[liar].id) {
				t.Errorf("%v are in the sum, want two groups without device %d", ids, d[liar].id)
			}
			if c := r.c.Status().Counts["groups_over_bound"]; c != 1 {
				t.Errorf("%d groups were over the bound, want 1", c)
			}
		})
	}
}

// The coordinator sees an exact sum with central DP too: two devices do not hide each other. With
// distributed noise min-devices decides.
func TestSmallExactSumsAreRefused(t *testing.T) {
	for _, n := range []int{2, privacy.MinMaskedGroup - 1, privacy.MinMaskedGroup} {
		for _, cohort := range []round.Cohort{{Kind: "all"}, {Kind: "count", Count: n}, {Kind: "cycle", Count: n}} {
			for dp, minimum := range map[string]int{
				"none":                           privacy.MinMaskedGroup,
				"epsilon=50,delta=1e-3,clip=0.5": privacy.MinMaskedGroup,
				"epsilon=50,delta=1e-3,clip=0.5,min-devices=2":                   privacy.MinMaskedGroup,
				"epsilon=50,delta=1e-3,clip=0.5,trust=distributed,min-devices=1": 2,
			} {
				s := withDP(bareSmall(2*n), dp)
				if s.Cohort = cohort; cohort.Kind == "all" {
					s.Devices = n
				}
				if s.DP.On() && cohort.Kind == "cycle" {
					continue
				}
				err := s.Check()
				if (err == nil) != (n >= minimum) {
					t.Errorf("masked sums of %d devices, cohort %s, dp %s: %v", n, cohort.Kind, dp, err)
				}
			}
		}
	}
}

// A run that cannot be masked without DP is refused before it begins, and the text says
// what to do.
func TestMasksWithoutABoundAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(s *Settings){
		"tacit, gru4":  func(s *Settings) { s.Method, s.Params = "fedmf", map[string]string{"dim": "2"} },
		"bits=24":      func(s *Settings) { s.Bits = 0 },
		"sum of 8 dev": func(s *Settings) { s.Devices = 8 },
		"larger coho":  func(s *Settings) { s.Cohort = round.Cohort{Kind: "cycle", Count: 12} },
		"sum of 9 dev": func(s *Settings) { s.GroupSize = 9 },
		"poisson":      func(s *Settings) { s.Cohort = round.Cohort{Kind: "poisson", Share: 0.5} },
	} {
		s := bareSmall(30)
		change(&s)
		r, err := tryOpen(t, filepath.Join(t.TempDir(), "state"), &s, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if err == nil {
			r.stop()
		}
	}
}
