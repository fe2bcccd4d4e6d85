package data

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// Split is a data set under a protocol. It splits user by user, on demand; only candidates of data in memory are
// drawn once and kept.
type Split struct {
	Protocol
	Source
	Seed       uint64
	validFrom  int64  // TimeCut: rows from here on are validation
	testFrom   int64  // and from here on test
	heldOut    []bool // NewUsers: held-out users
	newUsers   []bool // users measured separately
	candidates []uint32
	counts     []uint16
}

// None is the held-out item of a user without one.
const None = -1

// Part is one user under a split. Its slices are read-only and valid until the next call of User with the same Part.
type Part struct {
	Train       []uint32  // oldest first
	Rating      []float32 // of Train; nil if the data has none
	Rows        []uint32  // of Train: indices in Features.Row; nil if the data has none
	New         bool      // held out of training and measured separately (Protocol.NewUserShare)
	HeldOut     bool      // held out of training by NewUsers; Train is for the user's own device
	Query       []uint32  // of a held-out user: the items to rank among all items that the user has not seen
	QueryRows   []uint32  // of Query, as Rows
	Valid, Test int64     // the held-out items, or None
	// Tests are the items of all test rows, ascending and without repeats, with Protocol.AllTest; Test is then the
	// item of the first. It is empty for a user without a test item.
	Tests []uint32
	// Later are the rows between Train and the test item: they are known when the test item is ranked.
	Later []uint32
	// Candidates are the items that a held-out item is ranked against, for validation and for test.
	Candidates [2][]uint32

	history    History
	held       [2]uint32
	candidates []uint32 // all candidates: in room, or the split's own
	room       []uint32
	seen       []uint64
	numbers    []uint32 // of all rows of the history
	drawn      []uint32
	halves     [2]half
}

// half is some rows of a history.
type half struct {
	items, rows []uint32
	rating      []float32
}

// quantiles of the rows at which a TimeCut starts validation and test.
const (
	validShare = 0.8
	testShare  = 0.9
)

// keepCandidates is the largest number of candidates kept in memory.
const keepCandidates = 64 << 20

// NewSplit prepares a data set for a protocol.
func NewSplit(src Source, p Protocol, seed uint64) (*Split, error) {
	if err := p.adopt(src); err != nil {
		return nil, err
	}
	if p.AllTest && p.Split != TimeCut && p.Split != byFiles {
		return nil, fmt.Errorf("protocol %s has one test row per user; all test rows require a test file or "+
			"--protocol temporal", p.Name)
	}
	s := &Split{Protocol: p, Source: src, Seed: seed}
	if p.Split == TimeCut {
		if err := s.cut(); err != nil {
			return nil, err
		}
	}
	if p.Split == byFiles || p.Cut != (Cut{}) { // a split that the user chose
		if err := s.CheckTested(); err != nil {
			return nil, err
		}
	}
	if need := p.needs(); need > 0 {
		var h History
		for u := range src.Users() {
			if src.History(u, &h); len(h.Items) < need {
				return nil, fmt.Errorf("user %s has %d rows, but %s requires %d; add --min-rows %d", userName(src, u),
					len(h.Items), p.how(), need, need)
			}
			if _, lazy := src.(*World); lazy {
				break // a world's users all have five rows or more
			}
		}
	}
	if p.Split == NewUsers {
		s.holdOut()
	}
	if p.NewUserShare > 0 {
		if p.Split == NewUsers {
			return nil, fmt.Errorf("protocol %s already holds out users; --new-users requires another protocol", p.Name)
		}
		s.newUsers = s.draws(p.NewUserShare)
	}
	set, in := src.(*Set)
	if in && p.Shuffle && set.Meta.TimeKind == NoTime {
		s.Source = set.shuffled(seed)
	}
	if p.ShuffleTies {
		if !in || set.Meta.TimeKind != RealTime {
			return nil, fmt.Errorf("the rows of %s have no times that could be equal; use --time-ties file",
				src.Info().Name)
		}
		s.Source = set.shuffledTies(seed)
	}
	if in && src.Users()*s.drawn() <= keepCandidates {
		s.keep()
	}
	return s, nil
}

// how names what requires a number of rows, in messages.
func (p Protocol) how() string {
	if p.Split == LeaveOneOut {
		return "leave-one-out"
	}
	return "protocol " + p.Name
}

// shuffled is the set with the rows of each user in random order.
func (s *Set) shuffled(seed uint64) *Set {
	return s.reordered(func(u int, swap func(i, j int)) {
		r := rng.New(seed, rng.Order, uint64(u))
		shuffle(&r, s.Start[u], s.Start[u+1], swap)
	})
}

// shuffledTies is the set with the rows of each user that have the same time in random order.
func (s *Set) shuffledTies(seed uint64) *Set {
	return s.reordered(func(u int, swap func(i, j int)) {
		r := rng.New(seed, rng.Order, uint64(u))
		for from := s.Start[u]; from < s.Start[u+1]; {
			to := from + 1
			for to < s.Start[u+1] && s.Time[to] == s.Time[from] {
				to++
			}
			shuffle(&r, from, to, swap)
			from = to
		}
	})
}

