package coordinator

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// fleet is the devices, as the round engine sees them.
type fleet struct{ *Coordinator }

var _ round.Devices = (*fleet)(nil)

// Count is N, which is fixed for the run.
func (f *fleet) Count() int { return f.settings.Devices }

// Round opens a round, until enough devices have reported or its time is up.
func (f *fleet) Round(ctx context.Context, t round.Task) (round.Aggregate, round.Report, error) {
	f.bound = *t.Bound
	cohort := slices.Clone(t.Cohort) // late calls still look into it when the next one is drawn
	collect := f.plainRound
	if f.settings.Masked {
		collect = f.maskedRound
	}
	defer f.enter(nil)
	sum, rep, err := collect(ctx, t.Round, cohort)
	return round.Aggregate{Integers: sum}, rep, err
}

// plainRound adds up reports that are not masked.
func (f *fleet) plainRound(ctx context.Context, t int, cohort []uint32) ([]int64, round.Report, error) {
	if err := f.someone(ctx, t); err != nil {
		return nil, round.Report{}, err
	}
	task := f.newTask(pb.Kind_TRAIN, t, f.plan.UpdateLength(t)+1, wire.EncodeBound(f.bound, 0, 0, mostOf(f.bound)))
	asked := len(cohort)
	if most := f.most(task); most > 0 {
		asked = min(asked, most)
	}
	h, err := f.meet(ctx, task, cohort, f.goal(asked))
	if err != nil {
		return nil, round.Report{}, err
	}
	n := h.count()
	f.ending = h.ended()
	f.ending.Turns = f.times
	return h.sum, round.Report{Devices: n - h.idle, Idle: h.idle, Dropped: asked - n}, nil
}

