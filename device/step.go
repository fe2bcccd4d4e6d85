package device

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// StepResult describes what one Step did.
type StepResult struct {
	// Action is waited, paused, stayed away, declined, trained, evaluated or counted items.
	Action       string        `json:"action"`
	Reason       string        `json:"reason,omitempty"`      // why the device did nothing
	Coordinator  string        `json:"coordinator,omitempty"` // state of the coordinator, such as paused or disk-full
	Finished     bool          `json:"finished,omitempty"`    // all rounds of the run are done
	State        string        `json:"state,omitempty"`       // of the report: counted, closed, or empty if not known yet
	Round        uint32        `json:"round,omitempty"`       // from 0
	ModelVersion uint64        `json:"model"`                 // version that the device has
	Samples      int           `json:"samples,omitempty"`
	Bytes        int           `json:"bytes,omitempty"` // size of the report, or of all messages of a masked attempt
	After        time.Duration `json:"after_ns"`        // when to step again
}

// Waits of a device that has nothing to do.
const (
	idleWait = time.Minute
	maxWait  = 24 * time.Hour // the coordinator asks for minutes to hours when it is idle
)

// Step checks in once and performs the task that the coordinator assigns, if any. After an error
// the next Step continues where this one stopped.
func (d *Device) Step(ctx context.Context) (StepResult, error) {
	if err := d.refresh(); err != nil {
		return StepResult{After: idleWait}, err
	}
	out, err := d.stepIfAllowed(ctx)
	if d.record != nil {
		if m, bad := d.manifest(); bad == nil {
			out.ModelVersion = m.Version
		}
	}
	switch {
	case hasCode(err, rpc.Revoked):
		err = &removedError{ErrRevoked, err}
	case hasCode(err, rpc.Excluded):
		err = &removedError{ErrExcluded, err}
		out.After = time.Hour // an operator may readmit it
	}
	return out, err
}

// stepIfAllowed steps unless the owner has paused the device or it is not eligible.
func (d *Device) stepIfAllowed(ctx context.Context) (StepResult, error) {
	if d.record.Paused {
		return StepResult{Action: "paused", Reason: "paused by its owner", After: idleWait}, nil
	}
	if d.opt.Eligible != nil {
		if ok, reason := d.opt.Eligible(); !ok {
			return StepResult{Action: "stayed away", Reason: reason, After: idleWait}, nil
		}
	}
	return d.checkIn(ctx)
}

// checkIn connects, asks the coordinator for a task, downloads a newer model, and performs the task.
func (d *Device) checkIn(ctx context.Context) (StepResult, error) {
	d.greeted = false
	if err := d.connect(ctx); err != nil {
		return StepResult{After: idleWait}, err
	}
	d.resolvePending(ctx)
	if d.record == nil {
		return StepResult{After: time.Second}, errors.New("cannot save the state of the device")
	}
	resp, err := d.askForTask(ctx)
	if err != nil {
		return StepResult{After: time.Second}, err
	}
	if resp.Manifest != nil {
		err = d.adopt(ctx, resp.Manifest)
	} else {
		err = d.restoreModel(ctx)
	}
	if err != nil {
		return StepResult{After: time.Second}, err
	}
	if err := d.checkUserFeatures(); err != nil {
		return StepResult{After: idleWait}, err
	}
	if t := resp.GetTask(); t != nil {
		return d.perform(ctx, t)
	}
	w := resp.GetWait()
	if err := wire.CheckWait(w); err != nil {
		return StepResult{After: idleWait}, err
	}
	after := min(max(time.Duration(w.GetAfterMs())*time.Millisecond, 10*time.Millisecond), maxWait)
	if err := d.noteCoordinator(w.GetState()); err != nil {
		return StepResult{After: after}, err
	}
	return StepResult{
		Action: "waited", Reason: w.GetReason(), Coordinator: w.GetState(), Finished: w.GetFinished(), After: after,
	}, nil
}

// askForTask checks in, and again with a proof if the coordinator asks for it. A coordinator that does not know
// the device was restored from a backup that is older than the enrolment: the device enrols again.
func (d *Device) askForTask(ctx context.Context) (*pb.CheckInResponse, error) {
	resp, err := d.conn.CheckIn(ctx, d.checkInRequest())
	if hasCode(err, rpc.UnknownKey) {
		if err := d.enrol(ctx); err != nil {
			return nil, fmt.Errorf("the coordinator no longer knows this device, which keeps its history: %w", err)
		}
		resp, err = d.conn.CheckIn(ctx, d.checkInRequest())
	}
	if err == nil && resp.ShowHeld {
		req := d.checkInRequest()
		req.Held = d.held()
		resp, err = d.conn.CheckIn(ctx, req)
	}
	return resp, err
}

