package sim

import (
	"errors"
	"math"
	"strconv"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
)

// UserSample is the number of users that are evaluated.
type UserSample int

const (
	AllUsers  UserSample = 0
	AutoUsers UserSample = math.MinInt32 // all users, unless ranking the catalogue for all would take long
)

func (n UserSample) MarshalText() ([]byte, error) {
	switch n {
	case AllUsers:
		return []byte("all"), nil
	case AutoUsers:
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

func (n *UserSample) UnmarshalText(b []byte) error {
	switch string(b) {
	case "all", "0":
		*n = AllUsers
	case "auto":
		*n = AutoUsers
	default:
		x, err := strconv.ParseInt(string(b), 10, 32)
		if err != nil || x < 0 {
			return errors.New("must be auto, all or a number of users")
		}
		*n = UserSample(x)
	}
	return nil
}

// Limits of the scores that one evaluation computes if the number of users is AutoUsers, and how
// many users are evaluated at least. They depend on the data only, so that a result is the same
// on any machine.
const (
	mostScores, leastUsers               = 400_000_000, 2000
	mostProgressScores, leastForProgress = 40_000_000, 500
)

// Of returns the number of users of a split that are evaluated; 0 for all.
func (n UserSample) Of(s *data.Split) int {
	if n != AutoUsers {
		return int(n)
	}
	return affordable(s, mostScores, leastUsers)
}

// affordable returns how many users can be ranked among the catalogue with a limited number of
// scores, but not fewer than least; 0 for all.
func affordable(s *data.Split, scores, least int) int {
	if n := max(scores/max(s.Items(), 1), least); s.Full && n < s.Users() {
		return n
	}
	return 0
}

// progressOnly reports whether evaluations before the last round serve progress output only:
// the last round is the result, and nothing is released.
func (r *Run) progressOnly() bool {
	m, last := method.As[method.FinalRound](r.fleet.plan.Method)
	return last && m.ReportsFinalRound() && r.engine.Stack == nil && r.fleet.split.Validates()
}

// progressEvaluations is about how often a run is evaluated that reports its last round.
const progressEvaluations = 16

// evalEvery is the number of rounds between evaluations.
func (r *Run) evalEvery() int {
	if r.EvalEvery == 1 && r.progressOnly() {
		return max(r.Rounds/progressEvaluations, 1)
	}
	return r.EvalEvery
}

// sampleProgress selects the users of evaluations that serve progress output only, if ranking
// all would take long.
func (r *Run) sampleProgress() {
	e := r.eval
	n := affordable(r.fleet.split, mostProgressScores, leastForProgress)
	if n == 0 || n >= e.askedUsers() || r.fleet.plan.Serves(method.ServeLocal) ||
		r.fleet.plan.Serves(method.ServeOther) {
		return
	}
	e.progress = draw(e.users(), n, len(e.now.Valid), r.Seed)
}
