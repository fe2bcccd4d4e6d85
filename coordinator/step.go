package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// Mask is a step of a masked round.
func (d door) Mask(ctx context.Context, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	seat := seatOf(ctx)
	if !d.begun() {
		return nil, rpc.Refuse("wrong_run", connect.CodeFailedPrecondition, "no run has begun")
	}
	d.mu.Lock()
	b := d.masked
	d.visited(seat, d.now()) // it does not check in while a sum is made
	d.mu.Unlock()
	if b == nil || !b.is(r) {
		if d.isSummed(seat, r) {
			return &pb.MaskResponse{State: pb.MaskResponse_SUMMED}, nil
		}
		d.late(b, seat, r, pb.MaskResponse_ENDED)
		return &pb.MaskResponse{State: pb.MaskResponse_ENDED}, nil
	}
	v := b.of[seat]
	if v == nil {
		return nil, rpc.Refuse("not_in_cohort", connect.CodePermissionDenied, "%v", errNotYour)
	}
	message := r.Message
	if r.Bytes > uint64(len(r.Message)) {
		whole, next, err := d.uploads.add(seat, &pb.Blob{Hash: r.Digest, Bytes: r.Bytes}, r.Offset, r.Message,
			uint64(v.numbers)*5+4096)
		if err != nil {
			return nil, err
		}
		if whole == nil {
			return &pb.MaskResponse{State: pb.MaskResponse_PART, Next: next}, nil
		}
		message = whole
	}
	out, err := v.mask(seat, int(r.Step), message)
	if errors.Is(err, errNotYour) {
		return nil, rpc.Refuse("not_in_cohort", connect.CodePermissionDenied, "%v", err)
	}
	if err != nil {
		return nil, rpc.Refuse("malformed", connect.CodeInvalidArgument, "%v", err)
	}
	d.late(b, seat, r, out.State)
	return out, nil
}

// late notes that a device of the round came with a message when its step, or the attempt
// before this one, was over.
func (c *Coordinator) late(b *buckets, seat uint32, r *pb.MaskRequest, state pb.MaskResponse_State) {
	if state != pb.MaskResponse_ENDED || len(r.Message) == 0 || b == nil || b.of[seat] == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := &b.of[seat].task; t.Round == r.Round && bytes.Equal(t.Run, r.Run) {
		c.outrun = true
	}
}

// hasten makes steps shorter again where all of an attempt took less than half of one.
func (c *Coordinator) hasten(took time.Duration) {
	whole := c.stepTime()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outrun = false; c.slow > 0 && took < whole/2 {
		c.slow--
	}
}

// stepTime is how long a step waits for its messages. Devices stay until the last of the
// steps may be over: who gave up before would end an attempt.
// Where some came too late for a step, and an attempt ended for that, the next ones have longer steps.
func (c *Coordinator) stepTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings.Deadline / 2 << c.slow
}

// slowest is how often steps become twice as long.
const slowest = 4

// again is before another attempt. Devices read the state too: it does not say how many of
// them came.
func (f *fleet) again(ctx context.Context, t, tried int) error {
	f.mu.Lock()
	if f.outrun && f.slow < slowest {
		f.slow++
	}
	f.outrun = false
	f.mu.Unlock()
	if tried%maxAttempts > 0 {
		f.say(fmt.Sprintf("round %d: too few devices for a masked sum: another attempt", t+1))
		return ctx.Err()
	}
	f.say(fmt.Sprintf("round %d: too few devices for a masked sum in %d attempts: waiting before the next", t+1, tried))
	up, stop := f.timer(f.settings.Deadline)
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-up:
		return nil
	}
}
