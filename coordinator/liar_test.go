package coordinator

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// lie changes what a device sends in a masked round.
type lie struct {
	deal   func(*secagg.ShareBundle)
	upload func(*secagg.Upload)
	reveal func(*secagg.Reveal)
}

func (l *lie) deals(m *secagg.ShareBundle) {
	if l != nil && l.deal != nil {
		l.deal(m)
	}
}

func (l *lie) uploads(m *secagg.Upload) {
	if l != nil && l.upload != nil {
		l.upload(m)
	}
}

func (l *lie) reveals(m *secagg.Reveal) {
	if l != nil && l.reveal != nil {
		l.reveal(m)
	}
}

// lies are what one device can do to a masked round, alone. The coordinator sees each in the device's
// own messages, or, with garbage for shares, in what most other devices say.
func lies() map[string]*lie {
	garbage := func(from, to int) func(*secagg.ShareBundle) {
		return func(m *secagg.ShareBundle) {
			for i := range m.Shares[from:to] {
				m.Shares[from+i].Data[0] ^= 1
			}
		}
	}
	return map[string]*lie{
		"flips a bit":             {upload: flipped},
		"reveals wrong shares":    {reveal: func(m *secagg.Reveal) { m.Shares = wrong(m.Shares) }},
		"keeps shares back":       {reveal: func(m *secagg.Reveal) { m.Shares = m.Shares[:3] }},
		"deals garbage":           {deal: garbage(0, 12)},
		"uploads too few numbers": {upload: func(m *secagg.Upload) { m.Data = m.Data[1:] }},
		"uploads for others":      {upload: func(m *secagg.Upload) { m.From++ }},
	}
}

func wrong(shares []secagg.Share) []secagg.Share {
	for i := range shares {
		shares[i].Data[0] ^= 1
	}
	return shares
}

// A device that lies in masked rounds is named and excluded, after at most 2 attempts. The other 20
// devices then finish.
func TestLiarIsExcluded(t *testing.T) {
	t.Parallel()
	const n, liar = 21, 7
	for name, l := range lies() {
		t.Run(name, func(t *testing.T) {
			s := bareSmall(n)
			s.Rounds, s.Deadline = 2, time.Minute
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
			d := r.enrolled(n)
			d[liar].lie = l
			attempts := r.playMasked(d, 2)
			excluded := r.c.Status().Excluded
			if len(excluded) != 1 || excluded[0].ID != liar || excluded[0].Reason == "" {
				t.Fatalf("%+v are excluded", excluded)
			}
			if joined := len(attempts[liar]); joined > 2 {
				t.Errorf("it took part in %d attempts", joined)
			}
			if in := r.counted(1); len(in) != n-1 || slices.Contains(in, liar) {
				t.Errorf("%v are in the last round", in)
			}
			_, err := d[liar].CheckIn(context.Background(), &pb.CheckInRequest{})
			r.refused(err, rpc.Excluded)
		})
	}
}

// Devices that only drop out, at any step and in every attempt, are never excluded, and neither is one
// that others accuse.
func TestHonestDevicesAreNotExcluded(t *testing.T) {
	t.Parallel()
	const n = 21
	s := bareSmall(n)
	s.Rounds, s.Deadline = 1, time.Second
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	for step, i := range []int{2, 5, 8, 0, 11} {
		d[i].leaves, d[i].leavesAt = pb.Kind_TRAIN, step
	}
	d[3].lie = &lie{upload: func(m *secagg.Upload) { m.Rejected = []uint32{4, 5} }}
	r.playMasked(d, 1)
	for _, e := range r.c.devices.Excluded() {
		if e.ID != 3 { // its tag does not cover what it says
			t.Errorf("device %d is excluded: %s", e.ID, e.Reason)
		}
	}
}

// playMasked lets devices play masked rounds until a number of them are over. It returns the attempts
// that each device joined.
func (r *harness) playMasked(d []*testDevice, rounds int) [][]uint32 {
	r.t.Helper()
	attempts := make([][]uint32, len(d))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for i, h := range d {
		wg.Go(func() {
			for ctx.Err() == nil && r.c.Status().Round < rounds {
				a, err := h.CheckIn(ctx, &pb.CheckInRequest{})
				if task := a.GetTask(); err == nil && task != nil && !slices.Contains(attempts[i], task.Attempt) {
					attempts[i] = append(attempts[i], task.Attempt)
					h.played(r.t, task, make([]int32, task.Length), nil)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	if wg.Wait(); ctx.Err() != nil {
		r.t.Fatalf("%d rounds were not done in time: %+v", rounds, r.c.Status())
	}
	return attempts
}

// clipAfter plays a masked round in which every device is within its clipping bound, except one that
// sends a bit of its own, and returns the bounds before and after it.
func clipAfter(t *testing.T, groups int, lie int32) (before, after float64, ignored int64) {
	const n, liar = 28, 3
	s := withDP(small(n), "epsilon=500,delta=1e-3,clip=0.5,adaptive=geometric,min-devices=10")
	s.Masked, s.Rounds, s.GroupSize = true, 2, n/groups
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	var wg sync.WaitGroup
	for i, h := range d {
		task := h.task()
		before = task.Bound.Clip
		values := make([]int32, task.Length)
		if values[len(values)-1] = privacy.BitLevels / 2; i == liar && lie != 0 {
			values[len(values)-1] = lie
		}
		wg.Go(func() { h.played(t, task, values, nil) })
	}
	wg.Wait()
	waitFor(t, "the round ends", func() bool { return r.c.Status().Round == 1 })
	return before, d[0].task().Bound.Clip, r.c.Status().Counts["clip_bits_ignored"]
}

// Under masks a device can add anything to the sum of the clipping bits. If honest devices cannot have
// made the sum, it does not move the bound; with groups it moves it by no more than one group may.
func TestAFalseClippingBitDoesNotMoveTheBound(t *testing.T) {
	t.Parallel()
	before, honest, ignored := clipAfter(t, 1, 0)
	if !(honest < before) || ignored != 0 {
		t.Fatalf("honest devices move the bound from %g to %g; %d sums are ignored", before, honest, ignored)
	}
	for _, lie := range []int32{100 * privacy.BitLevels, -100 * privacy.BitLevels} {
		before, after, ignored := clipAfter(t, 1, lie)
		if after != before || ignored != 1 {
			t.Errorf("bit %d: the bound moves from %g to %g; %d sums are ignored, expected 1", lie, before, after,
				ignored)
		}
		before, after, ignored = clipAfter(t, 2, lie)
		if after < honest || after > before || ignored != 1 {
			t.Errorf("bit %d, two groups: the bound moves from %g to %g, honest devices move it to %g; %d are ignored",
				lie, before, after, honest, ignored)
		}
	}
}

// Without masks the coordinator sees a false clipping bit, refuses the report and excludes its sender.
func TestAFalseClippingBitOfAPlainReport(t *testing.T) {
	s := withDP(small(4), "epsilon=50,delta=1e-3,clip=0.5,adaptive=geometric")
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	task := d[1].task()
	values := make([]int64, task.Length)
	values[len(values)-1] = privacy.BitLevels
	_, err := d[1].Report(context.Background(), request(task, wire.AppendUpdate(nil, values)))
	r.refused(err, rpc.OverBound)
	if all := r.c.devices.Excluded(); len(all) != 1 || all[0].ID != 1 {
		t.Errorf("%+v are excluded", all)
	}
}
