package coordinator

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// deviceAPI answers devices.
type deviceAPI struct{ *Coordinator }

var _ pbconnect.FederationHandler = deviceAPI{}

// Limits of one call.
const (
	bodyBytes  = 2 << 20
	pieceBytes = 1 << 20
)

// Hello tells a device which federation this is.
func (d deviceAPI) Hello(_ context.Context, r *pb.HelloRequest) (*pb.HelloResponse, error) {
	v := min(r.Newest, wire.NewestVersion)
	if v < max(r.Oldest, wire.OldestVersion) {
		return nil, rpc.Refuse(rpc.WrongVersion, connect.CodeFailedPrecondition,
			"this coordinator speaks protocol versions %d to %d, the device %d to %d: update the older one",
			wire.OldestVersion, wire.NewestVersion, r.Oldest, r.Newest)
	}
	name, deterministic := "a federation", false
	if d.begun() {
		name, deterministic = d.settings().Name, d.settings().Deterministic
	}
	return &pb.HelloResponse{
		Version: v, Federation: d.identity.id[:], Name: name, Key: d.identity.key.Public().(ed25519.PublicKey),
		NowMs:  d.now().UnixMilli(),
		Limits: &pb.Limits{BodyBytes: bodyBytes, PieceBytes: pieceBytes}, Deterministic: deterministic,
	}, nil
}

// Enrol gives a key its device ID, and answers when that is on disk.
func (d deviceAPI) Enrol(ctx context.Context, r *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	if err := d.refuseWrites(); err != nil {
		return nil, err
	}
	caller, _ := rpc.CallerFrom(ctx)
	key := ed25519.PublicKey(caller.Key[:])
	if string(key) != string(r.Key) {
		return nil, rpc.Refuse(rpc.BadSignature, connect.CodeUnauthenticated,
			"the request is signed with another key than the one that it enrols")
	}
	if r.Held != nil && d.begun() { // its signature is the proof, whoever shows it
		d.checkProof(r.Held)
	}
	if _, _, barred := d.devices.Lookup(key); barred != "" && barred != enrolment.Left {
		return nil, refuseBarred(barred)
	}
	var wanted *uint32
	if r.WantsDeviceId {
		wanted = &r.DeviceId
	}
	id, again, err := d.devices.Enrol(enrolment.Request{
		Key: key, Token: r.Token, Wanted: wanted, Limit: wire.MaxDevices, Address: caller.Address, Now: d.now(),
	})
	if err != nil {
		return nil, refuseEnrolment(err)
	}
	if !again {
		d.progress.count("enrolled", 1)
	}
	return &pb.EnrolResponse{DeviceId: id, AlreadyEnrolled: again}, nil
}

// refuseEnrolment gives the reason why a key cannot enrol its code.
func refuseEnrolment(err error) error {
	is := func(reasons ...error) bool {
		return slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(err, r) })
	}
	switch {
	case is(enrolment.ErrToken, enrolment.ErrTokenRevoked, enrolment.ErrNoToken, enrolment.ErrAppToken):
		return rpc.Refuse(rpc.BadToken, connect.CodePermissionDenied, "%v", err)
	case is(enrolment.ErrQuota, enrolment.ErrFull, enrolment.ErrAppUsed):
		return rpc.Refuse(rpc.Quota, connect.CodeResourceExhausted, "%v", err)
	case is(enrolment.ErrBusy, enrolment.ErrRate):
		return rpc.Refuse(rpc.SlowDown, connect.CodeUnavailable, "%v", err)
	}
	return connect.NewError(connect.CodeUnavailable, err)
}

// Leave ends a device's enrolment at its own request.
func (d deviceAPI) Leave(ctx context.Context, _ *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	if err := d.refuseWrites(); err != nil {
		return nil, err
	}
	if err := d.devices.Leave(callerID(ctx)); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	d.progress.count("left", 1)
	return &pb.LeaveResponse{}, nil
}

func callerID(ctx context.Context) uint32 {
	caller, _ := rpc.CallerFrom(ctx)
	return caller.DeviceID
}

// lookup finds the device ID of a key, for the server.
func (c *Coordinator) lookup(key [32]byte) (uint32, error) {
	id, known, barred := c.devices.Lookup(key[:])
	if !known {
		return 0, rpc.Refuse(rpc.UnknownKey, connect.CodeUnauthenticated, "this device is not enrolled")
	}
	return id, refuseBarred(barred)
}

