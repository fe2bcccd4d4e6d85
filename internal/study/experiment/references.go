package experiment

import (
	"context"
	"math"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// addReferences adds the reference rows to a result, and the tests of the method against each.
func (j *Job) addReferences(ctx context.Context, run *sim.Run, res *result.Result, split *data.Split) error {
	rows, err := references(ctx, j.referenceConfig(split), func(e ReferenceProgress) { j.OnEvent(e) })
	if err != nil {
		return err
	}
	res.References = map[string]*result.Reference{}
	for name, r := range rows {
		res.References[name] = &r.Reference
	}
	mem, pop := res.References["memoriser"], res.References["popularity"]
	if mem.Test != nil && pop.Test != nil {
		res.LeakMeasured = &result.LeakMeasured{
			Memoriser:  mem.Test.Sampled["hr@10"],
			Popularity: pop.Test.Sampled["hr@10"],
		}
	}
	res.UserScores = userScores(run, split, j.TieRule(), rows)
	for name, v := range result.VersusReferences([]*result.Result{res}) {
		res.References[name].Versus = v
	}
	return nil
}

// referenceConfig returns what the reference rows of the job depend on.
func (j *Job) referenceConfig(split *data.Split) reference.Config {
	return reference.Config{
		Split: split, Rounds: j.visits(split.Users()), Negatives: j.Negatives, Seed: j.Seed, Ties: j.TieRule(),
		Jobs: j.Jobs, EvalUsers: j.EvalUsers.Of(split), Cache: j.References,
	}
}

// visits returns the number of rounds that a device takes part in, on average.
func (j *Job) visits(users int) int {
	n := float64(j.Rounds) * j.Cohort.Expected(users) / float64(max(users, 1))
	return min(max(int(math.Ceil(n-1e-9)), 1), j.Rounds)
}

// userScores returns the metrics of the method and of the reference rows per user, for the users that the
// method was measured on; nil if no reference was measured.
func userScores(run *sim.Run, split *data.Split, ties metrics.Ties, rows map[string]*referenceRow) *result.UserScores {
	for name, r := range rows {
		if len(r.Sampled.Users) == 0 {
			delete(rows, name)
		}
	}
	if len(rows) == 0 { // the data is generated and not in memory
		return nil
	}
	sampled, full := run.Best.PerUser(ties)
	out := &result.UserScores{Of: map[string]*[4][]float32{"method": columns(sampled.Users, sampled, full)}}
	for _, u := range sampled.Users {
		out.Users = append(out.Users, split.Info().UserName(int(u)))
	}
	for name, r := range rows {
		out.Of[name] = columns(sampled.Users, r.Sampled, r.Full)
	}
	return out
}

// columns returns the metrics of the given users; NaN for users that were not measured.
func columns(users []uint32, sampled, full metrics.PerUser) *[4][]float32 {
	var out [4][]float32
	for i, e := range [2]metrics.PerUser{sampled, full} {
		at := 0
		for _, u := range users {
			for at < len(e.Users) && e.Users[at] < u {
				at++
			}
			hr, ndcg := float32(math.NaN()), float32(math.NaN())
			if at < len(e.Users) && e.Users[at] == u {
				hr, ndcg = e.HR[at], e.NDCG[at]
			}
			out[2*i], out[2*i+1] = append(out[2*i], hr), append(out[2*i+1], ndcg)
		}
	}
	return &out
}
