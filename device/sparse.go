package device

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

// sparseRun is the last round of a run that a device has answered, where the plan says that it
// answers one at most of each so many (cohort=come:N/E). The device holds to it by
// itself: a report counts as sent when it is made, whatever the coordinator says became of it, and the
// plan's numbers are those of the first answer.
type sparseRun struct {
	Run    []byte `json:"run"`
	Every  uint32 `json:"every"`
	Rounds uint32 `json:"rounds"`
	Round  uint32 `json:"round"`
}

// maxSparseRuns of that kind are answered by one device. A federation has one.
const maxSparseRuns = 64

// sparseRun is the place of a run's, or nil.
func (r *record) sparseRun(run []byte) *sparseRun {
	for i := range r.Sparse {
		if bytes.Equal(r.Sparse[i].Run, run) {
			return &r.Sparse[i]
		}
	}
	return nil
}

// mayReport says why a round is not to be answered. The report that the device has for
// it is no new answer, and is not asked about.
func (r *record) mayReport(t *pb.Task, p *pb.Plan) error {
	had := r.sparseRun(t.Run)
	switch {
	case had == nil && p.ReportEvery > 0 && len(r.Sparse) >= maxSparseRuns:
		return fmt.Errorf("it is in %d runs, and keeps count of no more", maxSparseRuns)
	case had == nil:
		return nil
	case p.ReportEvery != had.Every || p.Rounds != had.Rounds:
		return fmt.Errorf("the plan had %d rounds with one answer in each %d, and now it has %d and %d", had.Rounds,
			had.Every, p.Rounds, p.ReportEvery)
	case t.Round/had.Every <= had.Round/had.Every:
		return fmt.Errorf("it has answered round %d, and answers one at most of each %d: the next is round %d or later", had.Round+1, had.Every, (had.Round/had.Every+1)*had.Every+1)
	}
	return nil
}

// noteReport notes the answer to a round, or says why there is none.
func (r *record) noteReport(t *pb.Task, p *pb.Plan) error {
	if err := r.mayReport(t, p); err != nil {
		return errors.Join(errDeclined, err)
	}
	if had := r.sparseRun(t.Run); had != nil {
		had.Round = t.Round
	} else if p.ReportEvery > 0 {
		r.Sparse = append(r.Sparse, sparseRun{t.Run, p.ReportEvery, p.Rounds, t.Round})
	}
	return nil
}
