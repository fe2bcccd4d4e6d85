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

// faultyConn is a device's connection, and all that can be wrong with it.
type faultyConn struct {
	device.Conn
	fleet       *Fleet
	member      *member
	malicious   bool
	invalidSent int
	dropped     uint64 // the round and attempt, from 1, that the device has left
	evaluation  uint64 // the readout that the device was last asked for
	returned    uint64 // those that it had left, and that are over: what it has of them may be sent
}

// errDropped is what a device that has vanished sees of its calls.
var errDropped = errors.New("fleet: the device has vanished")

func (l *faultyConn) Enrol(ctx context.Context, r *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	out, err := l.Conn.Enrol(ctx, r)
	if err == nil {
		l.fleet.enrolled.Add(1)
	}
	return out, err
}

func (l *faultyConn) CheckIn(ctx context.Context, r *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	out, err := l.Conn.CheckIn(ctx, r)
	if err != nil {
		return nil, err
	}
	var m pb.Manifest
	t, left := out.GetTask(), uint32(l.dropped>>32) // the round, from 1
	over := t != nil && t.Round+1 != left
	if out.Manifest != nil && proto.Unmarshal(out.Manifest.Body, &m) == nil {
		l.member.at.Store(m.Round)
		over = over || m.Round >= left
	}
	if l.dropped != 0 && over {
		l.returned, l.dropped = l.dropped, 0
	}
	if t != nil && t.Kind != pb.Kind_TRAIN {
		l.evaluation = stamp(t.Round, t.Attempt)
	}
	if t != nil && l.dropped == stamp(t.Round, t.Attempt) { // it stays away until the next round
		return &pb.CheckInResponse{
			Manifest: out.Manifest,
			Action:   &pb.CheckInResponse_Wait{Wait: &pb.Wait{AfterMs: 200, Reason: "vanished"}},
		}, nil
	}
	return out, nil
}

func stamp(round, attempt uint32) uint64 { return uint64(round+1)<<32 | uint64(attempt) }

// draws reports whether a device does something in a round that so many do.
func (l *faultyConn) draws(purpose, round, attempt uint32, share float64) bool {
	r := rng.New(l.fleet.cfg.Seed, rng.Fleet, uint64(l.member.user), uint64(purpose), uint64(round), uint64(attempt))
	return share > 0 && r.Float64() < share
}

func (l *faultyConn) Report(ctx context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	c, at := &l.fleet.cfg, stamp(r.Round, r.Attempt)
	// A device that comes back, when the round is over, sends what it has, too late.
	if r.Kind == pb.Kind_TRAIN && at != l.returned && (at == l.dropped || l.draws(0, r.Round, 0, c.Drop)) {
		l.dropped = at
		return nil, errDropped
	}
	if c.Slow > 0 {
		pause(ctx, time.Duration(-math.Log(1-l.member.rand.Float64())*float64(c.Slow)))
	}
	if l.malicious && r.Kind == pb.Kind_TRAIN {
		if err := l.sendInvalid(ctx, r); err != nil {
			l.fleet.refuse("lie_" + rpc.Code(err))
		}
		l.dropped = at
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil // it has no more to say in this round
	}
	out, err := l.Conn.Report(ctx, r)
	if err != nil {
		return nil, err
	}
	switch out.State {
	case pb.ReportState_COUNTED:
		if r.Kind == pb.Kind_TRAIN {
			l.fleet.counted.Add(1)
			if c.Counted != nil {
				c.Counted(Counted{l.member.deviceID(), r.Round, [8]byte(r.Digest)})
			}
		}
	case pb.ReportState_CLOSED:
		l.fleet.closed.Add(1)
		if r.Kind == pb.Kind_TRAIN && c.Late != nil {
			c.Late(l.member.deviceID(), r.Round)
		}
	}
	return out, nil
}

func (m *member) deviceID() uint32 { return uint32(m.user) }

// sendInvalid sends something that must be refused, another thing each time.
func (l *faultyConn) sendInvalid(ctx context.Context, r *pb.ReportRequest) error {
	bad := proto.Clone(r).(*pb.ReportRequest)
	l.invalidSent++
	whole := func(b []byte) {
		bad.Data, bad.Bytes, bad.Offset, bad.Digest = b, uint64(len(b)), 0, wire.HashBlob(b).Hash
	}
	switch (l.invalidSent + l.member.user) % 6 {
	case 0: // far longer than its bound
		v := make([]int64, 4)
		for i := range v {
			v[i] = 1 << 50
		}
		whole(wire.AppendUpdate(nil, v))
	case 1: // no vector
		whole([]byte("\x01 this is not a vector"))
	case 2: // other bytes than its name says
		bad.Digest = wire.HashBlob([]byte("other")).Hash
	case 3: // larger than anything
		bad.Bytes = 1 << 40
	case 4: // of a round to come
		bad.Round += 1000
	case 5: // of another run
		bad.Run = make([]byte, wire.IDBytes)
	}
	_, err := l.Conn.Report(ctx, bad)
	return err
}

func (l *faultyConn) Mask(ctx context.Context, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	step := min(r.Step, 3)
	if l.dropped == stamp(r.Round, r.Attempt) || l.draws(1+step, r.Round, r.Attempt, l.fleet.cfg.Leave[step]) {
		l.dropped = stamp(r.Round, r.Attempt)
		return nil, errDropped
	}
	out, err := l.Conn.Mask(ctx, r)
	if err == nil && out.State == pb.MaskResponse_ENDED && l.fleet.cfg.Late != nil {
		l.fleet.cfg.Late(l.member.deviceID(), r.Round)
	}
	if err == nil && out.State == pb.MaskResponse_SUMMED && l.evaluation != stamp(r.Round, r.Attempt) {
		l.fleet.counted.Add(1)
		if l.fleet.cfg.Counted != nil {
			l.fleet.cfg.Counted(Counted{DeviceID: l.member.deviceID(), Round: r.Round})
		}
	}
	return out, err
}
