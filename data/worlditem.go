package data

import (
	"math"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// dim is the number of taste dimensions.
const dim = 8

type vector [dim]float32

// dot rounds each product and has a fixed tree of sums: the same bits everywhere.
func (a *vector) dot(b *vector) float32 {
	return (float32(a[0]*b[0]) + float32(a[1]*b[1]) + (float32(a[2]*b[2]) + float32(a[3]*b[3]))) +
		(float32(a[4]*b[4]) + float32(a[5]*b[5]) + (float32(a[6]*b[6]) + float32(a[7]*b[7])))
}

// blend is a·x + b·y.
func blend(a float32, x *vector, b float32, y *vector) (z vector) {
	for k := range z {
		z[k] = float32(a*x[k]) + float32(b*y[k])
	}
	return z
}

// unit scales v to length one.
func (v *vector) unit() {
	n := math.Sqrt(float64(v.dot(v)))
	for k := range v {
		v[k] = float32(float64(v[k]) / n)
	}
}

// noise is a vector whose length is about one.
func noise(r *rng.Rand) (v vector) {
	for k := range v {
		v[k] = float32(bell(r) * (1 / math.Sqrt2 / 2))
	}
	return v
}

// bell is close to standard normal: the sum of four uniform 16-bit numbers.
func bell(r *rng.Rand) float64 {
	x := r.Uint64()
	s := int(x&0xffff) + int(x>>16&0xffff) + int(x>>32&0xffff) + int(x>>48)
	return float64(s-2*0xffff) / 37837.5 // the standard deviation of the sum
}

const (
	day        = 24 * 60 * 60
	worldStart = 1672531200 // 2023-01-01T00:00:00Z
	worldSpan  = 730 * day  // users join and films come out in this time

	// The film of rank k, from 0, has the popularity (k + 1 + zipfShare·items)^-zipfPower.
	zipfPower  = 1.3
	zipfShare  = 0.005
	itemSpread = 0.35 // how far a film is from its genres
	second     = 0.35 // share of films with a second genre
)

// genreTaste is the vector of each genre. It is the same in all worlds, so that they are equally hard; some genres
// are near each other.
var genreTaste = [len(genreNames)]vector{
	{9, 1, 0, 2, 0, 0, 0, 0},     // Drama
	{1, 9, 0, 2, 0, 0, 0, 1},     // Comedy
	{1, 0, 9, 0, 3, 2, 1, 0},     // Thriller
	{4, 3, 0, 8, 0, 0, 0, 1},     // Romance
	{0, 1, 4, 0, 8, 0, 2, 0},     // Action
	{3, 0, 6, 0, 2, 0, -5, 0},    // Crime
	{0, 0, 1, -3, 4, 1, 7, 3},    // Science Fiction
	{0, 1, 0, 1, 5, -1, 1, 7},    // Adventure
	{-1, 0, 4, -2, 0, 9, 1, 0},   // Horror
	{0, 0, -1, 2, 0, 3, 4, 8},    // Fantasy
	{7, 0, 0, -6, -2, -3, 1, -1}, // Documentary
	{2, -1, 1, 0, 5, -4, -5, 4},  // Western
}

// genreShare is how common each genre is.
var genreShare = [len(genreNames)]uint32{20, 16, 11, 9, 9, 8, 7, 6, 5, 4, 3, 2}

func drawGenre(r *rng.Rand) int {
	total := uint32(0)
	for _, s := range genreShare {
		total += s
	}
	x := r.Uint32n(total)
	for g, s := range genreShare {
		if x < s {
			return g
		}
		x -= s
	}
	return 0
}

// makeItems draws genres, vectors, release dates, titles and popularities.
func (w *World) makeItems() {
	n := w.cfg.Items
	for g := range w.centre {
		w.centre[g] = genreTaste[g]
		w.centre[g].unit()
	}
	w.item = make([]vector, n)
	w.release = make([]int32, n)
	var names *namer
	if n <= maxTitled {
		names = newNamer(n)
		w.info.Title = make([]string, n)
		w.info.Genres = make([][]string, n)
	}
	for i := range n {
		r := rng.New(w.cfg.Seed, rng.WorldItem, 0, uint64(i))
		g := drawGenre(&r)
		v, h := w.centre[g], g
		if r.Float64() < second {
			if h = drawGenre(&r); h != g {
				v = blend(0.7, &w.centre[g], 0.5, &w.centre[h])
				v.unit()
			}
		}
		e := noise(&r)
		w.item[i] = blend(1, &v, itemSpread, &e)
		// Exactly three in ten are released later, so that a small world has films on its first day.
		if i%10 < 3 {
			w.release[i] = int32(r.Uint32n(worldSpan))
		}
		if names != nil {
			w.info.Title[i] = names.title(&r, g, w.release[i])
			w.info.Genres[i] = genrePair(g, h)
		}
	}
	w.makeAlias()
	if names != nil {
		w.info.Features.Item = genreColumns(w.info.Genres)
	}
}

// makeAlias assigns the ranks of a Zipf law to the films and builds the alias table that draws from it in constant
// time (Vose 1991).
func (w *World) makeAlias() {
	n := w.cfg.Items
	place := make([]uint32, n)
	for i := range place {
		place[i] = uint32(i)
	}
	r := rng.New(w.cfg.Seed, rng.WorldItem, 1)
	r.Shuffle(place)
	p := make([]float64, n)
	sum := 0.0
	for i, k := range place {
		p[i] = exp(float64(-zipfPower * rng.Log(float64(k)+1+float64(zipfShare*float64(n)))))
		sum += p[i]
	}
	w.cut, w.alt = make([]uint32, n), make([]uint32, n)
	small, large := place[:0], make([]uint32, 0, n) // place is no longer needed
	for i := range p {
		p[i] = float64(p[i]*float64(n)) / sum
		if p[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		w.cut[s], w.alt[s] = uint32(p[s]*0x1p32), l
		if p[l] -= 1 - p[s]; p[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) {
		w.cut[i], w.alt[i] = math.MaxUint32, i
	}
}

// popular draws a film by popularity.
func (w *World) popular(r *rng.Rand) uint32 {
	x := r.Uint64()
	i := uint32(x >> 32 * uint64(len(w.cut)) >> 32)
	if uint32(x) < w.cut[i] {
		return i
	}
	return w.alt[i]
}

// exp is e^x for x from -700 to 700, with the same bits on every platform, which math.Exp does not guarantee.
func exp(x float64) float64 {
	const hi, lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // ln 2 in two parts
	k := math.Floor(float64(x/math.Ln2) + 0.5)
	r := x - float64(k*hi) - float64(k*lo)
	s := 1.0
	for n := 16; n >= 1; n-- {
		s = 1 + float64(s*r)/float64(n)
	}
	return math.Ldexp(s, int(k))
}
