package experiment

import (
	"fmt"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// perUser has a line for each user that was measured.
func perUser(run *sim.Run, split *data.Split) []result.User {
	var out []result.User
	var p data.Part
	at := func(places []metrics.Place, u int) int {
		if places == nil || places[u].Above == metrics.Absent {
			return 0
		}
		return int(places[u].Above+places[u].Ties) + 1
	}
	_, in := split.Source.(*data.Set)
	if run.Best.Start != nil {
		return perQuery(run, split)
	}
	for u := range split.Users() {
		if !in && run.Best.Test[u].Above == metrics.Absent {
			continue // of a large world only those that were measured
		}
		if split.User(u, &p); p.New {
			continue // compared are those who took part
		}
		out = append(out, result.User{
			ID: split.Info().UserName(u), Rows: len(p.Train),
			ValidRank: at(run.Best.Valid, u), TestRank: at(run.Best.Test, u),
			ValidFull: at(run.Best.ValidFull, u), TestFull: at(run.Best.TestFull, u),
		})
	}
	return out
}

// perQuery has a line for each ranked item of a held-out user.
func perQuery(run *sim.Run, split *data.Split) []result.User {
	var out []result.User
	var p data.Part
	start := run.Best.Start
	for u := range split.Users() {
		if start[u] == start[u+1] {
			continue
		}
		split.User(u, &p)
		for q, place := range run.Best.Test[start[u]:start[u+1]] {
			if place.Above == metrics.Absent {
				continue
			}
			out = append(out, result.User{
				ID: fmt.Sprintf("%s/%d", split.Info().UserName(u), q+1), Rows: len(p.Train),
				TestRank: int(place.Above+place.Ties) + 1,
			})
		}
	}
	return out
}

// newUsers says how those who took no part are served, and how well; nil where
// everybody takes part.
func (j *Job) newUsers(run *sim.Run, split *data.Split) *result.NewUsers {
	if split.Newcomers() == nil {
		return nil
	}
	out := &result.NewUsers{Share: j.NewUsers}
	out.Valid, out.Test = run.Best.Newcomers(j.TieRule(), split.Items())
	plan := run.Fleet.Plan
	switch {
	case !run.Fleet.Welcomes():
		out.How = "not served: a user has a row of its own in the model, which is trained in one place"
	case plan.Readies():
		out.How = "folded in: the device gets ready on its history alone, with nothing sent"
	case plan.Central():
		out.How = "scored by what was trained in one place"
	default:
		out.How = "one visit on the device, from birth, with nothing sent"
	}
	return out
}
