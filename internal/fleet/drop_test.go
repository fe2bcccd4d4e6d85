package fleet_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/fleet"
)

// Devices that drop out of a round are not counted in it, and the run still ends for all devices.
func TestDroppedDevicesAreNotCounted(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Deadline, s.Minimum = 700*time.Millisecond, 0.2
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	var acked sum
	r.run(func(c *fleet.Config) { c.Drop, c.Counted = 0.5, acked.add }, uint32(s.Rounds))
	n := 0
	for k := range uint32(s.Rounds) {
		c, err := r.admin.Counted(context.Background(), k)
		if err != nil {
			t.Fatal(err)
		}
		n += len(c.DeviceIDs)
	}
	// About 60 of 120. The seed fixes the draws; a slow machine only loses more.
	if all := s.Rounds * split.Users(); n == 0 || n > all*2/3 || n != acked.n() {
		t.Errorf("%d of %d reports are in sums, and %d were acknowledged, where half of the devices vanish", n, all,
			acked.n())
	}
}
