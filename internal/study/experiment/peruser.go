package experiment

import (
	"fmt"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// perUser returns a row for each user that was measured.
func perUser(run *sim.Run, split *data.Split) []result.User {
	var out []result.User
	var p data.Part
	at := func(places []metrics.Rank, u int) int {
		if places == nil || places[u].Above == metrics.NotRanked {
			return 0
		}
		return int(places[u].Above+places[u].Ties) + 1
	}
	_, in := split.Source.(*data.Set)
	if run.Best.Together {
		return perTest(run, split)
	}
	if run.Best.Start != nil {
		return perQuery(run, split)
	}
	for u := range split.Users() {
		if !in && run.Best.Test[u].Above == metrics.NotRanked {
			continue // not measured; large generated data has too many users to list
		}
		if split.User(u, &p); p.New {
			continue // cold-start users are reported separately
		}
		out = append(out, result.User{
			ID: split.Info().UserName(u), Rows: len(p.Train),
			ValidRank: at(run.Best.Valid, u), TestRank: at(run.Best.Test, u),
			ValidFull: at(run.Best.ValidFull, u), TestFull: at(run.Best.TestFull, u),
		})
	}
	return out
}

// perTest returns a row for each test item, best first, if those of a user are ranked together. Ranks are those in the
// list with all of them. The first row of a user also has its validation item, and a user without a test item has a
// row without ranks of one.
func perTest(run *sim.Run, split *data.Split) []result.User {
	var out []result.User
	var p data.Part
	best := run.Best
	at := func(ranks []metrics.Rank, i, before int) int {
		if i >= len(ranks) || ranks[i].Above == metrics.NotRanked {
			return 0
		}
		return int(ranks[i].Above+ranks[i].Ties) + before + 1
	}
	for u := range split.Users() {
		if split.User(u, &p); p.New {
			continue
		}
		first := result.User{
			ID: split.Info().UserName(u), Rows: len(p.Train), ValidRank: at(best.Valid, u, 0),
			ValidFull: at(best.ValidFull, u, 0),
		}
		from, to := best.Start[u], best.Start[u+1]
		if from == to {
			out = append(out, first)
		}
		for i := from; i < to; i++ {
			row := result.User{ID: first.ID, Rows: first.Rows}
			if i == from {
				row = first
			}
			row.TestRank, row.TestFull = at(best.Test, i, i-from), at(best.TestFull, i, i-from)
			out = append(out, row)
		}
	}
	return out
}

// perQuery returns a row for each ranked item of a held-out user.
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
			if place.Above == metrics.NotRanked {
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

// newUsers describes how cold-start users are served, and how well; nil if all users train.
func (j *Job) newUsers(run *sim.Run, split *data.Split) *result.NewUsers {
	if split.NewUsers() == nil {
		return nil
	}
	out := &result.NewUsers{Share: j.NewUsers}
	out.Valid, out.Test = run.Best.NewUsers(j.TieRule(), split.Items())
	plan := run.Plan()
	switch {
	case !run.ServesNewUsers():
		out.How = "not served: the model has a parameter row per training user and is trained centrally"
	case plan.PreparesScoring():
		out.How = "folded in: the device computes its parameters from its own history and sends nothing"
	case plan.Central():
		out.How = "scored with the centrally trained model"
	default:
		out.How = "one local training from initial parameters; the device sends nothing"
	}
	return out
}