// held is the signed manifest of the device's model, if it has one. A coordinator that was restored from a backup,
// or runs on a copy of its folder, learns from it that it lacks releases.
func (d *Device) held() *pb.SignedManifest {
	if len(d.record.Manifest) == 0 {
		return nil
	}
	return &pb.SignedManifest{Body: d.record.Manifest, Signature: d.record.Signature}
}

// noteCoordinator saves the state of the coordinator for its owner if it has changed.
func (d *Device) noteCoordinator(state string) error {
	if d.record.CoordinatorState == state {
		return nil
	}
	return d.update(func(r *record) error {
		r.CoordinatorState = state
		return nil
	})
}

// checkInRequest names the model that the device has, its privacy ledger, and the last counted report.
func (d *Device) checkInRequest() *pb.CheckInRequest {
	req := &pb.CheckInRequest{Software: d.opt.Software}
	if m, err := d.manifest(); err == nil {
		req.ModelVersion, req.LedgerLines, req.LedgerHead = m.Version, m.LedgerLines, m.LedgerHead
	}
	if s := d.record.Train; s != nil && s.State == counted {
		req.LastReport = &pb.LastReport{Run: s.Run, Round: s.Round, Digest: s.Digest}
		if s.Masked { // a hash of the unmasked update would let the coordinator test guesses
			req.LastReport.Digest = make([]byte, wire.HashBytes)
		}
	}
	return req
}

// resolvePending asks for the state of reports that a crash or a lost connection left pending. It
// ignores errors: the check-in that follows fails too, or settles the report.
func (d *Device) resolvePending(ctx context.Context) {
	for _, k := range kinds {
		s := *d.record.report(k)
		switch {
		case s == nil || s.State != pending:
		case !s.Masked && k == pb.Kind_TRAIN:
			_ = d.send(ctx, k)
		case s.Revealed:
			_ = d.resolveMasked(ctx, k)
		}
		if d.record == nil {
			return
		}
	}
}

// perform sends the report of a task. It computes one unless the device has one for that round.
func (d *Device) perform(ctx context.Context, t *pb.Task) (StepResult, error) {
	if err := wire.CheckTask(t); err != nil {
		return StepResult{After: idleWait}, err
	}
	out := StepResult{Action: actionOf[t.Kind], Round: t.Round, After: 10 * time.Millisecond}
	if err := d.checkTask(t); err != nil {
		return d.decline(ctx, t, err)
	}
	if s := *d.record.report(t.Kind); !s.answers(t) {
		if s.precludes(t, d.rollbacks()) {
			return out, fmt.Errorf("the coordinator asks for round %d with model version %d, but the device has "+
				"reported in round %d with version %d: a device reports once per round", t.Round+1, t.ModelVersion,
				s.Round+1, s.ModelVersion)
		}
		busy, err := d.compute(t, &out)
		if err != nil {
			return d.decline(ctx, t, err)
		}
		out.After = max(out.After, time.Duration(float64(busy)*(1/d.opt.Duty-1)))
	}
	return d.report(ctx, t, out)
}

// checkTask returns an error if the device must not answer a task: it belongs to another run than the
// newest model, the device has answered it in a way that forbids another attempt, or it is weaker than the
// privacy guarantee.
func (d *Device) checkTask(t *pb.Task) error {
	m, err := d.manifest()
	if err != nil {
		return err
	}
	if string(t.Run) != string(m.Run) {
		return fmt.Errorf("%w: it belongs to run %.4x, but the newest model to run %.4x", errDeclined, t.Run, m.Run)
	}
	if err := (*d.record.report(t.Kind)).permits(t); err != nil {
		return err
	}
	w := d.opt.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.vet(m, d.stored)
	if err != nil {
		return err
	}
	return v.checkGuarantee(t)
}

// decline is the result of a task that the device does not answer. Weaker tasks are in its log. The device
// tells the coordinator, which then does not wait for it, and comes again when the coordinator says, or
// when the round is over.
func (d *Device) decline(ctx context.Context, t *pb.Task, err error) (StepResult, error) {
	if !errors.Is(err, errDeclined) {
		return StepResult{Action: actionOf[t.Kind], Round: t.Round, After: idleWait}, err
	}
	if errors.Is(err, errWeaker) {
		d.logDeclined(kindName(t.Kind), t.Run, t.Round, err)
	}
	after := min(max(time.Duration(t.RemainingMs)*time.Millisecond, idleWait), maxWait)
	out := StepResult{Action: "declined", Reason: err.Error(), Round: t.Round, After: after}
	if d.record == nil || d.conn == nil {
		return out, nil
	}
	req := d.checkInRequest()
	req.Declined = &pb.Declined{Kind: t.Kind, Run: t.Run, Round: t.Round}
	resp, failed := d.conn.CheckIn(ctx, req)
	if w := resp.GetWait(); failed == nil && w != nil && wire.CheckWait(w) == nil {
		out.After = min(max(time.Duration(w.AfterMs)*time.Millisecond, time.Second), maxWait)
	}
	return out, nil
}

