package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// StepResult is what one step came to.
type StepResult struct {
	Action       string        `json:"did"`             // waited, paused, stayed away, trained or evaluated
	Reason       string        `json:"why,omitempty"`   // of one that did nothing
	State        string        `json:"fate,omitempty"`  // of the report: counted, closed, or empty when it is not known yet
	Round        uint32        `json:"round,omitempty"` // from 0
	ModelVersion uint64        `json:"model"`           // version that the device has
	Samples      int           `json:"samples,omitempty"`
	Bytes        int           `json:"bytes,omitempty"` // of the report, or of the messages of a masked attempt
	After        time.Duration `json:"after_ns"`        // when to step again
}

// How long a device that has nothing to do stays away.
const (
	idleWait = time.Minute
	maxWait  = time.Hour
)

// Step is one check-in, and what follows of it. An error leaves the device as a crash
// would: the next Step goes on.
func (d *Device) Step(ctx context.Context) (StepResult, error) {
	if err := d.refresh(); err != nil {
		return StepResult{After: idleWait}, err
	}
	out, err := d.stepIfAllowed(ctx)
	if m, bad := d.modelVersion(); !bad {
		out.ModelVersion = m.Version
	}
	if hasCode(err, rpc.Revoked) {
		err = fmt.Errorf("%w: %w", ErrRevoked, err)
	}
	return out, err
}

// stepIfAllowed asks the owner and the device before anybody else.
func (d *Device) stepIfAllowed(ctx context.Context) (StepResult, error) {
	if d.record.Paused {
		return StepResult{Action: "paused", Reason: "its owner has paused it", After: idleWait}, nil
	}
	if d.opt.Eligible != nil {
		if ok, why := d.opt.Eligible(); !ok {
			return StepResult{Action: "stayed away", Reason: why, After: idleWait}, nil
		}
	}
	return d.checkIn(ctx)
}

func (d *Device) modelVersion() (*pb.Manifest, bool) {
	if d.record == nil {
		return nil, true
	}
	m, err := d.manifest()
	return m, err != nil
}

func (d *Device) checkIn(ctx context.Context) (StepResult, error) {
	d.greeted = false
	if err := d.connect(ctx); err != nil {
		return StepResult{After: idleWait}, err
	}
	d.resolvePending(ctx)
	req := &pb.CheckInRequest{}
	if d.record == nil {
		return StepResult{After: time.Second}, errors.New("agent: the record could not be saved")
	}
	if m, err := d.manifest(); err == nil && d.complete(m) {
		req.ModelVersion = m.Version
	}
	if s := d.record.Train; s != nil && s.State == counted {
		req.LastReport = &pb.LastReport{Run: s.Run, Round: s.Round, Digest: s.Digest}
		if s.Masked { // a hash of what is under the masks would let its reader try what it may be
			req.LastReport.Digest = make([]byte, wire.HashBytes)
		}
	}
	resp, err := d.conn.CheckIn(ctx, req)
	if err != nil {
		return StepResult{After: time.Second}, err
	}
	if resp.Manifest != nil {
		if err := d.adopt(ctx, resp.Manifest); err != nil {
			return StepResult{After: time.Second}, err
		}
	}
	if err := d.checkUserFeatures(); err != nil {
		return StepResult{After: idleWait}, err
	}
	if t := resp.GetTask(); t != nil {
		return d.perform(ctx, t)
	}
	w := resp.GetWait()
	if err := wire.CheckWait(w); err != nil { // its text is shown to people
		return StepResult{After: idleWait}, err
	}
	after := min(max(time.Duration(w.GetAfterMs())*time.Millisecond, 10*time.Millisecond), maxWait)
	return StepResult{Action: "waited", Reason: w.GetReason(), After: after}, nil
}

// resolvePending learns what became of reports that a crash, or a broken connection, has left.
// Where it cannot, the check-in that follows says what to do about them, or fails too.
func (d *Device) resolvePending(ctx context.Context) {
	for _, k := range kinds {
		if s := *d.record.report(k); s != nil && s.State == pending {
			if !s.Masked && k == pb.Kind_TRAIN {
				_ = d.send(ctx, k)
			} else if s.Revealed {
				_ = d.resolveMasked(ctx, k)
			}
		}
		if d.record == nil {
			return
		}
	}
}

// rollbacks counts the times that the coordinator has gone back to an older model, as far as
// the device knows.
func (d *Device) rollbacks() uint32 {
	m, err := d.manifest()
	if err != nil {
		return 0
	}
	return m.Rollbacks
}