// someone waits until any device has come since the last round began, where a round of
// nobody would be paid for and nothing else may be waited for: with independent draws, who
// of a cohort came is secret. Who comes at all is not drawn.
func (f *fleet) someone(ctx context.Context, t int) error {
	if g := f.engine.Stack; g == nil || g.RequiredDevices() > 0 {
		return nil
	}
	look := time.NewTicker(min(f.settings.Deadline/4, time.Second))
	defer look.Stop()
	for {
		f.mu.Lock()
		came := f.counts["check_ins"]
		if came > f.seen {
			f.seen = came
			f.state = fmt.Sprintf("round %d of %d", t+1, f.settings.Rounds)
			f.mu.Unlock()
			return nil
		}
		f.state = fmt.Sprintf("round %d: waiting for a device to check in", t+1)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// least is the number of reports without which a round does not end at its deadline. Under
// DP a sum of fewer is thrown away and paid for.
func (c *Coordinator) least(cohort int) int {
	switch {
	case c.settings.DP.On():
		return min(cohort, c.engine.Stack.RequiredDevices())
	}
	return int(float64(cohort) * c.settings.Least)
}

// goal is the number of reports with which a round ends before its time. Under DP who
// is absent counts as zero, and all are waited for until the deadline.
func (c *Coordinator) goal(cohort int) int {
	if c.settings.DP.On() || cohort == 0 {
		return cohort
	}
	return max(1, min(cohort, int(float64(cohort)*c.settings.Goal+0.999999)))
}

func (c *Coordinator) newTask(kind pb.Kind, t, numbers int, b *pb.Bound) *pb.Task {
	return &pb.Task{
		Kind: kind, Run: c.run, Round: uint32(t), Bound: b, ModelVersion: c.models.Last(),
		Length: uint64(numbers),
	}
}

// mostOf is the largest magnitude of an integer that a bound allows.
func mostOf(b privacy.Bound) int64 {
	if b.MaxInteger > 0 {
		return b.MaxInteger
	}
	return max(int64(b.Levels)+1, privacy.BitLevels)
}

// logOf names the groups of a round of this turn.
func (c *Coordinator) logOf(task *pb.Task) string {
	return fmt.Sprintf("round.%x.%d.%d.%d", c.run[:4], c.times, task.Round, task.Kind)
}

// meet opens a hall and waits for its reports.
func (c *Coordinator) meet(ctx context.Context, task *pb.Task, cohort []uint32, goal int) (*hall, error) {
	h, err := openHall(c.st, c.logOf(task), task, cohort, goal, c.most(task), c.now().Add(c.settings.Deadline))
	if err != nil {
		return nil, err
	}
	h.places = newPlaces(c.settings.Deadline / 2)
	c.enter(h)
	asked := len(cohort)
	if h.most > 0 {
		asked = min(asked, h.most)
	}
	least := c.least(asked)
	timer := time.NewTimer(c.settings.Deadline)
	defer timer.Stop()
	for waiting := goal > 0; waiting; {
		select {
		case <-ctx.Done():
			c.enter(nil)
			h.close()
			return nil, ctx.Err()
		case <-h.full:
			waiting = false
		case <-timer.C:
			if waiting = h.count() < least && !h.exhausted(); waiting {
				c.say(c.short(task, h.count(), asked, least))
				h.extend(c.now(), c.settings.Deadline)
				timer.Reset(c.settings.Deadline)
			}
		}
	}
	h.close()
	c.uploads.clear()
	return h, nil
}

// short says that a round waits on. Devices read it too: under a promise it does not say
// how many of them came.
func (c *Coordinator) short(task *pb.Task, came, cohort, least int) string {
	if c.settings.DP.On() {
		return fmt.Sprintf("round %d: too few devices came: waiting on", task.Round+1)
	}
	return fmt.Sprintf("round %d: %d of %d devices came, and %d are the least: waiting on", task.Round+1, came, cohort,
		least)
}

func (c *Coordinator) enter(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.place = p
}

// extend gives a round more time, and everybody another try at a place.
func (h *hall) extend(now time.Time, by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = now.Add(by)
	h.places.renew(now)
}

// tasked is the round's task, for who is in it and not in its sum.
func (h *hall) tasked(seat uint32, now time.Time) *pb.Task {
	if !h.in(seat) || h.has(seat) {
		h.turnedAway()
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.most > 0 && !h.places.give(seat, h.most-h.taken, now) {
		return nil
	}
	t := &h.task
	return &pb.Task{
		Kind: t.Kind, Run: t.Run, Round: t.Round, Attempt: t.Attempt, Bound: t.Bound, ModelVersion: t.ModelVersion,
		Length:      t.Length,
		RemainingMs: uint32(max(1, h.ends.Sub(now).Milliseconds())),
	}
}

func (h *hall) progress() (done, of int) {
	if h.most > 0 {
		return h.count(), min(h.most, len(h.cohort))
	}
	return h.count(), len(h.cohort)
}

func (h *hall) ended() closedRound {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := closedRound{Round: h.task.Round}
	for seat := range h.counted {
		out.Seats = append(out.Seats, seat)
	}
	slices.Sort(out.Seats)
	for _, seat := range out.Seats {
		out.Digests = append(out.Digests, h.counted[seat])
	}
	return out
}

// derived is a stream of privacy noise, of a key that nobody else has.
func derived(key [32]byte, n privacy.Node, piece int) io.Reader {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("tacit noise"))
	for _, x := range []int{n.Tree, n.Level, n.Index, piece} {
		mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(x)))
	}
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	return &keyStream{cipher.NewCTR(block, make([]byte, aes.BlockSize))}
}

type keyStream struct{ cipher.Stream }

func (k *keyStream) Read(b []byte) (int, error) {
	clear(b)
	k.XORKeyStream(b, b)
	return len(b), nil
}

// secretSeed is that of cohorts.
func secretSeed(secret [32]byte, times int) uint64 {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write(binary.LittleEndian.AppendUint64([]byte("tacit cohorts"), uint64(times)))
	return binary.LittleEndian.Uint64(mac.Sum(nil))
}

var idleForm = wire.AppendUpdate(nil, nil)

// isIdle reports whether a report is that of a device with nothing to learn from.
func isIdle(body []byte) bool { return bytes.Equal(body, idleForm) }
