package device

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

// turn is the last round of a run that a device has answered, where the plan says that it
// answers one at most of each so many (cohort=come:N/E). The device holds to it by
// itself: a report counts as sent when it is made, whatever the coordinator says became of it, and the
// plan's numbers are those of the first answer.
type turn struct {
	Run    []byte `json:"run"`
	Every  uint32 `json:"every"`
	Rounds uint32 `json:"rounds"`
	Round  uint32 `json:"round"`
}

// mostRuns of that kind are answered by one device. A federation has one.
const mostRuns = 64

// turnOf is the place of a run's, or nil.
func (r *record) turnOf(run []byte) *turn {
	for i := range r.Had {
		if bytes.Equal(r.Had[i].Run, run) {
			return &r.Had[i]
		}
	}
	return nil
}

// mayAnswer says why a round is not to be answered. The report that the device has for
// it is no new answer, and is not asked about.
func (r *record) mayAnswer(t *pb.Task, p *pb.Plan) error {
	had := r.turnOf(t.Run)
	switch {
	case had == nil && p.ReportEvery > 0 && len(r.Had) >= mostRuns:
		return fmt.Errorf("it is in %d runs, and keeps count of no more", mostRuns)
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

// answers notes the answer to a round, or says why there is none.
func (r *record) answers(t *pb.Task, p *pb.Plan) error {
	if err := r.mayAnswer(t, p); err != nil {
		return errors.Join(errDeclined, err)
	}
	if had := r.turnOf(t.Run); had != nil {
		had.Round = t.Round
	} else if p.ReportEvery > 0 {
		r.Had = append(r.Had, turn{t.Run, p.ReportEvery, p.Rounds, t.Round})
	}
	return nil
}