// perform answers a task: with the report that the device has for that round, or else with
// a new one.
func (d *Device) perform(ctx context.Context, t *pb.Task) (StepResult, error) {
	if err := wire.CheckTask(t); err != nil {
		return StepResult{After: idleWait}, err
	}
	out := StepResult{Action: map[pb.Kind]string{
		pb.Kind_TRAIN: "trained", pb.Kind_EVALUATE: "evaluated",
		pb.Kind_COUNT: "counted items",
	}[t.Kind], Round: t.Round, After: 10 * time.Millisecond}
	s := *d.record.report(t.Kind)
	if err := s.permits(t); err != nil {
		return StepResult{Action: "declined", Reason: err.Error(), Round: t.Round, After: time.Second}, nil
	}
	if !s.answers(t) && s.precludes(t, d.rollbacks()) {
		return out, fmt.Errorf("agent: the coordinator asks for round %d on version %d of the model, and the device "+
			"has answered round %d on version %d: a round is answered once", t.Round+1, t.ModelVersion, s.Round+1,
			s.ModelVersion)
	}
	if !s.answers(t) {
		busy, err := d.compute(t, &out)
		if errors.Is(err, errDeclined) { // it is not the device's fault: it waits for another task
			return StepResult{Action: "declined", Reason: err.Error(), Round: t.Round, After: time.Second}, nil
		}
		if err != nil {
			out.After = idleWait
			return out, err
		}
		out.After = max(out.After, time.Duration(float64(busy)*(1/d.opt.Duty-1)))
	}
	var err error
	d.restAfter = 0
	if t.Masking != nil {
		out.Bytes, err = d.mask(ctx, t)
	} else if s := *d.record.report(t.Kind); s.Masked {
		err = errors.New("agent: the coordinator asks for a report without masks that was made to be masked")
	} else {
		err = d.send(ctx, t.Kind)
	}
	out.After = max(out.After, d.restAfter)
	if errors.Is(err, errRestarted) {
		return StepResult{Action: "waited", Reason: err.Error(), Round: t.Round, After: time.Second}, nil
	}
	if d.record != nil && *d.record.report(t.Kind) != nil {
		s = *d.record.report(t.Kind)
		if !s.Masked {
			out.Bytes = len(s.data)
		}
		if out.State = s.State; s.Masked && s.State == pending {
			out.After = max(out.After, time.Second) // the next attempt is not there at once
		}
	}
	return out, err
}

// compute makes the report of a round, and saves it with the private slots that it
// leaves: both or none. Nothing has left the device before.
func (d *Device) compute(t *pb.Task, out *StepResult) (busy time.Duration, err error) {
	m, err := d.manifest()
	if err != nil {
		return 0, err
	}
	if t.ModelVersion != m.Version || string(t.Run) != string(m.Run) {
		return 0, fmt.Errorf("agent: the task is on version %d of the model, and the device has version %d",
			t.ModelVersion,
			m.Version)
	}
	h := d.opt.Workspace
	h.mu.Lock()
	defer h.mu.Unlock()
	start := d.opt.Now()
	if err := h.load(m, d.stored); err != nil {
		return 0, err
	}
	if err := h.checkTask(t, d.record); err != nil {
		return 0, err
	}
	var vector []int64
	state := d.record.state
	switch t.Kind {
	case pb.Kind_TRAIN:
		vector, state, err = d.train(t, out)
	case pb.Kind_EVALUATE:
		vector, err = d.evaluate(t)
	default:
		vector, err = d.count(t)
	}
	if err != nil {
		return 0, err
	}
	if err := d.addNoise(t, h.spec.Seed, vector); err != nil {
		return 0, err
	}
	report := wire.AppendUpdate(nil, vector)
	err = d.update(func(r *record) error {
		if old := *r.report(t.Kind); old.answers(t) || old.precludes(t, m.Rollbacks) {
			return errors.New("agent: another process has answered this round with the same state file")
		}
		if t.Kind == pb.Kind_TRAIN {
			if err := r.noteReport(t, h.spec); err != nil {
				return err
			}
		}
		d.saveReport(r, t, report, len(vector), m.Rollbacks)
		if t.Kind == pb.Kind_TRAIN {
			r.state, r.Run, r.Shape = state, t.Run, h.stateShape()
		}
		return nil
	})
	return d.opt.Now().Sub(start), err
}

// errDeclined is wrapped by what a device does not answer.
var errDeclined = errors.New("agent: the device does not answer this")

