package coordinator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// door answers devices.
type door struct{ *Coordinator }

var _ pbconnect.FederationHandler = door{}

// Sizes of what travels in one call.
const (
	bodyBytes  = 2 << 20
	pieceBytes = 1 << 20
)

// Hello tells a device whom it talks to.
func (d door) Hello(_ context.Context, r *pb.HelloRequest) (*pb.HelloResponse, error) {
	v := min(r.Newest, wire.NewestVersion)
	if v < max(r.Oldest, wire.OldestVersion) {
		return nil, rpc.Refuse("wrong_version", connect.CodeFailedPrecondition,
			"this coordinator speaks versions %d to %d of the protocol and the device %d to %d: update the older one",
			wire.OldestVersion, wire.NewestVersion, r.Oldest, r.Newest)
	}
	name, rehearsal := "a federation", false
	if d.begun() {
		name, rehearsal = d.settings.Name, d.settings.Rehearsal
	}
	return &pb.HelloResponse{
		Version: v, Federation: d.id[:], Name: name, Key: d.key.Public().(ed25519.PublicKey),
		NowMs:  d.now().UnixMilli(),
		Limits: &pb.Limits{BodyBytes: bodyBytes, PieceBytes: pieceBytes}, Deterministic: rehearsal,
	}, nil
}

