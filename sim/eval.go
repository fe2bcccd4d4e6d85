package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/vec"
)

// topK is the length of the recommendation lists that coverage is computed from.
const topK = 10

// Ranks are the ranks of the held-out items of all users.
type Ranks struct {
	Valid, Test         []metrics.Rank // among sampled candidates
	ValidFull, TestFull []metrics.Rank // among the catalogue; nil if the protocol has none
	Top                 []uint32       // topK items per user, best first; nil as well
	// Start is set if users have several test items, each ranked among all items that the user
	// never touched: those of user u are Test[Start[u]:Start[u+1]].
	Start []int
	// Together is set if the test items of a user are ranked in one list (data.Protocol.AllTest): those of user u are
	// Test[Start[u]:Start[u+1]] and TestFull of the same range, best first, each ranked among the items that are not
	// test items of the user.
	Together bool
	// New tells which users took no part in training; nil if all did.
	New []bool
}

func newPlaces(split *data.Split) *Ranks {
	users := split.Users()
	absent := func(users int) []metrics.Rank {
		p := make([]metrics.Rank, users)
		for i := range p {
			p[i].Above = metrics.NotRanked
		}
		return p
	}
	if out := split.HeldOut(); out != nil {
		start := []int{0}
		var p data.Part
		n := 0
		for u := range users {
			if out[u] {
				split.User(u, &p)
				n += len(p.Query)
			}
			start = append(start, n)
		}
		return &Ranks{Valid: absent(users), Test: absent(n), Start: start}
	}
	tests := users
	var start []int
	if split.AllTest {
		start = append(start, 0)
		var p data.Part
		for u := range users {
			split.User(u, &p)
			start = append(start, start[u]+len(p.Tests))
		}
		tests = start[users]
	}
	out := &Ranks{
		Valid: absent(users), Test: absent(tests), Start: start, Together: split.AllTest, New: split.NewUsers(),
	}
	if split.Full {
		out.ValidFull, out.TestFull = absent(users), absent(tests)
		out.Top = make([]uint32, users*topK)
		for i := range out.Top {
			out.Top[i] = metrics.None
		}
	}
	return out
}

func (p *Ranks) copyTo(dst *Ranks) {
	copy(dst.Valid, p.Valid)
	copy(dst.Test, p.Test)
	copy(dst.ValidFull, p.ValidFull)
	copy(dst.TestFull, p.TestFull)
	copy(dst.Top, p.Top)
}

// scores is a lane's memory for evaluation.
type scores struct {
	list []uint32
	some []float32
	all  []float32 // allocated when it is needed
	own  []float32 // of a held-out user's items

	haveAll bool // all holds the scores of the user
}

func newScores(s *data.Split) scores {
	n := s.Sampled + 1
	return scores{list: make([]uint32, 0, n), some: make([]float32, n)}
}

// scorer scores some items or all items for one user.
type scorer interface {
	Score(items []uint32, dst []float32)
	ScoreAll(dst []float32)
}

// eval evaluates users one by one and keeps their ranks.
type eval struct {
	split *data.Split
	only  []bool // users to evaluate; nil means all
	// progress, if not nil, selects the users of an evaluation that serves progress output only.
	progress []bool
	logit    bool // scores are logits, to which the protocol may apply a sigmoid
	now      *Ranks

	oneByOne bool // rank every user alone: the reference for blocks
}

func newEval(split *data.Split, users int, seed uint64) *eval {
	e := &eval{split: split, logit: true, now: newPlaces(split), only: split.HeldOut()}
	if users > 0 && users < e.askedUsers() {
		e.only = draw(e.users(), users, split.Users(), seed)
	}
	return e
}

// users lists the users to evaluate.
func (e *eval) users() []uint32 { return marked(e.only, e.split.Users()) }

// marked lists the users that are marked; nil marks all.
func marked(only []bool, users int) []uint32 {
	var ids []uint32
	for u := range uint32(users) {
		if only == nil || only[u] {
			ids = append(ids, u)
		}
	}
	return ids
}

