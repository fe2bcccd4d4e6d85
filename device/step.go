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

// Told is what one step came to.
type Told struct {
	Did     string        `json:"did"`             // waited, paused, stayed away, trained or evaluated
	Why     string        `json:"why,omitempty"`   // of one that did nothing
	Fate    string        `json:"fate,omitempty"`  // of the report: counted, closed, or empty when it is not known yet
	Round   uint32        `json:"round,omitempty"` // from 0
	Model   uint64        `json:"model"`           // version that the device has
	Samples int           `json:"samples,omitempty"`
	Bytes   int           `json:"bytes,omitempty"` // of the report, or of the messages of a masked attempt
	After   time.Duration `json:"after_ns"`        // when to step again
}

// How long a device that has nothing to do stays away.
const (
	away    = time.Minute
	longest = time.Hour
)

// Step is one check-in, and what follows of it. An error leaves the device as a crash
// would: the next Step goes on.
func (d *Device) Step(ctx context.Context) (Told, error) {
	if err := d.refresh(); err != nil {
		return Told{After: away}, err
	}
	out, err := d.stepOrNot(ctx)
	if m, bad := d.manifestOrNone(); !bad {
		out.Model = m.Version
	}
	if hasCode(err, rpc.Revoked) {
		err = fmt.Errorf("%w: %w", ErrRevoked, err)
	}
	return out, err
}

// stepOrNot asks the owner and the device before anybody else.
func (d *Device) stepOrNot(ctx context.Context) (Told, error) {
	if d.rec.Paused {
		return Told{Did: "paused", Why: "its owner has paused it", After: away}, nil
	}
	if d.opt.Eligible != nil {
		if ok, why := d.opt.Eligible(); !ok {
			return Told{Did: "stayed away", Why: why, After: away}, nil
		}
	}
	return d.step(ctx)
}

func (d *Device) manifestOrNone() (*pb.Manifest, bool) {
	if d.rec == nil {
		return nil, true
	}
	m, err := d.manifest()
	return m, err != nil
}

func (d *Device) step(ctx context.Context) (Told, error) {
	d.fresh = false
	if err := d.join(ctx); err != nil {
		return Told{After: away}, err
	}
	d.finish(ctx)
	req := &pb.CheckInRequest{}
	if d.rec == nil {
		return Told{After: time.Second}, errors.New("agent: the record could not be saved")
	}
	if m, err := d.manifest(); err == nil && d.complete(m) {
		req.ModelVersion = m.Version
	}
	if s := d.rec.Train; s != nil && s.Fate == counted {
		req.LastReport = &pb.LastReport{Run: s.Run, Round: s.Round, Digest: s.Digest}
		if s.Masked { // a hash of what is under the masks would let its reader try what it may be
			req.LastReport.Digest = make([]byte, wire.HashBytes)
		}
	}
	resp, err := d.conn.CheckIn(ctx, req)
	if err != nil {
		return Told{After: time.Second}, err
	}
	if resp.Manifest != nil {
		if err := d.adopt(ctx, resp.Manifest); err != nil {
			return Told{After: time.Second}, err
		}
	}
	if err := d.described(); err != nil {
		return Told{After: away}, err
	}
	if t := resp.GetTask(); t != nil {
		return d.do(ctx, t)
	}
	w := resp.GetWait()
	if err := wire.CheckWait(w); err != nil { // its text is shown to people
		return Told{After: away}, err
	}
	after := min(max(time.Duration(w.GetAfterMs())*time.Millisecond, 10*time.Millisecond), longest)
	return Told{Did: "waited", Why: w.GetReason(), After: after}, nil
}

// finish learns what became of reports that a crash, or a broken connection, has left.
// Where it cannot, the check-in that follows says what to do about them, or fails too.
func (d *Device) finish(ctx context.Context) {
	for _, k := range kinds {
		if s := *d.rec.of(k); s != nil && s.Fate == waiting {
			if !s.Masked && k == pb.Kind_TRAIN {
				_ = d.send(ctx, k)
			} else if s.Opened {
				_ = d.ended(ctx, k)
			}
		}
		if d.rec == nil {
			return
		}
	}
}

// turns counts the times that the coordinator has gone back to an older model, as far as
// the device knows.
func (d *Device) turns() uint32 {
	m, err := d.manifest()
	if err != nil {
		return 0
	}
	return m.Rollbacks
}