// permits says what of a readout a device does not do, whatever the plan: what it has, and how
// well it is served, leave it only in a masked sum of enough devices, which items it has only
// in one sum of a run, and how well a model serves it only in one of that model. A sum that was
// opened counts, whatever the coordinator says became of it: the difference of two over other
// devices would tell what one has said.
func (s *savedReport) permits(t *pb.Task) error {
	opened := s != nil && (s.Revealed || s.State == counted) && bytes.Equal(s.Run, t.Run) &&
		!(s.State == counted && s.answers(t))
	switch {
	case t.Kind == pb.Kind_TRAIN:
		return nil
	case t.Masking == nil:
		return fmt.Errorf("%w: readouts are masked, and the task has no masks", errDeclined)
	case t.Masking.MinDevices < privacy.MinMaskedSum:
		return fmt.Errorf("%w: a readout of %d devices: want %d or more", errDeclined, t.Masking.MinDevices,
			privacy.MinMaskedSum)
	case t.Kind == pb.Kind_COUNT && opened:
		return fmt.Errorf("%w: it has said once in this run which items it has", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && opened && s.ModelVersion == t.ModelVersion:
		return fmt.Errorf("%w: it has said once how this model serves it", errDeclined)
	}
	return nil
}

// checkTask says what of a task goes against the plan that the device has agreed to.
func (h *Workspace) checkTask(t *pb.Task, r *record) error {
	if h.spec.Masked && t.Masking == nil {
		return fmt.Errorf("%w: the plan says that sums are masked, and the task has no masks", errDeclined)
	}
	promise := privacy.Policy{}
	if h.hasPolicy() {
		if err := promise.UnmarshalText([]byte(h.spec.Policy)); err != nil {
			return fmt.Errorf("%w: the plan's promise: %w", errDeclined, err)
		}
	}
	switch {
	case t.Kind == pb.Kind_TRAIN && promise.Mechanism == privacy.Tree && h.spec.ReportEvery == 0:
		return fmt.Errorf("%w: the promise rests on how often a device answers, and the plan does not say that",
			errDeclined)
	case t.Kind == pb.Kind_TRAIN && t.Masking != nil && int(t.Masking.MinDevices) < h.minDevices():
		return fmt.Errorf("%w: a masked sum of %d devices without a promise: want %d or more", errDeclined,
			t.Masking.MinDevices, h.minDevices())
	case t.Kind == pb.Kind_TRAIN:
		if err := r.mayReport(t, h.spec); err != nil {
			return fmt.Errorf("%w: %w", errDeclined, err)
		}
	case t.Kind == pb.Kind_COUNT && h.hasPolicy():
		return fmt.Errorf("%w: the items that a device has are not covered by the plan's promise", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && h.hasPolicy() && (promise.Trust != privacy.Central || promise.Metrics == 0):
		return fmt.Errorf("%w: evaluations are not covered by the plan's promise", errDeclined)
	}
	return nil
}

// hasPolicy reports whether the plan has a privacy promise. Then it must not show who had
// nothing to learn from.
func (h *Workspace) hasPolicy() bool { return h.spec.Policy != "" && h.spec.Policy != "none" }

// minDevices is how many devices a masked sum must have at least. Without a promise nothing hides a
// device in it but the others.
func (h *Workspace) minDevices() int {
	if h.hasPolicy() {
		return 2
	}
	return privacy.MinMaskedSum
}

// saveReport puts a report into the record and the log.
func (d *Device) saveReport(r *record, t *pb.Task, report []byte, numbers int, turns uint32) {
	now, digest := d.opt.Now(), wire.HashBlob(report).Hash
	if old := *r.report(t.Kind); old != nil && old.State == pending { // nobody asks for it any more
		r.setState(t.Kind, old.Digest, closed, "the round ended without it", now)
	}
	*r.report(t.Kind) = &savedReport{
		Run: t.Run, Round: t.Round, Attempt: t.Attempt, ModelVersion: t.ModelVersion, Rollbacks: turns, Digest: digest,
		Masked: t.Masking != nil, data: report,
	}
	if t.Masking != nil {
		(*r.report(t.Kind)).MinDevices = d.opt.Workspace.minDevices()
	}
	e := LogEntry{
		CreatedAt: now, Kind: kindName(t.Kind), Run: hex.EncodeToString(t.Run), Round: t.Round,
		ModelVersion: t.ModelVersion,
		Length:       numbers,
		Masked:       t.Masking != nil, Noise: t.Bound.GetNoise(), Policy: d.opt.Workspace.spec.Policy,
		Guarantee: d.opt.Workspace.spec.Guarantee,
	}
	if !e.Masked {
		e.Bytes, e.Digest = len(report), hex.EncodeToString(digest)
	}
	r.log(e)
}

// Key is the device's public key.
func (d *Device) Key() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(d.record.Key).Public().(ed25519.PublicKey)
}