// shuffle shuffles the rows of a range.
func shuffle(r *rng.Rand, from, to int, swap func(i, j int)) {
	for i := to - 1; i > from; i-- {
		swap(i, from+int(r.Uint32n(uint32(i-from+1))))
	}
}

// reordered is a copy of the set in which order has swapped rows of each user. Times stay in place.
func (s *Set) reordered(order func(u int, swap func(i, j int))) *Set {
	out := *s
	out.Item, out.Value = slices.Clone(s.Item), slices.Clone(s.Value)
	out.Meta.Features.Row = nil
	for _, c := range s.Meta.Features.Row { // features move with their rows
		c.Code = slices.Clone(c.Code)
		out.Meta.Features.Row = append(out.Meta.Features.Row, c)
	}
	swap := func(i, j int) {
		out.Item[i], out.Item[j] = out.Item[j], out.Item[i]
		if out.Value != nil {
			out.Value[i], out.Value[j] = out.Value[j], out.Value[i]
		}
		for _, c := range out.Meta.Features.Row {
			c.Code[i], c.Code[j] = c.Code[j], c.Code[i]
		}
	}
	for u := range s.Users() {
		order(u, swap)
	}
	return &out
}

// drawn is the number of candidates drawn for a user.
func (s *Split) drawn() int {
	if s.Validates() {
		return 2 * s.Sampled
	}
	return s.Sampled
}

func userName(src Source, u int) string {
	if ids := src.Info().UserID; u < len(ids) {
		return fmt.Sprintf("%q", ids[u])
	}
	return fmt.Sprint(u)
}

// cut finds the two moments of a TimeCut.
func (s *Split) cut() error {
	if k := s.Info().TimeKind; k != RealTime {
		return fmt.Errorf("protocol %s requires times that are comparable between users, but the times of %s are: "+
			"%s; use --protocol deployed",
			s.Name, s.Info().Name, k)
	}
	var all []int64
	var h History
	for u := range s.Users() {
		s.History(u, &h)
		all = append(all, h.Times...)
	}
	slices.Sort(all)
	s.validFrom, s.testFrom = s.Cut.at(all)
	if s.Cut.dated && (s.validFrom <= all[0] || s.testFrom > all[len(all)-1]) {
		return fmt.Errorf("time cut %s: validation must start after the first time of %s, and test at its last at the "+
			"latest; tacit data describe shows them", s.Cut, s.Info().Name)
	}
	if s.validFrom >= s.testFrom {
		return fmt.Errorf("the times of %s are too coarse for protocol %s; use --protocol deployed",
			s.Info().Name, s.Name)
	}
	return nil
}

func (s *Split) keep() {
	n := s.drawn()
	all := make([]uint32, s.Users()*n)
	counts := make([]uint16, s.Users())
	var p Part
	for u := range s.Users() {
		s.User(u, &p)
		got := p.candidates
		counts[u] = uint16(copy(all[u*n:(u+1)*n], got))
	}
	s.candidates, s.counts = all, counts
}

// User fills p with user u.
func (s *Split) User(u int, p *Part) {
	s.History(u, &p.history)
	h := &p.history
	n := len(h.Items)
	p.Valid, p.Test = None, None
	switch s.Split {
	case LeaveOneOut:
		p.Train, p.Later = h.Items[:n-2], h.Items[n-2:n-1]
		p.Valid, p.Test = int64(h.Items[n-2]), int64(h.Items[n-1])
	case LastOut:
		p.Train, p.Later, p.Test = h.Items[:n-1], nil, int64(h.Items[n-1])
	case TimeCut, byFiles:
		a, b := s.bounds(u, h)
		p.Train, p.Later = h.Items[:a], h.Items[a:b]
		// Users without train rows are not evaluated: cold start is another question.
		if a > 0 && a < b {
			p.Valid = int64(h.Items[a])
		}
		if a > 0 && b < n {
			p.Test = int64(h.Items[b])
		}
	case NewUsers:
		p.Train, p.Later = h.Items, nil
	}
	if p.Rating = nil; h.Values != nil {
		p.Rating = h.Values[:len(p.Train)]
	}
	p.number(len(s.Info().Features.Row) > 0)
	p.New = s.newUsers != nil && s.newUsers[u]
	if p.HeldOut = s.heldOut != nil && s.heldOut[u]; p.HeldOut {
		s.halve(u, p)
	}
	s.against(u, p)
	if p.Tests = p.Tests[:0]; s.AllTest && p.Test != None {
		_, rows := p.HeldOutRows()
		p.Tests = append(p.Tests, rows...)
		slices.Sort(p.Tests)
		p.Tests = slices.Compact(p.Tests)
	}
}