// refuseBarred refuses a device that may not take part; nil if it may. The reason of an exclusion is for
// the operator: it would tell a liar what was noticed.
func refuseBarred(s enrolment.State) error {
	switch s {
	case enrolment.Revoked:
		return rpc.Refuse(rpc.Revoked, connect.CodePermissionDenied, "this device was revoked")
	case enrolment.Excluded:
		return rpc.Refuse(rpc.Excluded, connect.CodePermissionDenied,
			"this device was excluded because its messages were invalid; ask the operator to readmit it")
	case enrolment.Left:
		return rpc.Refuse(rpc.UnknownKey, connect.CodeUnauthenticated,
			"this device has left the federation; enrol again with a new token")
	}
	return nil
}

// Config is what a server of the federation needs. The caller adds limits.
func (c *Coordinator) Config() rpc.Config {
	return rpc.Config{
		Federation: deviceAPI{c}, ID: c.identity.id[:], Lookup: c.lookup, Now: c.opt.Now,
		Observe: c.ObserveCall, Authorize: c.authorize,
		Mounts:    []rpc.Mount{{Prefix: rpc.AdminPrefix, Handler: c.serveAdmin}, c.mountedDashboard()},
		ClockFile: filepath.Join(c.opt.Dir, "clock"),
	}
}

// CheckIn tells a device what to do, or when to check in again.
func (d deviceAPI) CheckIn(ctx context.Context, r *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	id := callerID(ctx)
	now := d.now()
	if !d.begun() {
		after := d.after(now)
		d.devices.Seen(id, now, after)
		return waitResponse(&pb.Wait{AfterMs: uint32(after.Milliseconds()), Reason: "no run has begun"}), nil
	}
	d.progress.count(checkInCounter, 1)
	if w := d.troubleWait(); w != nil {
		d.devices.Seen(id, now, time.Duration(w.AfterMs)*time.Millisecond)
		return waitResponse(w), nil
	}
	d.noteLastReport(id, r.LastReport)
	d.noteDeclined(id, r.Declined)
	d.devices.NoteSoftware(id, r.Software)
	if news, show := d.checkHeld(r); news { // no manifest: the device keeps its proof until it is on disk
		out := waitResponse(d.waitForProof(id, now))
		out.ShowHeld = show
		return out, nil
	}
	var out *pb.CheckInResponse
	if t := d.taskOf(id); t != nil {
		d.devices.Seen(id, now, time.Duration(t.RemainingMs)*time.Millisecond)
		out = &pb.CheckInResponse{Action: &pb.CheckInResponse_Task{Task: t}}
	} else {
		after := d.after(now)
		d.devices.Seen(id, now, after)
		state, _ := d.progress.get()
		out = waitResponse(&pb.Wait{
			AfterMs: uint32(after.Milliseconds()), Reason: d.reason(id), Finished: state == Finished,
			State: string(state),
		})
	}
	// The manifest is read last: a task or the end of a run follows the model that belongs to it.
	if r.ModelVersion < d.models.Last() {
		out.Manifest = d.models.Signed()
	}
	return out, nil
}

// waitForProof lets a device wait until the coordinator has acted on what the device can prove.
func (d deviceAPI) waitForProof(id uint32, now time.Time) *pb.Wait {
	after := time.Second
	state, _ := d.progress.get()
	if state == Outdated { // until an operator acts
		after = d.after(now)
	}
	d.devices.Seen(id, now, after)
	return &pb.Wait{
		AfterMs: uint32(after.Milliseconds()), State: string(state),
		Reason: cmp.Or(deviceMessages[state], "the device has a model that the coordinator does not know"),
	}
}

// taskOf is what a device is to do now; nil if it has nothing to do.
func (d deviceAPI) taskOf(id uint32) *pb.Task {
	if d.requests.paused() {
		return nil
	}
	return d.collection.Offer(id, d.now())
}

func waitResponse(w *pb.Wait) *pb.CheckInResponse {
	return &pb.CheckInResponse{Action: &pb.CheckInResponse_Wait{Wait: w}}
}

