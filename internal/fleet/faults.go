package fleet

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// faultyConn is the connection of a device with its faults.
type faultyConn struct {
	device.Conn
	fleet       *Fleet
	member      *member
	malicious   bool
	invalidSent int
	dropped     uint64 // round and attempt (see stamp) that the device has dropped out of
	evaluation  uint64 // round and attempt of the last evaluation task
	returned    uint64 // round and attempt that it dropped out of and that are over: it may send its late report
}

// errDropped is the error of all calls of a device that has dropped out.
var errDropped = errors.New("the device has dropped out")

func (c *faultyConn) Enrol(ctx context.Context, r *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	out, err := c.Conn.Enrol(ctx, r)
	if err == nil {
		c.fleet.enrolled.Add(1)
	}
	return out, err
}

func (c *faultyConn) CheckIn(ctx context.Context, r *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	out, err := c.Conn.CheckIn(ctx, r)
	if err != nil {
		return nil, err
	}
	var m pb.Manifest
	t, left := out.GetTask(), uint32(c.dropped>>32) // the round, from 1
	over := t != nil && t.Round+1 != left
	if out.Manifest != nil && proto.Unmarshal(out.Manifest.Body, &m) == nil {
		c.member.rounds.Store(m.Round)
		over = over || m.Round >= left
	}
	if c.dropped != 0 && over {
		c.returned, c.dropped = c.dropped, 0
	}
	if t != nil && t.Kind != pb.Kind_TRAIN {
		c.evaluation = stamp(t.Round, t.Attempt)
	}
	if t != nil && c.dropped == stamp(t.Round, t.Attempt) { // it waits for the next round
		after := max(200, min(t.RemainingMs/16, 10_000))
		return &pb.CheckInResponse{
			Manifest: out.Manifest,
			Action:   &pb.CheckInResponse_Wait{Wait: &pb.Wait{AfterMs: after, Reason: "dropped out"}},
		}, nil
	}
	return out, nil
}

// stamp packs a round, from 1, and an attempt.
func stamp(round, attempt uint32) uint64 { return uint64(round+1)<<32 | uint64(attempt) }

// draws reports whether a device is in the random fraction that has a fault in a round.
func (c *faultyConn) draws(purpose, round, attempt uint32, fraction float64) bool {
	r := rng.New(c.fleet.cfg.Seed, rng.Fleet, uint64(c.member.user), uint64(purpose), uint64(round), uint64(attempt))
	return fraction > 0 && r.Float64() < fraction
}

func (c *faultyConn) Report(ctx context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	cfg := &c.fleet.cfg
	at := stamp(r.Round, r.Attempt)
	// A device that returns after the round sends its report too late.
	if r.Kind == pb.Kind_TRAIN && at != c.returned && (at == c.dropped || c.draws(0, r.Round, 0, cfg.Drop)) {
		c.dropped = at
		return nil, errDropped
	}
	if cfg.Slow > 0 {
		pause(ctx, time.Duration(-math.Log(1-c.member.rand.Float64())*float64(cfg.Slow)))
	}
	if c.malicious && r.Kind == pb.Kind_TRAIN {
		if err := c.sendInvalid(ctx, r); err != nil {
			c.fleet.refuse("lie_" + rpc.Code(err))
		}
		c.dropped = at
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil // it is done with this round
	}
	if whole := r.Offset == 0 && uint64(len(r.Data)) == r.Bytes; cfg.Lie != nil && whole && r.Kind == pb.Kind_TRAIN {
		r = proto.Clone(r).(*pb.ReportRequest)
		r.Data = cfg.Lie(c.member.deviceID(), r.Round, r.Data)
		r.Bytes, r.Digest = uint64(len(r.Data)), wire.HashBlob(r.Data).Hash
	}
	out, err := c.Conn.Report(ctx, r)
	if err != nil {
		return nil, err
	}
	switch out.State {
	case pb.ReportState_COUNTED:
		if r.Kind == pb.Kind_TRAIN {
			c.fleet.counted.Add(1)
			if cfg.Counted != nil {
				cfg.Counted(Counted{c.member.deviceID(), r.Round, [8]byte(r.Digest)})
			}
		}
	case pb.ReportState_CLOSED:
		c.fleet.closed.Add(1)
		if r.Kind == pb.Kind_TRAIN && cfg.Late != nil {
			cfg.Late(c.member.deviceID(), r.Round)
		}
	}
	return out, nil
}

func (m *member) deviceID() uint32 { return uint32(m.user) }

// sendInvalid sends an invalid report, a different kind each time.
func (c *faultyConn) sendInvalid(ctx context.Context, r *pb.ReportRequest) error {
	bad := proto.Clone(r).(*pb.ReportRequest)
	c.invalidSent++
	whole := func(b []byte) {
		bad.Data, bad.Bytes, bad.Offset, bad.Digest = b, uint64(len(b)), 0, wire.HashBlob(b).Hash
	}
	switch (c.invalidSent + c.member.user) % 6 {
	case 0: // far beyond its bound
		v := make([]int64, 4)
		for i := range v {
			v[i] = 1 << 50
		}
		whole(wire.AppendUpdate(nil, v))
	case 1: // malformed update
		whole([]byte("\x01 this is not an update"))
	case 2: // wrong digest
		bad.Digest = wire.HashBlob([]byte("other")).Hash
	case 3: // too large
		bad.Bytes = 1 << 40
	case 4: // a future round
		bad.Round += 1000
	case 5: // another run
		bad.Run = make([]byte, wire.IDBytes)
	}
	_, err := c.Conn.Report(ctx, bad)
	return err
}

func (c *faultyConn) Mask(ctx context.Context, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	step := min(r.Step, 3)
	if c.dropped == stamp(r.Round, r.Attempt) || c.draws(1+step, r.Round, r.Attempt, c.fleet.cfg.Leave[step]) {
		c.dropped = stamp(r.Round, r.Attempt)
		return nil, errDropped
	}
	if r.Step == wire.StepUpload && len(r.Message) > 0 { // all devices share the processor and the connection
		c.fleet.uploads <- struct{}{}
		defer func() { <-c.fleet.uploads }()
	}
	out, err := c.Conn.Mask(ctx, r)
	if err == nil && out.State == pb.MaskResponse_ENDED && c.fleet.cfg.Late != nil {
		c.fleet.cfg.Late(c.member.deviceID(), r.Round)
	}
	if err == nil && out.State == pb.MaskResponse_SUMMED && c.evaluation != stamp(r.Round, r.Attempt) {
		c.fleet.counted.Add(1)
		if c.fleet.cfg.Counted != nil {
			c.fleet.cfg.Counted(Counted{DeviceID: c.member.deviceID(), Round: r.Round})
		}
	}
	return out, err
}
