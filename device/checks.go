package device

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// errDeclined is wrapped by the reasons for which a device declines a task. Declining is not a
// failure: the device waits for another task.
var errDeclined = errors.New("the device declines the task")

// permits returns an error if a device must decline an evaluation or a count, whatever the plan
// says. They must be masked sums of enough devices. A device counts its items once per run and
// evaluates a model version once, because the difference of two sums over different devices would
// reveal one device's values. A sum that the device helped to unmask counts as sent.
func (s *savedReport) permits(t *pb.Task) error {
	revealed := s != nil && (s.Revealed || s.State == counted) && bytes.Equal(s.Run, t.Run) &&
		!(s.State == counted && s.answers(t))
	switch {
	case t.Kind == pb.Kind_TRAIN:
		return nil
	case t.Masking == nil:
		return fmt.Errorf("%w: evaluations must be masked", errDeclined)
	case t.Masking.MinDevices < privacy.MinMaskedSum:
		return fmt.Errorf("%w: an evaluation by %d devices: must be at least %d", errDeclined, t.Masking.MinDevices,
			privacy.MinMaskedSum)
	case t.Kind == pb.Kind_COUNT && revealed:
		return fmt.Errorf("%w: it has counted its items in this run already", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && revealed && s.ModelVersion == t.ModelVersion:
		return fmt.Errorf("%w: it has evaluated this model version already", errDeclined)
	}
	return nil
}

// checkTask returns an error if a task contradicts the plan.
func (w *Workspace) checkTask(t *pb.Task, r *record) error {
	if w.spec.Masked && t.Masking == nil {
		return fmt.Errorf("%w: the plan requires masked updates, but the task has no masking", errDeclined)
	}
	policy := privacy.Policy{}
	if w.hasPolicy() {
		if err := policy.UnmarshalText([]byte(w.spec.Policy)); err != nil {
			return fmt.Errorf("%w: the plan's privacy policy: %w", errDeclined, err)
		}
	}
	switch {
	case t.Kind == pb.Kind_TRAIN && policy.Mechanism == privacy.Tree && w.spec.ReportEvery == 0:
		return fmt.Errorf("%w: the privacy guarantee depends on how often a device reports, but the plan sets no "+
			"limit", errDeclined)
	case t.Kind == pb.Kind_TRAIN && t.Masking != nil && int(t.Masking.MinDevices) < w.minDevices():
		return fmt.Errorf("%w: a masked sum of %d devices without a privacy policy: must be at least %d", errDeclined,
			t.Masking.MinDevices, w.minDevices())
	case t.Kind == pb.Kind_TRAIN:
		if err := r.mayReport(t, w.spec); err != nil {
			return fmt.Errorf("%w: %w", errDeclined, err)
		}
	case t.Kind == pb.Kind_COUNT && w.hasPolicy():
		return fmt.Errorf("%w: the plan's privacy policy does not cover item counts", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && w.hasPolicy() && (policy.Trust != privacy.Central || policy.Metrics == 0):
		return fmt.Errorf("%w: the plan's privacy policy does not cover evaluations", errDeclined)
	}
	return nil
}

// hasPolicy reports whether the plan has a privacy policy. Then a report must not show that a
// device has no training data.
func (w *Workspace) hasPolicy() bool { return w.spec.Policy != "" && w.spec.Policy != "none" }

// minDevices returns the minimum size of a masked sum. Without a privacy policy only the other
// devices hide a device in it.
func (w *Workspace) minDevices() int {
	if w.hasPolicy() {
		return 2
	}
	return privacy.MinMaskedSum
}

// sparseRun is the last report of a device in a run whose plan limits reports to one in every
// ReportEvery rounds (cohort checkin:N/E). The device enforces the limit itself: a report counts
// when it is made, whatever the coordinator says, and the limits are those of the first report.
type sparseRun struct {
	Run         []byte `json:"run"`
	ReportEvery uint32 `json:"every"`
	Rounds      uint32 `json:"rounds"`
	Round       uint32 `json:"round"`
}

// maxSparseRuns limits the runs that a record keeps. A federation has one.
const maxSparseRuns = 64

// sparseRun returns the entry of a run, or nil.
func (r *record) sparseRun(run []byte) *sparseRun {
	for i := range r.Sparse {
		if bytes.Equal(r.Sparse[i].Run, run) {
			return &r.Sparse[i]
		}
	}
	return nil
}

// mayReport returns an error if a new report in a round would exceed the limit.
func (r *record) mayReport(t *pb.Task, p *pb.Plan) error {
	last := r.sparseRun(t.Run)
	switch {
	case last == nil && p.ReportEvery > 0 && len(r.Sparse) >= maxSparseRuns:
		return fmt.Errorf("it takes part in %d runs: must be at most %d", len(r.Sparse)+1, maxSparseRuns)
	case last == nil:
		return nil
	case p.ReportEvery != last.ReportEvery || p.Rounds != last.Rounds:
		return fmt.Errorf("the plan has changed from %d rounds with one report in %d to %d rounds with one in %d",
			last.Rounds, last.ReportEvery, p.Rounds, p.ReportEvery)
	case t.Round/last.ReportEvery <= last.Round/last.ReportEvery:
		return fmt.Errorf("it reported in round %d and reports once in %d rounds: the next report is in round %d or "+
			"later",
			last.Round+1, last.ReportEvery, (last.Round/last.ReportEvery+1)*last.ReportEvery+1)
	}
	return nil
}

// noteReport records the report in a round, or returns an error if it exceeds the limit.
func (r *record) noteReport(t *pb.Task, p *pb.Plan) error {
	if err := r.mayReport(t, p); err != nil {
		return fmt.Errorf("%w: %w", errDeclined, err)
	}
	if last := r.sparseRun(t.Run); last != nil {
		last.Round = t.Round
	} else if p.ReportEvery > 0 {
		r.Sparse = append(r.Sparse, sparseRun{t.Run, p.ReportEvery, p.Rounds, t.Round})
	}
	return nil
}
