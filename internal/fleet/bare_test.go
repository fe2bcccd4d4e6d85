package fleet_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
)

// bareMasks are settings with masked sums and no policy.
func bareMasks(split *data.Split, name string, bucket int, params ...string) coordinator.Settings {
	s := settings(split, name, append([]string{"dim", "4"}, params...)...)
	s.Masked, s.GroupSize, s.Rounds = true, bucket, 3
	return s
}

// unmasked is the simulation of the same sums without masks.
func unmasked(t *testing.T, split *data.Split, s coordinator.Settings) *sim.Run {
	s.Masked = false
	return simulated(t, split, s)
}

// Masking without a policy changes no bit: in one sum, in several masked groups, with rows of few devices left
// out, and with devices that have no training data.
func TestMaskingWithoutPolicyChangesNoBit(t *testing.T) {
	for name, of := range map[string]struct {
		method string
		bucket int
		params []string
	}{
		"next":            {"ials-next", 0, nil},
		"next in buckets": {"ials-next", 15, []string{"few", "3"}},
		"ials":            {"ials", 0, []string{"few", "3"}},
		"ials in buckets": {"ials", 15, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := splitBy(t, "temporal", "users=30,items=60,mean-rows=6,seed=3")
			s := bareMasks(split, of.method, of.bucket, of.params...)
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			f, want := r.run(nil, uint32(s.Rounds)), unmasked(t, split, s)
			same(t, r.newest(), want)
			same(t, r.newest(), simulated(t, split, s))
			if want.Idle == 0 {
				t.Error("every device has something to learn from: nothing is shown")
			}
			if of.params != nil {
				leavesFewAlone(t, split, s, want)
			}
			least := int64(0)
			for k := range s.Rounds {
				// the smallest modulus of a masked group
				least += int64(split.Users() * ((want.Plan().UpdateLength(k) + 1) * 17 / 8))
			}
			if sent := f.Stats().Bytes; sent < least {
				t.Errorf("devices have sent %d bytes, and whole tables are %d or more", sent, least)
			}
		})
	}
}

// leavesFewAlone checks that the model differs without the rule; otherwise the test would not cover it.
func leavesFewAlone(t *testing.T, split *data.Split, s coordinator.Settings, want *sim.Run) {
	t.Helper()
	s.Params = map[string]string{"dim": "4", "few": "1"}
	all := unmasked(t, split, s)
	for i, slot := range want.Slots() {
		if slot.Scope != method.Shared || slot.Upload == method.Sum {
			continue
		}
		for k, x := range want.Value(i) {
			if x != all.Value(i)[k] {
				return
			}
		}
	}
	t.Error("no row has so few devices that it is left alone")
}

// Devices may drop out at any step: the round has the sum of the others, or another attempt.
func TestMaskingWithoutPolicySurvivesDropoutsAtEveryStep(t *testing.T) {
	for name, of := range map[string]struct {
		method string
		bucket int
		params []string
	}{
		"ials":            {"ials", 0, nil},
		"ials in buckets": {"ials", 15, nil},
		"gru4rec":         {"gru4rec", 0, []string{"lr", "1", "row-lr", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := splitBy(t, "temporal", "users=30,items=30,mean-rows=6,seed=3")
			s := bareMasks(split, of.method, of.bucket, of.params...)
			s.Rounds = 2
			s.Deadline = max(2*time.Second, pace(t, split, s))
			dropouts(t, split, s)
		})
	}
}

// dropouts runs masked rounds from which devices drop out, and compares the model with a simulation
// of those that stay.
func dropouts(t *testing.T, split *data.Split, s coordinator.Settings) {
	t.Helper()
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	var acked sum
	r.run(func(c *fleet.Config) { c.Leave, c.Counted = [4]float64{0.04, 0.04, 0.04, 0.04}, acked.add },
		uint32(s.Rounds))
	s.Masked = false
	run := simulation(t, split, s)
	var came [][]uint32
	n := 0
	for k := range uint32(s.Rounds) {
		c, err := r.admin.Counted(context.Background(), k)
		if err != nil || len(c.DeviceIDs) < 10 {
			t.Fatalf("round %d has %d devices: %v", k+1, len(c.DeviceIDs), err)
		}
		came = append(came, c.DeviceIDs)
		n += len(c.DeviceIDs)
	}
	if n == s.Rounds*split.Users() || acked.n() > n {
		t.Errorf("%d reports are in sums, %d were acknowledged, and some devices have left", n, acked.n())
	}
	run.Replay(func(t int, dst []uint32) []uint32 { return append(dst, came[t]...) }, nil)
	same(t, r.newest(), finished(t, run))
}