// draw selects that many of the given users, and marks them among all.
func draw(ids []uint32, users, all int, seed uint64) []bool {
	r := rng.New(seed, rng.EvalUsers)
	r.Shuffle(ids)
	only := make([]bool, all)
	for _, u := range ids[:min(users, len(ids))] {
		only[u] = true
	}
	return only
}

// askedUsers is the number of users to evaluate, with or without held-out items.
func (e *eval) askedUsers() int {
	if e.only == nil {
		return e.split.Users()
	}
	n := 0
	for _, on := range e.only {
		if on {
			n++
		}
	}
	return n
}

func (e *eval) visited(l *lane, u int) { e.user(l.Worker, &l.scores, &l.part, u) }

// user ranks the held-out items of one user.
func (e *eval) user(by scorer, s *scores, p *data.Part, u int) {
	if e.only != nil && !e.only[u] {
		return
	}
	if e.now.Start != nil && !e.now.Together {
		e.queries(by, s, p, e.now.Test[e.now.Start[u]:e.now.Start[u+1]])
		return
	}
	held := [2]int64{p.Valid, p.Test}
	c, completes := by.(completer)
	if !completes {
		e.rankHeld(by, s, p, u, held)
		return
	}
	e.rankHeld(by, s, p, u, [2]int64{p.Valid, data.None})
	c.complete()
	e.rankHeld(by, s, p, u, [2]int64{data.None, p.Test})
}

// completer is a scorer that can load the history of the test: see data.Protocol.CompleteHistory.
type completer interface{ complete() }

// rankHeld ranks the given held-out items of a user.
func (e *eval) rankHeld(by scorer, s *scores, p *data.Part, u int, held [2]int64) {
	full := e.split.Full
	if s.haveAll = full; full {
		s.all = resize(s.all, e.split.Items())
		by.ScoreAll(s.all)
	}
	for i, places := range [2][]metrics.Rank{e.now.Valid, e.now.Test} {
		if held[i] == data.None {
			continue
		}
		if i == 1 && e.now.Together {
			e.sampledTests(by, s, p, places[e.now.Start[u]:e.now.Start[u+1]])
			continue
		}
		places[u] = e.sampled(by, s, uint32(held[i]), p.Candidates[i])
	}
	if full {
		e.full(s, p, u, held)
	}
}

func (e *eval) sampled(by scorer, s *scores, held uint32, against []uint32) metrics.Rank {
	s.list = append(append(s.list[:0], held), against...)
	out := s.some[:len(s.list)]
	if s.haveAll {
		for x, i := range s.list {
			out[x] = s.all[i]
		}
	} else {
		by.Score(s.list, out)
	}
	if e.split.Float32Sigmoid && e.logit {
		vec.Sigmoids(out)
	}
	return metrics.RankOf(out[0], out[1:])
}

// sampledTests ranks all test items of a user among sampled candidates.
func (e *eval) sampledTests(by scorer, s *scores, p *data.Part, places []metrics.Rank) {
	for x, i := range p.Tests {
		places[x] = e.sampled(by, s, i, p.Candidates[1])
	}
	slices.SortFunc(places, better)
}

// better orders the ranks of items of one user by score, the best first.
func better(a, b metrics.Rank) int {
	return cmp.Or(cmp.Compare(a.Above, b.Above), cmp.Compare(a.Above+a.Ties, b.Above+b.Ties))
}

// contextual is a scorer whose scores depend on the interaction.
type contextual interface{ Context(row uint32) bool }

// queries ranks each item of a held-out user among all items that the user never touched.
func (e *eval) queries(by scorer, s *scores, p *data.Part, places []metrics.Rank) {
	in, asks := by.(contextual)
	asks = asks && p.QueryRows != nil
	for q := range p.Query {
		if changes := asks && in.Context(p.QueryRows[q]); q == 0 || changes {
			s.all = resize(s.all, e.split.Items())
			by.ScoreAll(s.all)
			s.own = s.own[:0]
			for _, i := range p.Query {
				s.own = append(s.own, s.all[i])
			}
			for _, i := range p.Seen() {
				s.all[i] = excluded
			}
		}
		places[q] = metrics.RankOf(s.own[q], s.all)
	}
}