// bounds returns where the validation and the test rows of a user start.
func (s *Split) bounds(u int, h *History) (valid, test int) {
	if set, in := s.Source.(*Set); in && s.Split == byFiles {
		return int(set.ValidFrom[u]), int(set.TestFrom[u])
	}
	valid, _ = slices.BinarySearch(h.Times, s.validFrom)
	test, _ = slices.BinarySearch(h.Times, s.testFrom)
	return valid, test
}

// adopt makes the protocol use the split of the user's files, if the data has one.
func (p *Protocol) adopt(src Source) error {
	set, in := src.(*Set)
	if !in || set.TestFrom == nil {
		return nil
	}
	switch {
	case p.Split != LeaveOneOut && p.Split != TimeCut:
		return fmt.Errorf("protocol %s makes its own split, but the files of %s give one; use --protocol deployed",
			p.Name, src.Info().Name)
	case p.ShuffleTies:
		return errors.New("the order of rows is part of the split that the files give; use --time-ties file")
	case p.Cut != Cut{}:
		return errors.New("the files give the split; omit --time-cut or the test file")
	}
	p.Split, p.MinRows, p.Shuffle = byFiles, 0, false
	return nil
}

// Held returns the held-out items of a user.
func (p *Part) Held() []uint32 {
	out := p.held[:0]
	if p.Valid != None {
		out = append(out, uint32(p.Valid))
	}
	if len(p.Tests) > 0 {
		return append(out, p.Tests...)
	}
	if p.Test != None {
		out = append(out, uint32(p.Test))
	}
	return out
}

// AtTest returns the history that the test item is ranked with, as Train, Rating and Rows are: Train, and with
// Protocol.CompleteHistory also Later.
func (s *Split) AtTest(p *Part) (items []uint32, rating []float32, rows []uint32) {
	if !s.CompleteHistory || len(p.Later) == 0 {
		return p.Train, p.Rating, p.Rows
	}
	n := len(p.Train) + len(p.Later)
	items = p.history.Items[:n]
	if p.Rating != nil {
		rating = p.history.Values[:n]
	}
	if p.Rows != nil {
		rows = p.numbers[:n]
	}
	return items, rating, rows
}

// WholeHistory returns all rows of a user, held-out ones included, as Train, Rating and Rows are.
func (s *Split) WholeHistory(p *Part) (items []uint32, rating []float32, rows []uint32) {
	if len(s.Info().Features.Row) > 0 {
		rows = p.numbers
	}
	return p.history.Items, p.history.Values, rows
}

// Hidden returns the items that a device does not draw as negatives, besides its train items.
func (s *Split) Hidden(p *Part) [2][]uint32 {
	switch s.Hide {
	case HideHeld:
		return [2][]uint32{p.Held(), nil}
	case HideCandidates:
		return [2][]uint32{p.Held(), p.candidates}
	}
	return [2][]uint32{}
}

// against draws the evaluation candidates: distinct items that the user has not seen, the first half for validation.
// A user with too few such items gets all of them.
func (s *Split) against(u int, p *Part) {
	want := s.drawn()
	if s.candidates != nil {
		p.candidates = s.candidates[u*want:][:s.counts[u]]
	} else {
		p.candidates = s.draw(u, p, want)
	}
	half := len(p.candidates) / 2
	if !s.Validates() {
		half = 0
	}
	p.Candidates = [2][]uint32{p.candidates[:half], p.candidates[half:]}
	if len(p.candidates) < 2 && s.Sampled > 0 { // a ranking without competitors is always a hit
		p.Valid, p.Test = None, None
	}
}

func (s *Split) draw(u int, p *Part, want int) []uint32 {
	words := (s.Items() + 63) / 64
	if len(p.seen) < words {
		p.seen = make([]uint64, words)
	}
	clear(p.seen)
	for _, i := range p.history.Items {
		p.seen[i>>6] |= 1 << (i & 63)
	}
	free := s.Items()
	for _, w := range p.seen {
		free -= bits.OnesCount64(w)
	}
	if cap(p.room) < want {
		p.room = make([]uint32, 0, want)
	}
	out := p.room[:0]
	r := rng.New(s.Seed, rng.Candidates, uint64(u))
	if free < 2*want { // take from a shuffled list of all unseen items
		all := make([]uint32, 0, free)
		for i := range uint32(s.Items()) {
			if p.seen[i>>6]>>(i&63)&1 == 0 {
				all = append(all, i)
			}
		}
		r.Shuffle(all)
		n := min(want, free)
		if s.Validates() {
			n &^= 1 // the same number for validation and test
		}
		return append(out, all[:n]...)
	}
	for len(out) < want {
		i := r.Uint32n(uint32(s.Items()))
		if p.seen[i>>6]>>(i&63)&1 == 0 {
			p.seen[i>>6] |= 1 << (i & 63)
			out = append(out, i)
		}
	}
	return out
}