// Fetch reads a piece of a blob that a recent manifest names.
func (d deviceAPI) Fetch(_ context.Context, r *pb.FetchRequest) (*pb.FetchResponse, error) {
	if err := d.refuseReads(); err != nil {
		return nil, err
	}
	if len(r.Hash) != wire.HashBytes {
		return nil, rpc.Refuse(rpc.Malformed, connect.CodeInvalidArgument, "a hash of %d bytes: must be %d",
			len(r.Hash),
			wire.HashBytes)
	}
	b := d.models.Blob(store.Hash(r.Hash))
	if b == nil {
		return nil, rpc.Refuse(rpc.NoSuchBlob, connect.CodeNotFound, "no recent model has this blob: check in again")
	}
	if r.Offset >= uint64(len(b)) {
		return nil, rpc.Refuse(rpc.Malformed, connect.CodeOutOfRange, "offset %d: the blob has %d bytes", r.Offset,
			len(b))
	}
	piece := b[r.Offset:min(r.Offset+pieceBytes, uint64(len(b)))]
	d.admin.traffic.sent.Add(int64(len(piece)))
	return &pb.FetchResponse{Data: piece}, nil
}

func reported(s pb.ReportState) *pb.ReportResponse { return &pb.ReportResponse{State: s} }

// Report accepts a piece of a report, and counts the report when it is complete.
func (d deviceAPI) Report(ctx context.Context, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	if err := d.refuseWrites(); err != nil {
		return nil, err
	}
	id := callerID(ctx)
	d.admin.traffic.received.Add(int64(len(r.Data)))
	open, err := d.roundOf(id, r)
	if err != nil {
		return nil, err
	}
	digest := collection.Digest(r.Digest)
	if open == nil {
		return d.reportClosed(id, r, digest), nil
	}
	if open.Has(id) { // another report than the one in the sum is in no sum
		if open.HasReport(id, digest) {
			return reported(pb.ReportState_COUNTED), nil
		}
		return reported(pb.ReportState_CLOSED), nil
	}
	blob := &pb.Blob{Hash: r.Digest, Bytes: r.Bytes}
	update, next, err := d.collection.Uploads.Add(id, blob, r.Offset, r.Data, open.MaxBytes())
	if err != nil {
		return nil, uploadRefused(err)
	}
	if update == nil {
		return &pb.ReportResponse{State: pb.ReportState_MORE, Next: next}, nil
	}
	if malformed, err := open.Check(update, d.settings().DP.On()); err != nil {
		code := rpc.OverBound
		if malformed {
			code = rpc.Malformed
		} else if err := d.excludeLiars(r.Round, map[uint32]string{id: "sent " + err.Error()}); err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		return nil, rpc.Refuse(code, connect.CodeInvalidArgument, "%v", err)
	}
	err = open.Add(id, digest, update)
	switch {
	case errors.Is(err, collection.ErrClosed) || errors.Is(err, collection.ErrFull):
		d.progress.count("late", 1)
		d.noteLate(id, r)
		return reported(pb.ReportState_CLOSED), nil
	case errors.Is(err, collection.ErrOtherReport):
		return reported(pb.ReportState_CLOSED), nil
	case err != nil:
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	after := d.after(d.now())
	if state, _ := d.progress.get(); state.Over() { // the report was the last one, and its answer has no model
		after = min(after, d.soon())
	}
	d.devices.Seen(id, d.now(), after)
	return &pb.ReportResponse{State: pb.ReportState_COUNTED, AfterMs: uint32(after.Milliseconds())}, nil
}

// reportClosed answers a report for a closed round.
func (d deviceAPI) reportClosed(id uint32, r *pb.ReportRequest, digest uint64) *pb.ReportResponse {
	if d.collection.History.Contains(id, r.Round, d.rollbackCount(), digest) {
		return reported(pb.ReportState_COUNTED)
	}
	d.noteLate(id, r)
	return reported(pb.ReportState_CLOSED)
}

func (c *Coordinator) rollbackCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rollbacks.count
}

func uploadRefused(err error) error {
	var refused *collection.UploadError
	if errors.As(err, &refused) {
		code := rpc.Malformed
		switch refused.Reason {
		case collection.Oversized:
			code = rpc.Oversized
		case collection.BadDigest:
			code = rpc.BadDigest
		}
		return rpc.Refuse(code, connect.CodeInvalidArgument, "%v", err)
	}
	return err
}