// logDeclined saves the reason for which the device declined something. A device that cannot save it
// declines all the same.
func (d *Device) logDeclined(kind string, run []byte, round uint32, reason error) {
	_ = d.update(func(r *record) error {
		if !r.noteDeclined(kind, hex.EncodeToString(run), round, reason.Error(), d.opt.Now()) {
			return errUnchanged
		}
		return nil
	})
}

// actionOf is the StepResult.Action of a task.
var actionOf = map[pb.Kind]string{
	pb.Kind_TRAIN:    "trained",
	pb.Kind_EVALUATE: "evaluated",
	pb.Kind_COUNT:    "counted items",
}

// report sends the saved report of a task, masked if the task says so.
func (d *Device) report(ctx context.Context, t *pb.Task, out StepResult) (StepResult, error) {
	var err error
	d.restAfter = 0
	switch s := *d.record.report(t.Kind); {
	case t.Masking != nil:
		out.Bytes, err = d.sendMasked(ctx, t)
	case s.Masked:
		err = errors.New("the coordinator asks for an unmasked copy of a masked report")
	default:
		err = d.send(ctx, t.Kind)
	}
	out.After = max(out.After, d.restAfter)
	if errors.Is(err, errRestarted) {
		after := min(time.Duration(t.RemainingMs)*time.Millisecond/16, maxWait)
		return StepResult{Action: "waited", Reason: err.Error(), Round: t.Round, After: max(after, time.Second)}, nil
	}
	if d.record == nil {
		return out, err
	}
	s := *d.record.report(t.Kind)
	if s == nil {
		return out, err
	}
	out.State = s.State
	if !s.Masked {
		out.Bytes = len(s.data)
	} else if s.State == pending {
		out.After = max(out.After, time.Second) // the next attempt does not start at once
	}
	return out, err
}

// compute makes the report of a task and saves it together with the private state after it. Nothing
// leaves the device before that.
func (d *Device) compute(t *pb.Task, out *StepResult) (busy time.Duration, err error) {
	m, err := d.manifest()
	if err != nil {
		return 0, err
	}
	if t.ModelVersion != m.Version {
		return 0, fmt.Errorf("the task requires model version %d, but the device has version %d", t.ModelVersion,
			m.Version)
	}
	w := d.opt.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	start := d.opt.Now()
	if err := w.load(m, d.stored); err != nil {
		return 0, err
	}
	if err := d.record.mayReport(t, w.vetted); err != nil {
		return 0, err
	}
	update, state, err := d.answer(t, out)
	if err != nil {
		return 0, err
	}
	if err := d.addNoise(t, w.spec.Seed, update); err != nil {
		return 0, err
	}
	data := wire.AppendUpdate(nil, update)
	err = d.update(func(r *record) error {
		if old := *r.report(t.Kind); old.answers(t) || old.precludes(t, m.Rollbacks) {
			return errors.New("another process has reported in this round with the same state file")
		}
		if err := r.noteReport(t, w.vetted); err != nil {
			return err
		}
		if t.Kind == pb.Kind_TRAIN {
			r.state, r.Run, r.Shape = state, t.Run, w.stateShape()
		}
		d.saveReport(r, t, data, len(update), m.Rollbacks)
		return nil
	})
	return d.opt.Now().Sub(start), err
}

// answer computes the update of a task and the private state after it.
func (d *Device) answer(t *pb.Task, out *StepResult) (update []int64, state []byte, err error) {
	state = d.record.state
	switch t.Kind {
	case pb.Kind_TRAIN:
		return d.train(t, out)
	case pb.Kind_EVALUATE:
		update, err = d.evaluate(t)
	default:
		update, err = d.count(t)
	}
	return update, state, err
}

// saveReport puts a report into the record and the log.
func (d *Device) saveReport(r *record, t *pb.Task, data []byte, length int, rollbacks uint32) {
	now := d.opt.Now()
	digest := wire.HashBlob(data).Hash
	place := r.report(t.Kind)
	if old := *place; old != nil && old.State == pending {
		r.setState(t.Kind, old.Digest, closed, "the round ended without it", now)
	}
	w := d.opt.Workspace
	*place = &savedReport{
		Run: t.Run, Round: t.Round, Attempt: t.Attempt, ModelVersion: t.ModelVersion, Rollbacks: rollbacks,
		Digest: digest, Masked: t.Masking != nil, data: data,
	}
	entry := LogEntry{
		CreatedAt: now, Kind: kindName(t.Kind), Run: hex.EncodeToString(t.Run), Round: t.Round,
		ModelVersion: t.ModelVersion, Length: length, Masked: t.Masking != nil, Noise: t.Bound.GetNoise(),
		Policy: w.spec.Policy, Guarantee: r.Guarantee.String(),
	}
	if t.Masking == nil {
		entry.Bytes, entry.Digest = len(data), hex.EncodeToString(digest)
	}
	r.log(entry)
}
