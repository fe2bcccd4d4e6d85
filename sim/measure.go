package sim

import (
	"sync"
	"sync/atomic"

	"github.com/tacit-rec/tacit/data"
)

// Scorer scores items for one user at a time: For says for whom.
type Scorer interface {
	For(u int, p *data.Part)
	Score(items []uint32, dst []float32)
	ScoreAll(dst []float32)
}

// Measure places the held-out items of every user by scorers, one per goroutine.
func Measure(split *data.Split, jobs int, fresh func() Scorer) *Places {
	e := newEval(split, 0, split.Seed)
	e.logit = false // a count saturates a sigmoid
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(jobs, 1) {
		wg.Go(func() {
			var p data.Part
			s, by := newScores(split), fresh()
			for {
				u := int(next.Add(1)) - 1
				if u >= split.Users() {
					return
				}
				split.User(u, &p)
				by.For(u, &p)
				e.user(by, &s, &p, u)
			}
		})
	}
	wg.Wait()
	return e.now
}