// Enrol gives a key its seat, and answers when that is on disk.
func (d door) Enrol(ctx context.Context, r *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	who, _ := rpc.CallerFrom(ctx)
	key := ed25519.PublicKey(who.Key[:])
	if string(key) != string(r.Key) {
		return nil, rpc.Refuse("bad_signature", connect.CodeUnauthenticated,
			"the request is not signed with the key that it brings")
	}
	if _, _, revoked := d.devices.Lookup(key); revoked {
		return nil, errRevoked()
	}
	var wanted *uint32
	if r.WantsDeviceId {
		wanted = &r.DeviceId
	}
	id, again, err := d.devices.Enrol(key, r.Token, wanted, wire.MaxDevices, d.now())
	switch {
	case errors.Is(err, enrolment.ErrToken):
		return nil, rpc.Refuse("bad_token", connect.CodePermissionDenied, "%v", err)
	case errors.Is(err, enrolment.ErrQuota) || errors.Is(err, enrolment.ErrFull):
		return nil, rpc.Refuse("quota", connect.CodeResourceExhausted, "%v", err)
	case errors.Is(err, enrolment.ErrBusy):
		return nil, rpc.Refuse("slow_down", connect.CodeUnavailable, "%v", err)
	case err != nil:
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	if !again {
		d.tally("enrolled", 1)
	}
	return &pb.EnrolResponse{DeviceId: id, AlreadyEnrolled: again}, nil
}

func seatOf(ctx context.Context) uint32 {
	who, _ := rpc.CallerFrom(ctx)
	return who.DeviceID
}

// lookup is the seat of a key, for the server.
func (c *Coordinator) lookup(key [32]byte) (uint32, error) {
	id, known, revoked := c.devices.Lookup(key[:])
	switch {
	case !known:
		return 0, rpc.Refuse("unknown_key", connect.CodeUnauthenticated, "this device is not enrolled")
	case revoked:
		return 0, errRevoked()
	}
	return id, nil
}

func errRevoked() error {
	return rpc.Refuse("revoked", connect.CodePermissionDenied, "this device was revoked")
}

// Config is what a server of the federation needs; the caller adds limits and the
// operator's token.
func (c *Coordinator) Config() rpc.Config {
	return rpc.Config{Federation: door{c}, Admin: desk{c}, ID: c.id[:], Lookup: c.lookup, Now: c.opt.Now}
}

// CheckIn tells a device what to do, or when to come again.
func (d door) CheckIn(ctx context.Context, r *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	seat := seatOf(ctx)
	now := d.now()
	if !d.begun() {
		return &pb.CheckInResponse{Action: &pb.CheckInResponse_Wait{Wait: &pb.Wait{
			AfterMs: 1000,
			Reason:  "no run has begun",
		}}}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts["check_ins"]++
	d.visited(seat, now)
	out := &pb.CheckInResponse{}
	if r.ModelVersion < d.models.Last() {
		out.Manifest = d.models.Signed()
	}
	d.missing(seat, r.LastReport)
	if d.place != nil && !d.paused && int(seat) < d.settings.Devices {
		if t := d.offer(seat, now); t != nil {
			out.Action = &pb.CheckInResponse_Task{Task: t}
			return out, nil
		}
	}
	out.Action = &pb.CheckInResponse_Wait{Wait: &pb.Wait{
		AfterMs: uint32(d.after(seat, now).Milliseconds()),
		Reason:  d.why(seat),
	}}
	return out, nil
}

// after is when a device should come again: when something may have changed, and not so
// often that all of them together come faster than the rate.
func (c *Coordinator) after(seat uint32, now time.Time) time.Duration {
	n, _ := c.devices.Count()
	least := max(50*time.Millisecond, time.Duration(float64(n)/c.opt.Rate*float64(time.Second)),
		min(c.pace/8, 2*time.Second))
	wait := least
	switch {
	case c.state == done:
		wait = max(wait, 2*time.Second)
	case int(seat) >= c.settings.Devices:
		wait = max(wait, 10*time.Second)
	case c.gathers():
	case c.place != nil:
		took := now.Sub(c.opened)
		left := c.pace - took
		if left < 0 { // how many came would say more, and must not be told under a promise
			left = took / 4
		}
		wait = max(wait, min(left/2, c.settings.Deadline/2))
	}
	return time.Duration(float64(wait) * (0.75 + 0.5*rand.Float64()))
}

// Fetch reads a piece of a blob that the newest manifests name.
func (d door) Fetch(_ context.Context, r *pb.FetchRequest) (*pb.FetchResponse, error) {
	if len(r.Hash) != wire.HashBytes {
		return nil, rpc.Refuse("malformed", connect.CodeInvalidArgument, "a hash has %d bytes", wire.HashBytes)
	}
	b := d.models.Blob(store.Hash(r.Hash))
	if b == nil {
		return nil, rpc.Refuse("no_such_blob", connect.CodeNotFound, "no recent model has this blob: check in again")
	}
	if r.Offset >= uint64(len(b)) {
		return nil, rpc.Refuse("malformed", connect.CodeOutOfRange, "the blob ends at %d", len(b))
	}
	return &pb.FetchResponse{Data: b[r.Offset:min(r.Offset+pieceBytes, uint64(len(b)))]}, nil
}

// Report takes a piece of a report, and counts the report when it is whole.
func (d door) Report(ctx context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	seat := seatOf(ctx)
	if !d.begun() {
		return nil, rpc.Refuse("wrong_run", connect.CodeFailedPrecondition, "no run has begun")
	}
	h, refusal := d.hallOf(seat, r)
	switch {
	case refusal != nil:
		return nil, refusal
	case h == nil && d.isIn(seat, r.Round, short(r.Digest)):
		return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
	case h == nil:
		d.tardy(seat, r)
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil
	}
	switch { // another report than the one that counts is in no sum
	case h.holds(seat, short(r.Digest)):
		return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
	case h.has(seat):
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil
	}
	body, next, err := d.uploads.add(seat, &pb.Blob{Hash: r.Digest, Bytes: r.Bytes}, r.Offset, r.Data,
		uint64(wire.MaxUpdateBytes(h.numbers, h.task.Bound.Max)))
	if err != nil {
		return nil, err
	}
	if body == nil {
		return &pb.ReportResponse{State: pb.ReportState_MORE, Next: next}, nil
	}
	if idle := isIdle(body); !idle || d.settings.DP.On() {
		if err := wire.ReadUpdate(body, h.numbers, h.task.Bound.Max, nil); err != nil {
			return nil, rpc.Refuse("malformed", connect.CodeInvalidArgument, "%v", err)
		}
		if err := wire.CheckNorm(body, h.numbers, h.task.Bound); err != nil {
			return nil, rpc.Refuse("over_bound", connect.CodeInvalidArgument, "%v", err)
		}
	}
	err = h.Report(&report{seat: seat, digest: short(r.Digest), body: body})
	switch {
	case errors.Is(err, errClosed) || errors.Is(err, errCrowded):
		d.tally("late", 1)
		d.tardy(seat, r)
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil
	case errors.Is(err, errOther):
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil
	case err != nil:
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visited(seat, d.now())
	return &pb.ReportResponse{State: pb.ReportState_COUNTED, AfterMs: uint32(d.after(seat, d.now()).Milliseconds())},
		nil
}

// hallOf finds the round that a report is for; without one and without an error, it is
// over.
func (d door) hallOf(seat uint32, r *pb.ReportRequest) (*hall, error) {
	if len(r.Digest) != wire.HashBytes {
		return nil, rpc.Refuse("malformed", connect.CodeInvalidArgument, "a digest has %d bytes", wire.HashBytes)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if string(r.Run) != string(d.run) {
		return nil, rpc.Refuse("wrong_run", connect.CodeFailedPrecondition, "another run is going on")
	}
	if r.Kind != pb.Kind_TRAIN || d.settings.Masked {
		return nil, rpc.Refuse("not_masked", connect.CodeFailedPrecondition,
			"a report of this kind is masked, always: in the clear it is not taken")
	}
	h, ok := d.place.(*hall)
	if !ok || r.Round != h.task.Round {
		next := uint32(d.models.Round())
		switch {
		case r.Round > next:
			return nil, rpc.Refuse("wrong_round", connect.CodeFailedPrecondition, "round %d has not begun", r.Round+1)
		case r.Round == next && int(next) < d.settings.Rounds: // its outcome is being written, or it is not open yet
			return nil, rpc.Refuse("not_now", connect.CodeFailedPrecondition,
				"whether round %d has this report is not known yet: ask again", r.Round+1)
		}
		return nil, nil
	}
	if !h.in(seat) {
		return nil, rpc.Refuse("not_in_cohort", connect.CodePermissionDenied, "%v", errNotYour)
	}
	return h, nil
}

// Leave takes a device's seat away, at its wish.
func (d door) Leave(ctx context.Context, _ *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	if err := d.devices.Revoke(seatOf(ctx)); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	d.tally("left", 1)
	return &pb.LeaveResponse{}, nil
}

func (c *Coordinator) tally(what string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what] += n
}

// uploads are reports of which pieces are here.
type uploads struct {
	mu   sync.Mutex
	by   map[uint32]*wire.Assembly
	held uint64
}

func newUploads() uploads { return uploads{by: map[uint32]*wire.Assembly{}} }

// heldMost bounds what half-sent reports take.
const heldMost = 512 << 20

// add takes a piece of what a blob names. The whole is returned when it is there.
func (u *uploads) add(seat uint32, name *pb.Blob, offset uint64, data []byte, most uint64) (whole []byte, next uint64,
	err error,
) {
	refuse := func(code string, err error) ([]byte, uint64, error) {
		return nil, 0, rpc.Refuse(code, connect.CodeInvalidArgument, "%v", err)
	}
	switch {
	case name.Bytes == 0:
		return refuse("malformed", errors.New("nothing is no report"))
	case name.Bytes > most:
		return refuse("oversized", fmt.Errorf("%d bytes: want at most %d", name.Bytes, most))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.by[seat]
	if a == nil || !a.Is(name) { // a device sends one thing at a time
		if a != nil {
			u.held -= a.Next()
			delete(u.by, seat)
		}
		if a, err = wire.Assemble(name, most); err != nil {
			return refuse("malformed", err)
		}
		if offset > 0 { // what was here is gone: from the start
			return nil, 0, nil
		}
	}
	for other, b := range u.by { // whose pieces are forgotten is asked for them again
		if u.held+uint64(len(data)) <= heldMost || uint64(len(data)) == name.Bytes {
			break
		}
		if other != seat {
			u.held -= b.Next()
			delete(u.by, other)
		}
	}
	before := a.Next()
	if err := a.Add(offset, data); err != nil {
		return refuse("malformed", err)
	}
	if !a.Done() {
		u.by[seat] = a
		u.held += a.Next() - before
		return nil, a.Next(), nil
	}
	u.held -= before
	delete(u.by, seat)
	if whole, err = a.Bytes(); err != nil {
		return refuse("bad_digest", err)
	}
	return whole, 0, nil
}

// clear forgets what was half sent for a round that is over.
func (u *uploads) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.by)
	u.held = 0
}
