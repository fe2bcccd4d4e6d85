package sim

import (
	"errors"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// pooled holds the samples of all users, for a Central method.
type pooled struct {
	method.Pool
	drawn [][]drawn // by shard
	all   []drawn
}

type drawn struct {
	user, raw uint32
	row       uint32 // of the interaction, if interactions have features
	rating    float32
}

// mostPooled bounds the samples of one pass.
const mostPooled = 128 << 20 // 40 bytes each

// newPooled refuses options that only a federation has.
func newPooled(f *devices, total int) (*pooled, error) {
	o := &f.opt
	switch {
	case o.partial() || o.Straggle > 0 || o.Mean != "cohort" || textOf(o.Server) != "sgd:1" || o.Noise.On():
		return nil,
			errors.New("this method is trained in one place: omit cohort, dropout, straggle, mean, server and " +
				"noise")
	case f.load == nil || f.plan.MaxSamples(total) > mostPooled:
		return nil, errors.New("this method is trained in one place, and its samples do not fit in memory; use fewer " +
			"users")
	}
	p := &pooled{Pool: method.Pool{
		Rounds: o.Rounds, BatchSize: o.Batch, Features: f.plan.Features,
		Stride: make([]int, len(f.plan.Slots)),
	}}
	for i := range f.plan.Slots {
		p.Value = append(p.Value, f.mem.Value(i))
		p.Stride[i] = vec.Pad(f.plan.Slots[i].Dim)
	}
	return p, nil
}

// pass draws the samples of all users as their devices would, shuffles them and trains on them
// sequentially.
func (f *devices) pass(c method.Central, t int) round.Report {
	p := f.pooled
	p.drawn = slices.Grow(p.drawn[:0], len(f.deal))[:len(f.deal)]
	f.each(len(f.deal), func(l *lane, shard int) {
		list := p.drawn[shard][:0]
		for _, u := range f.deal[shard] {
			list = f.draw(l, int(u), t, list)
		}
		p.drawn[shard] = list
	})
	p.all = p.all[:0]
	var rep round.Report
	for _, list := range p.drawn {
		p.all = append(p.all, list...)
	}
	for _, l := range f.lanes {
		rep.Devices += l.rep.Devices
		rep.Idle += l.rep.Idle
	}
	r := rng.New(f.plan.Seed, rng.Pooled, uint64(t))
	for i := len(p.all) - 1; i > 0; i-- {
		j := r.Uint32n(uint32(i + 1))
		p.all[i], p.all[j] = p.all[j], p.all[i]
	}
	n := len(p.all)
	p.User, p.Item = resize(p.User, n), resize(p.Item, n)
	p.Y, p.Rating = resize(p.Y, n), resize(p.Rating, n)
	for x, d := range p.all {
		p.User[x], p.Item[x] = d.user, d.raw&^vec.Positive
		p.Y[x], p.Rating[x] = float32(d.raw>>31), d.rating
	}
	if f.plan.Features != nil && len(f.plan.Features.Row) > 0 {
		p.Row = resize(p.Row, n)
		for x, d := range p.all {
			p.Row[x] = d.row
		}
	}
	p.Round, p.WantLoss, p.Loss, p.LossN = t, f.loss, 0, 0
	c.Pass(&p.Pool)
	rep.Samples, rep.Loss, rep.LossN = n, p.Loss, p.LossN
	return rep
}

// draw appends the samples of user u.
func (f *devices) draw(l *lane, u, t int, list []drawn) []drawn {
	f.open(l, u, t)
	raws := l.DrawSamples(&l.task)
	if len(raws) == 0 {
		l.rep.Idle++
		return list
	}
	l.rep.Devices++
	if l.task.Rating != nil && len(l.rating) < f.split.Items() {
		l.rating = make([]float32, f.split.Items())
	}
	for x, item := range l.task.Train {
		if l.task.Rating != nil {
			l.rating[item] = l.task.Rating[x]
		}
	}
	at := l.DrawnInteractions()
	for x, raw := range raws {
		d := drawn{user: uint32(u), raw: raw, rating: float32(raw >> 31)}
		if at != nil {
			d.row = at[x]
		}
		if l.task.Rating != nil && raw&vec.Positive != 0 {
			d.rating = l.rating[raw&^vec.Positive]
		}
		list = append(list, d)
	}
	return list
}

func resize[T any](xs []T, n int) []T {
	if cap(xs) < n {
		return make([]T, n)
	}
	return xs[:n]
}
