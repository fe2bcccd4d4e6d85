package sim

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tacit-rec/tacit/data"
)

// Scorer scores items for one user at a time. For selects the user.
type Scorer interface {
	For(u int, p *data.Part)
	Score(items []uint32, dst []float32)
	ScoreAll(dst []float32)
}

// Evaluate ranks the held-out items of every user with scorers, one per goroutine, until ctx is
// done. users is the size of the sample of users, drawn as for Options.EvalUsers; 0 means all.
// tell, if not nil, is called from any goroutine with the number of users done.
func Evaluate(ctx context.Context, split *data.Split, users, jobs int, fresh func() Scorer,
	tell func(done int),
) (*Ranks, error) {
	e := newEval(split, users, split.Seed)
	e.logit = false // a count saturates a sigmoid
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(jobs, 1) {
		wg.Go(func() {
			var p data.Part
			s, by := newScores(split), fresh()
			for {
				u := int(next.Add(1)) - 1
				if u >= split.Users() || ctx.Err() != nil {
					return
				}
				if tell != nil && u%64 == 0 {
					tell(u)
				}
				if e.only != nil && !e.only[u] {
					continue
				}
				split.User(u, &p)
				by.For(u, &p)
				e.user(by, &s, &p, u)
			}
		})
	}
	wg.Wait()
	return e.now, ctx.Err()
}