// do answers a task: with the report that the device has for that round, or else with
// a new one.
func (d *Device) do(ctx context.Context, t *pb.Task) (Told, error) {
	if err := wire.CheckTask(t); err != nil {
		return Told{After: away}, err
	}
	out := Told{Did: map[pb.Kind]string{
		pb.Kind_TRAIN: "trained", pb.Kind_EVALUATE: "evaluated",
		pb.Kind_COUNT: "counted items",
	}[t.Kind], Round: t.Round, After: 10 * time.Millisecond}
	s := *d.rec.of(t.Kind)
	if err := s.agrees(t); err != nil {
		return Told{Did: "declined", Why: err.Error(), Round: t.Round, After: time.Second}, nil
	}
	if !s.is(t) && s.bars(t, d.turns()) {
		return out, fmt.Errorf("agent: the coordinator asks for round %d on version %d of the model, and the device "+
			"has answered round %d on version %d: a round is answered once", t.Round+1, t.ModelVersion, s.Round+1,
			s.Model)
	}
	if !s.is(t) {
		busy, err := d.answer(t, &out)
		if errors.Is(err, errDeclined) { // it is not the device's fault: it waits for another task
			return Told{Did: "declined", Why: err.Error(), Round: t.Round, After: time.Second}, nil
		}
		if err != nil {
			out.After = away
			return out, err
		}
		out.After = max(out.After, time.Duration(float64(busy)*(1/d.opt.Duty-1)))
	}
	var err error
	d.rest = 0
	if t.Masking != nil {
		out.Bytes, err = d.mask(ctx, t)
	} else if s := *d.rec.of(t.Kind); s.Masked {
		err = errors.New("agent: the coordinator asks for a report without masks that was made to be masked")
	} else {
		err = d.send(ctx, t.Kind)
	}
	out.After = max(out.After, d.rest)
	if errors.Is(err, errLeft) {
		return Told{Did: "waited", Why: err.Error(), Round: t.Round, After: time.Second}, nil
	}
	if d.rec != nil && *d.rec.of(t.Kind) != nil {
		s = *d.rec.of(t.Kind)
		if !s.Masked {
			out.Bytes = len(s.report)
		}
		if out.Fate = s.Fate; s.Masked && s.Fate == waiting {
			out.After = max(out.After, time.Second) // the next attempt is not there at once
		}
	}
	return out, err
}

// answer makes the report of a round, and saves it with the private slots that it
// leaves: both or none. Nothing has left the device before.
func (d *Device) answer(t *pb.Task, out *Told) (busy time.Duration, err error) {
	m, err := d.manifest()
	if err != nil {
		return 0, err
	}
	if t.ModelVersion != m.Version || string(t.Run) != string(m.Run) {
		return 0, fmt.Errorf("agent: the task is on version %d of the model, and the device has version %d",
			t.ModelVersion,
			m.Version)
	}
	h := d.opt.Host
	h.mu.Lock()
	defer h.mu.Unlock()
	start := d.opt.Now()
	if err := h.load(m, d.stored); err != nil {
		return 0, err
	}
	if err := h.willing(t, d.rec); err != nil {
		return 0, err
	}
	var vector []int64
	state := d.rec.state
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
	if err := d.disturb(t, h.about.Seed, vector); err != nil {
		return 0, err
	}
	report := wire.AppendVector(nil, vector)
	err = d.update(func(r *record) error {
		if old := *r.of(t.Kind); old.is(t) || old.bars(t, m.Rollbacks) {
			return errors.New("agent: another process has answered this round with the same state file")
		}
		if t.Kind == pb.Kind_TRAIN {
			if err := r.answers(t, h.about); err != nil {
				return err
			}
		}
		d.enter(r, t, report, len(vector), m.Rollbacks)
		if t.Kind == pb.Kind_TRAIN {
			r.state, r.Run, r.Shape = state, t.Run, h.shape()
		}
		return nil
	})
	return d.opt.Now().Sub(start), err
}

// errDeclined is wrapped by what a device does not answer.
var errDeclined = errors.New("agent: the device does not answer this")

