package sim

import (
	"math"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/rank"
	"github.com/tacit-rec/tacit/rng"
	"github.com/tacit-rec/tacit/vec"
)

// topK is the length of the lists kept for coverage.
const topK = 10

// Places are where the held-out items of all users stand.
type Places struct {
	Valid, Test         []rank.Place // among sampled candidates
	ValidFull, TestFull []rank.Place // among the catalogue; nil when the protocol has none
	Top                 []uint32     // topK items per user, best first; nil likewise
}

func newPlaces(users int, full bool) *Places {
	absent := func() []rank.Place {
		p := make([]rank.Place, users)
		for i := range p {
			p[i].Above = rank.Absent
		}
		return p
	}
	out := &Places{Valid: absent(), Test: absent()}
	if full {
		out.ValidFull, out.TestFull = absent(), absent()
		out.Top = make([]uint32, users*topK)
		for i := range out.Top {
			out.Top[i] = rank.None
		}
	}
	return out
}

func (p *Places) copyTo(dst *Places) {
	copy(dst.Valid, p.Valid)
	copy(dst.Test, p.Test)
	copy(dst.ValidFull, p.ValidFull)
	copy(dst.TestFull, p.TestFull)
	copy(dst.Top, p.Top)
}

// scores is a lane's room for evaluation.
type scores struct {
	list []uint32
	some []float32
	all  []float32
}

func newScores(s *data.Split) scores {
	n := s.Sampled + 1
	return scores{make([]uint32, 0, n), make([]float32, n), make([]float32, s.Items())}
}

// scorer scores items for one user, or all of them.
type scorer interface {
	Score(items []uint32, dst []float32)
	ScoreAll(dst []float32)
}

// eval measures users one by one and keeps their places.
type eval struct {
	split *data.Split
	only  []bool // users to measure; nil means all
	logit bool   // scores are logits, which the protocol may squash
	now   *Places
}

func newEval(split *data.Split, users int, seed uint64) *eval {
	e := &eval{split: split, logit: true, now: newPlaces(split.Users(), split.Full)}
	if users > 0 && users < split.Users() {
		e.only = make([]bool, split.Users())
		ids := make([]uint32, split.Users())
		for i := range ids {
			ids[i] = uint32(i)
		}
		r := rng.New(seed, rng.EvalUsers)
		r.Shuffle(ids)
		for _, u := range ids[:users] {
			e.only[u] = true
		}
	}
	return e
}

func (e *eval) visited(l *lane, u int) { e.user(l.Worker, &l.scores, &l.part, u) }

// user places the held-out items of one user by the scorer's scores.
func (e *eval) user(by scorer, s *scores, p *data.Part, u int) {
	if e.only != nil && !e.only[u] {
		return
	}
	full := e.split.Full
	if full {
		by.ScoreAll(s.all)
	}
	held := [2]int64{p.Valid, p.Test}
	for i, places := range [2][]rank.Place{e.now.Valid, e.now.Test} {
		if held[i] == data.None {
			continue
		}
		places[u] = e.sampled(by, s, uint32(held[i]), p.Against[i])
	}
	if full {
		e.full(s, p, u)
	}
}

func (e *eval) sampled(by scorer, s *scores, held uint32, against []uint32) rank.Place {
	s.list = append(append(s.list[:0], held), against...)
	out := s.some[:len(s.list)]
	if e.split.Full {
		for x, i := range s.list {
			out[x] = s.all[i]
		}
	} else {
		by.Score(s.list, out)
	}
	if e.split.Squash && e.logit {
		vec.Sigmoids(out)
	}
	return rank.Among(out[0], out[1:])
}

// full ranks among the catalogue without the train items; when testing, without
// the rows since then too (of leave-one-out, the validation item). The held-out
// item itself is never masked.
func (e *eval) full(s *scores, p *data.Part, u int) {
	masked := float32(math.Inf(-1))
	var kept [2]float32
	held := [2]int64{p.Valid, p.Test}
	for i, h := range held {
		if h != data.None {
			kept[i] = s.all[h]
		}
	}
	for _, i := range p.Train {
		s.all[i] = masked
	}
	if p.Valid != data.None {
		s.all[p.Valid] = masked
		e.now.ValidFull[u] = rank.Among(kept[0], s.all)
	}
	for _, i := range p.Later {
		s.all[i] = masked
	}
	if p.Test != data.None {
		s.all[p.Test] = masked
		e.now.TestFull[u] = rank.Among(kept[1], s.all)
		s.all[p.Test] = kept[1]
	}
	n := vec.TopK(s.all, e.now.Top[u*topK:(u+1)*topK])
	for k := n; k < topK; k++ {
		e.now.Top[u*topK+k] = rank.None
	}
}

// prepared measures every user with the newest shared values.
func (f *Fleet) prepared(e *eval, t int) time.Duration {
	start := time.Now()
	const piece = 16
	f.each((len(f.state)+piece-1)/piece, func(l *lane, i int) {
		for u := i * piece; u < min((i+1)*piece, len(f.state)); u++ {
			if e.only != nil && !e.only[u] {
				continue
			}
			f.open(l, u, t)
			l.Prepare(&f.state[u], &l.task)
			e.visited(l, u)
		}
	})
	return time.Since(start)
}