// roundOf finds the open round that a report is for; nil without an error if that round is closed.
func (d deviceAPI) roundOf(id uint32, r *pb.ReportRequest) (*collection.Round, error) {
	refuse := func(code, format string, args ...any) error {
		return rpc.Refuse(code, connect.CodeFailedPrecondition, format, args...)
	}
	switch {
	case !d.begun():
		return nil, refuse(rpc.WrongRun, "no run has begun")
	case len(r.Digest) != wire.HashBytes:
		return nil, rpc.Refuse(rpc.Malformed, connect.CodeInvalidArgument, "a digest of %d bytes: must be %d",
			len(r.Digest), wire.HashBytes)
	case string(r.Run) != string(d.runID()):
		return nil, refuse(rpc.WrongRun, "the coordinator has another run")
	case r.Kind != pb.Kind_TRAIN || d.settings().Masked:
		return nil, refuse(rpc.NotMasked, "a report of this kind must be masked")
	}
	next := uint32(d.models.Round())
	open := d.collection.OpenRound()
	if open != nil && open.Number() != r.Round {
		open = nil
	}
	switch {
	case open != nil && !open.Contains(id):
		return nil, rpc.Refuse(rpc.NotInCohort, connect.CodePermissionDenied, "%v", collection.ErrNotInCohort)
	case open != nil:
		return open, nil
	case r.Round > next:
		return nil, refuse(rpc.WrongRound, "round %d has not begun", r.Round+1)
	case r.Round == next && int(next) < d.settings().Rounds: // its outcome is being written, or it is not open yet
		return nil, refuse(rpc.NotNow, "the outcome of round %d is not known yet; ask again", r.Round+1)
	}
	return nil, nil
}

// Mask is a step of a masked round.
func (d deviceAPI) Mask(ctx context.Context, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	if err := d.refuseReads(); err != nil {
		return nil, err
	}
	id := callerID(ctx)
	if !d.begun() {
		return nil, rpc.Refuse(rpc.WrongRun, connect.CodeFailedPrecondition, "no run has begun")
	}
	d.admin.traffic.received.Add(int64(len(r.Message)))
	d.devices.Seen(id, d.now(), d.settings().Deadline) // a device does not check in during a masked round
	a := d.collection.LastAttempt()
	if a == nil || !a.Matches(r) {
		return d.maskClosed(a, id, r), nil
	}
	if !a.Contains(id) {
		return nil, rpc.Refuse(rpc.NotInCohort, connect.CodePermissionDenied, "%v", collection.ErrNotInCohort)
	}
	message := r.Message
	if r.Bytes > uint64(len(message)) {
		blob := &pb.Blob{Hash: r.Digest, Bytes: r.Bytes}
		whole, next, err := d.collection.Uploads.Add(id, blob, r.Offset, message, a.MaxBytes())
		if err != nil {
			return nil, uploadRefused(err)
		}
		if whole == nil {
			return &pb.MaskResponse{State: pb.MaskResponse_PART, Next: next}, nil
		}
		message = whole
	}
	out, err := a.Mask(ctx, id, int(r.Step), message)
	if err != nil {
		return nil, rpc.Refuse(rpc.Malformed, connect.CodeInvalidArgument, "%v", err)
	}
	if a.IsLate(id, r, out.State) {
		d.collection.StepTime.NoteLate()
	}
	if out.State == pb.MaskResponse_SUMMED { // the next round begins soon, or the run has ended
		out.AfterMs = uint32(min(d.after(d.now()), d.soon()).Milliseconds())
	}
	return out, nil
}

// maskClosed answers a device whose attempt is over; a is the last one, or nil.
func (d deviceAPI) maskClosed(a *masked.Attempt, id uint32, r *pb.MaskRequest) *pb.MaskResponse {
	if d.collection.History.ContainsMasked(id, r.Round, r.Attempt, d.rollbackCount()) {
		return &pb.MaskResponse{State: pb.MaskResponse_SUMMED}
	}
	if a != nil && a.IsLate(id, r, pb.MaskResponse_ENDED) {
		d.collection.StepTime.NoteLate()
	}
	return &pb.MaskResponse{State: pb.MaskResponse_ENDED}
}