// full ranks among the catalogue without the train items; for the test item also without later
// items (with leave-one-out, the validation item). The held-out item itself stays.
func (e *eval) full(s *scores, p *data.Part, u int, held [2]int64) {
	var kept [2]float32
	for i, h := range held {
		if h != data.None {
			kept[i] = s.all[h]
		}
	}
	s.own = s.own[:0]
	for _, i := range p.Tests { // they may be train items too
		s.own = append(s.own, s.all[i])
	}
	for _, i := range p.Train {
		s.all[i] = excluded
	}
	if held[0] != data.None {
		s.all[held[0]] = excluded
		e.now.ValidFull[u] = metrics.RankOf(kept[0], s.all)
	}
	for _, i := range p.Later {
		s.all[i] = excluded
	}
	if held[1] != data.None && e.now.Together {
		e.fullTests(s, p, e.now.TestFull[e.now.Start[u]:e.now.Start[u+1]])
	} else if held[1] != data.None {
		s.all[held[1]] = excluded
		e.now.TestFull[u] = metrics.RankOf(kept[1], s.all)
		s.all[held[1]] = kept[1]
	}
	n := vec.TopK(s.all, e.now.Top[u*topK:(u+1)*topK])
	for k := n; k < topK; k++ {
		e.now.Top[u*topK+k] = metrics.None
	}
}

// fullTests ranks all test items of a user among the items of s.all that are not among them, and leaves their scores.
func (e *eval) fullTests(s *scores, p *data.Part, places []metrics.Rank) {
	for _, i := range p.Tests {
		s.all[i] = excluded
	}
	for x := range p.Tests {
		places[x] = metrics.RankOf(s.own[x], s.all)
	}
	for x, i := range p.Tests {
		s.all[i] = s.own[x]
	}
	slices.SortFunc(places, better)
}

// evalAll evaluates every user, or only the new users, with the newest shared values, until
// ctx is done.
func (f *devices) evalAll(ctx context.Context, e *eval, t int, newUsersOnly bool) (time.Duration, error) {
	start, only := time.Now(), e.only
	if e.progress != nil && t+1 < f.opt.Rounds && !newUsersOnly {
		only = e.progress
	}
	ids := marked(only, len(f.state))
	f.each((len(ids)+blockUsers-1)/blockUsers, func(l *lane, i int) {
		if ctx.Err() != nil {
			return
		}
		for _, id := range ids[i*blockUsers : min((i+1)*blockUsers, len(ids))] {
			u := int(id)
			f.open(l, u, t)
			if newUsersOnly && !l.part.New || l.part.New && !f.servesNewUsers() {
				continue
			}
			if prepared := f.prepareScoring(l, u); prepared && f.split.CompleteHistory {
				e.user(&atTest{l.Worker, f, l}, &l.scores, &l.part, u)
				continue
			}
			if e.split.Full && e.now.Start == nil && !e.oneByOne && l.Linear() {
				e.add(l, u)
				continue
			}
			e.visited(l, u)
		}
		e.rank(&l.block)
	})
	return time.Since(start), ctx.Err()
}

// prepareScoring makes a lane ready to score a user. It reports whether Prepare has loaded the device. A new
// device trains once instead, unless the method prepares scoring.
func (f *devices) prepareScoring(l *lane, u int) (prepared bool) {
	if (l.part.HeldOut || l.part.New) && !f.plan.PreparesScoring() && f.central == nil {
		st := f.mem.NewState(nil)
		l.Visit(&st, &l.task, local.NotCounted, false)
		return false
	}
	l.Prepare(&f.state[u], &l.task)
	return true
}

// atTest scores the device of a lane, which Prepare has loaded.
type atTest struct {
	*local.Worker
	f *devices
	l *lane
}

// complete loads the device again, with the history of the test.
func (a *atTest) complete() {
	t := &a.l.task
	t.Train, t.Rating, t.Rows = a.f.split.AtTest(&a.l.part)
	a.Prepare(&a.f.state[t.Device], t)
}
