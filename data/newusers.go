package data

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// outShare is the share of users that NewUsers holds out.
const outShare = 0.2

// holdOut draws the users held out of training.
func (s *Split) holdOut() { s.heldOut = s.draws(outShare) }

// NewUsers returns, for each user, whether it is held out of training and measured separately; nil without
// such users.
func (s *Split) NewUsers() []bool { return s.newUsers }

// draws marks a share of the users, at least one of them.
func (s *Split) draws(share float64) []bool {
	ids := make([]uint32, s.Users())
	for u := range ids {
		ids[u] = uint32(u)
	}
	r := rng.New(s.Seed, rng.HeldUsers)
	r.Shuffle(ids)
	out := make([]bool, len(ids))
	for _, u := range ids[:drawnUsers(share, len(ids))] {
		out[u] = true
	}
	return out
}

// TrainingUsers returns how many of the users take part in training.
func (p Protocol) TrainingUsers(users int) int {
	share := p.NewUserShare
	if p.Split == NewUsers {
		share = outShare
	}
	if share <= 0 || users == 0 {
		return users
	}
	return users - drawnUsers(share, users)
}

// drawnUsers is the number of users of a share, at least one.
func drawnUsers(share float64, users int) int { return max(1, int(share*float64(users))) }

// HeldOut returns, for each user, whether the protocol holds it out; nil if all users take part.
func (s *Split) HeldOut() []bool { return s.heldOut }

// number sets the numbers of the rows of Train, if asked for.
func (p *Part) number(asked bool) {
	p.Rows, p.Query, p.QueryRows = nil, nil, nil
	if !asked {
		return
	}
	p.numbers = p.numbers[:0]
	for k := range p.history.Items {
		p.numbers = append(p.numbers, uint32(p.history.First+k))
	}
	p.Rows = p.numbers[:len(p.Train)]
}

// halve draws the half of a held-out user's rows that its device learns from. The paper (Wang et al.) says "evenly
// split" without details: we draw at random, and a repeated row may be in both halves.
func (s *Split) halve(u int, p *Part) {
	n := len(p.history.Items)
	p.drawn = p.drawn[:0]
	for k := range uint32(n) {
		p.drawn = append(p.drawn, k)
	}
	r := rng.New(s.Seed, rng.HeldRows, uint64(u))
	r.Shuffle(p.drawn)
	for i, list := range [][]uint32{p.drawn[:n/2], p.drawn[n/2:]} {
		slices.Sort(list)
		h := &p.halves[i]
		h.items, h.rows, h.rating = h.items[:0], h.rows[:0], h.rating[:0]
		for _, k := range list {
			h.items = append(h.items, p.history.Items[k])
			if p.Rows != nil {
				h.rows = append(h.rows, p.Rows[k])
			}
			if p.Rating != nil {
				h.rating = append(h.rating, p.Rating[k])
			}
		}
	}
	own, query := &p.halves[0], &p.halves[1]
	p.Train, p.Query = own.items, query.items
	if p.Rows != nil {
		p.Rows, p.QueryRows = own.rows, query.rows
	}
	if p.Rating != nil {
		p.Rating = own.rating
	}
}

// HeldOutRows returns the items of all validation and test rows of the user; Valid and Test are the first of each.
func (p *Part) HeldOutRows() (valid, test []uint32) {
	if p.HeldOut {
		return nil, p.Query
	}
	return p.Later, p.history.Items[len(p.Train)+len(p.Later):]
}

// Seen returns every item of the user, held out or not.
func (p *Part) Seen() []uint32 { return p.history.Items }
