package lab

import (
	"fmt"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/report"
	"github.com/tacit-rec/tacit/sim"
)

// perUser has a line for each user that was measured.
func perUser(run *sim.Run, split *data.Split) []report.User {
	var out []report.User
	var p data.Part
	at := func(places []rank.Place, u int) int {
		if places == nil || places[u].Above == rank.Absent {
			return 0
		}
		return int(places[u].Above+places[u].Ties) + 1
	}
	_, in := split.Source.(*data.Set)
	if run.Best.Start != nil {
		return perQuery(run, split)
	}
	for u := range split.Users() {
		if !in && run.Best.Test[u].Above == rank.Absent {
			continue // of a large world only those that were measured
		}
		split.User(u, &p)
		out = append(out, report.User{
			ID: split.Info().UserName(u), Rows: len(p.Train),
			ValidRank: at(run.Best.Valid, u), TestRank: at(run.Best.Test, u),
			ValidFull: at(run.Best.ValidFull, u), TestFull: at(run.Best.TestFull, u),
		})
	}
	return out
}

// perQuery has a line for each ranked item of a held-out user.
func perQuery(run *sim.Run, split *data.Split) []report.User {
	var out []report.User
	var p data.Part
	start := run.Best.Start
	for u := range split.Users() {
		if start[u] == start[u+1] {
			continue
		}
		split.User(u, &p)
		for q, place := range run.Best.Test[start[u]:start[u+1]] {
			if place.Above == rank.Absent {
				continue
			}
			out = append(out, report.User{
				ID: fmt.Sprintf("%s/%d", split.Info().UserName(u), q+1), Rows: len(p.Train), TestRank: int(place.Above+place.Ties) + 1,
			})
		}
	}
	return out
}
