package sim

import (
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Summaries returns the validation and test metrics of the users who took part in training.
func (p *Ranks) Summaries(ties metrics.Ties, items int) (valid, test metrics.Summary) {
	return p.of(false).summaries(ties, items)
}

// NewUsers returns the metrics of the users who took no part in training; they are empty if
// none was evaluated.
func (p *Ranks) NewUsers(ties metrics.Ties, items int) (valid, test metrics.Summary) {
	if p.New == nil {
		return valid, test
	}
	if valid, test = p.of(true).summaries(ties, items); test.Sampled["users"] == 0 {
		return metrics.Summary{}, metrics.Summary{}
	}
	return valid, test
}

// of returns the ranks of the new users, or of the others.
func (p *Ranks) of(isNew bool) *Ranks {
	if p.New == nil {
		return p
	}
	only := func(places []metrics.Rank, start []int) []metrics.Rank {
		out := slices.Clone(places)
		for u := range p.New {
			if len(out) == 0 || p.New[u] == isNew {
				continue
			}
			lo, hi := u, u+1
			if start != nil {
				lo, hi = start[u], start[u+1]
			}
			for i := lo; i < hi; i++ {
				out[i].Above = metrics.NotRanked
			}
		}
		return out
	}
	out := &Ranks{
		Valid: only(p.Valid, nil), Test: only(p.Test, p.Start),
		ValidFull: only(p.ValidFull, nil), TestFull: only(p.TestFull, p.Start),
		Top: slices.Clone(p.Top), Start: p.Start, Together: p.Together,
	}
	for i := range out.Top {
		if p.New[i/topK] != isNew {
			out.Top[i] = metrics.None
		}
	}
	return out
}

func (p *Ranks) summaries(ties metrics.Ties, items int) (valid, test metrics.Summary) {
	of := metrics.OfGroups
	if p.Together {
		of = metrics.OfTogether
	}
	valid.Sampled, test.Sampled = metrics.Of(p.Valid, ties).ByName(), of(p.Test, p.Start, ties).ByName()
	if valid.Sampled["users"] == 0 {
		valid.Sampled = nil
	}
	if p.TestFull != nil {
		valid.Full, test.Full = metrics.Of(p.ValidFull, ties).ByName(), of(p.TestFull, p.Start, ties).ByName()
		test.Full[fmt.Sprintf("coverage@%d", topK)] = metrics.Coverage(p.Top, items)
	}
	return valid, test
}

// PerUser returns the test metrics of each user who took part in training: among sampled
// candidates, and among the catalogue. The latter is empty if the protocol has none.
func (p *Ranks) PerUser(ties metrics.Ties) (sampled, full metrics.PerUser) {
	p = p.of(false)
	if p.Together {
		return metrics.PerUserTogether(p.Test, p.Start, ties), metrics.PerUserTogether(p.TestFull, p.Start, ties)
	}
	return metrics.PerUserOf(p.Test, p.Start, ties), metrics.PerUserOf(p.TestFull, nil, ties)
}