// agrees says what of a readout a device does not do, whatever the plan: what it has, and how
// well it is served, leave it only in a masked sum of enough devices, which items it has only
// in one sum of a run, and how well a model serves it only in one of that model. A sum that was
// opened counts, whatever the coordinator says became of it: the difference of two over other
// devices would tell what one has said.
func (s *sent) agrees(t *pb.Task) error {
	opened := s != nil && (s.Opened || s.Fate == counted) && bytes.Equal(s.Run, t.Run) &&
		!(s.Fate == counted && s.is(t))
	switch {
	case t.Kind == pb.Kind_TRAIN:
		return nil
	case t.Masking == nil:
		return fmt.Errorf("%w: readouts are masked, and the task has no masks", errDeclined)
	case t.Masking.MinDevices < wire.SumLeast:
		return fmt.Errorf("%w: a readout of %d devices: want %d or more", errDeclined, t.Masking.MinDevices,
			wire.SumLeast)
	case t.Kind == pb.Kind_COUNT && opened:
		return fmt.Errorf("%w: it has said once in this run which items it has", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && opened && s.Model == t.ModelVersion:
		return fmt.Errorf("%w: it has said once how this model serves it", errDeclined)
	}
	return nil
}

// willing says what of a task goes against the plan that the device has agreed to.
func (h *Host) willing(t *pb.Task, r *record) error {
	if h.about.Masked && t.Masking == nil {
		return fmt.Errorf("%w: the plan says that sums are masked, and the task has no masks", errDeclined)
	}
	promise := privacy.Policy{}
	if h.promised() {
		if err := promise.UnmarshalText([]byte(h.about.Policy)); err != nil {
			return fmt.Errorf("%w: the plan's promise: %w", errDeclined, err)
		}
	}
	switch {
	case t.Kind == pb.Kind_TRAIN && promise.Mechanism == privacy.Tree && h.about.ReportEvery == 0:
		return fmt.Errorf("%w: the promise rests on how often a device answers, and the plan does not say that",
			errDeclined)
	case t.Kind == pb.Kind_TRAIN && t.Masking != nil && int(t.Masking.MinDevices) < h.fewest():
		return fmt.Errorf("%w: a masked sum of %d devices without a promise: want %d or more", errDeclined,
			t.Masking.MinDevices, h.fewest())
	case t.Kind == pb.Kind_TRAIN:
		if err := r.mayAnswer(t, h.about); err != nil {
			return fmt.Errorf("%w: %w", errDeclined, err)
		}
	case t.Kind == pb.Kind_COUNT && h.promised():
		return fmt.Errorf("%w: the items that a device has are not covered by the plan's promise", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && h.promised() && (promise.Trust != privacy.Central || promise.Metrics == 0):
		return fmt.Errorf("%w: evaluations are not covered by the plan's promise", errDeclined)
	}
	return nil
}

// promised reports whether the plan has a privacy promise. Then it must not show who had
// nothing to learn from.
func (h *Host) promised() bool { return h.about.Policy != "" && h.about.Policy != "none" }

// fewest is how many devices a masked sum must have at least. Without a promise nothing hides a
// device in it but the others.
func (h *Host) fewest() int {
	if h.promised() {
		return 2
	}
	return wire.SumLeast
}

// enter puts a report into the record and the log.
func (d *Device) enter(r *record, t *pb.Task, report []byte, numbers int, turns uint32) {
	now, digest := d.opt.Now(), wire.Name(report).Hash
	if old := *r.of(t.Kind); old != nil && old.Fate == waiting { // nobody asks for it any more
		r.settle(t.Kind, old.Digest, closed, "the round ended without it", now)
	}
	*r.of(t.Kind) = &sent{
		Run: t.Run, Round: t.Round, Attempt: t.Attempt, Model: t.ModelVersion, Turns: turns, Digest: digest,
		Masked: t.Masking != nil, report: report,
	}
	if t.Masking != nil {
		(*r.of(t.Kind)).Least = d.opt.Host.fewest()
	}
	e := Entry{
		Made: now, Kind: kindName(t.Kind), Run: hex.EncodeToString(t.Run), Round: t.Round, Model: t.ModelVersion,
		Numbers: numbers,
		Masked:  t.Masking != nil, Noise: t.Bound.GetNoise(), Promise: d.opt.Host.about.Policy,
		Holds: d.opt.Host.about.Guarantee,
	}
	if !e.Masked {
		e.Bytes, e.Digest = len(report), hex.EncodeToString(digest)
	}
	r.note(e)
}

// Key is the device's public key.
func (d *Device) Key() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(d.rec.Key).Public().(ed25519.PublicKey)
}
