package data

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// scratch is the memory for generating users.
type scratch struct {
	items []uint32
	times []int64
	seen  []uint64 // a bit per item, all clear between users
}

const (
	rowSpread   = 0.8  // of the logarithm of the number of rows
	tasteSpread = 0.35 // how far a taste is from its genres
	maxTries    = 64   // draws for one row; then the best one is taken

	// A film is taken with the chance floor + (1-floor)·sigmoid(slope·(affinity - middle)).
	acceptFloor  = 0.003
	acceptSlope  = 13
	acceptMiddle = 0.78

	acceptBins = 512
	acceptSpan = 2 // affinities beyond ±acceptSpan count as such
)

func (w *World) makeAccept() {
	for b := range w.accept {
		x := float64((float64(b)+0.5)*(2*acceptSpan)/acceptBins) - acceptSpan
		p := acceptFloor + (1-acceptFloor)/(1+exp(float64(-acceptSlope*(x-acceptMiddle))))
		w.accept[b] = uint32(p * math.MaxUint32)
	}
}

func (w *World) chance(affinity float32) uint32 {
	b := int((affinity + acceptSpan) * (acceptBins / (2 * acceptSpan)))
	return w.accept[min(max(b, 0), acceptBins-1)]
}

// History generates user u's rows. It allocates only if h is too small, and never writes to slices that another
// source put into h.
func (w *World) History(u int, h *History) {
	if uint(u) >= uint(w.cfg.Users) {
		panic("data: World.History: user out of range")
	}
	if h.own == nil {
		h.own = new(scratch)
	}
	s := h.own
	s.items, s.times = s.items[:0], s.times[:0]
	if words := (w.cfg.Items + 63) / 64; len(s.seen) < words {
		s.seen = make([]uint64, words)
	}
	r := rng.New(w.cfg.Seed, rng.WorldUser, uint64(u))
	rows := w.rows(&r)
	from, to := w.tastes(&r)
	now := int64(r.Uint32n(worldSpan))
	for k := range rows {
		moved := float32(float64(w.cfg.Drift*float64(k)) / float64(rows-1))
		taste := blend(1-moved, &from, moved, &to)
		i := w.draw(&r, &taste, now, s.seen)
		s.seen[i/64] |= 1 << (i % 64)
		s.items = append(s.items, i)
		s.times = append(s.times, worldStart+now)
		now += pause(&r)
	}
	for _, i := range s.items {
		s.seen[i/64] = 0
	}
	h.Items, h.Values, h.Times = s.items, nil, s.times
}

// rows is 5 plus a log-normal number, at most half of the items.
func (w *World) rows(r *rng.Rand) int {
	z := float64(rowSpread*bell(r)) - rowSpread*rowSpread/2
	n := 5 + int(float64(float64(w.cfg.MeanRows-5)*exp(z))+0.5)
	return min(n, w.cfg.Items/2)
}

// tastes are a user's taste at the start and the end of its history: different genres with the same noise.
func (w *World) tastes(r *rng.Rand) (from, to vector) {
	from, to = w.taste(r), w.taste(r)
	own := noise(r)
	from = blend(1, &from, tasteSpread, &own)
	to = blend(1, &to, tasteSpread, &own)
	from.unit()
	to.unit()
	return from, to
}

// taste mixes two or three genres.
func (w *World) taste(r *rng.Rand) vector {
	v := w.centre[drawGenre(r)]
	for range 1 + r.Uint32n(2) {
		v = blend(1, &v, 0.5+float32(r.Float64()*0.5), &w.centre[drawGenre(r)])
	}
	v.unit()
	return v
}

// draw picks a released film that the user has not seen.
func (w *World) draw(r *rng.Rand, taste *vector, now int64, seen []uint64) uint32 {
	best, most, found := uint32(0), float32(0), false
	for range maxTries {
		i := w.popular(r)
		if !w.free(i, now, seen) {
			continue
		}
		a := taste.dot(&w.item[i])
		if uint32(r.Uint64()>>32) < w.chance(a) {
			return i
		}
		if !found || a > most {
			best, most, found = i, a, true
		}
	}
	if found {
		return best
	}
	// More than half of the films are released at the start and a user sees at most half, so one remains.
	n := uint32(w.cfg.Items)
	for i := r.Uint32n(n); ; i = (i + 1) % n {
		if w.free(i, now, seen) {
			return i
		}
	}
}

func (w *World) free(i uint32, now int64, seen []uint64) bool {
	return seen[i/64]>>(i%64)&1 == 0 && int64(w.release[i]) <= now
}

// pause is the time to the next row: minutes within a session, otherwise hours to days, both exponential.
func pause(r *rng.Rand) int64 {
	mean := 40 * 60.0
	if r.Uint32n(4) == 0 {
		mean = 2 * day
	}
	return 60 + int64(-mean*rng.Log(1-float64(r.Float64())))
}
