package experiment

import (
	"context"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
)

func (f *figures) popularity(_ context.Context, out *result.Figures) string {
	top := f.run.Best.Top
	if top == nil {
		return "the protocol ranks sampled candidates only"
	}
	places, n := make([]int, len(f.counts)), 0
	for _, i := range top {
		if i != metrics.None {
			places[i]++
			n++
		}
	}
	if n == 0 {
		return "no user was ranked"
	}
	p := &result.Popularity{
		Coverage: result.SixDigits(metrics.Coverage(top, len(f.counts))),
		Gini:     result.SixDigits(gini(places)), GiniData: result.SixDigits(gini(f.counts)),
	}
	const per = 10 // items of a list
	for u := range len(top) / per {
		if top[u*per] != metrics.None {
			p.Users++
		}
	}
	total := 0
	for _, c := range f.counts {
		total += c
	}
	p.Data, p.Recommended = make([]float64, 10), make([]float64, 10)
	held, tail := 0, n
	for at, i := range f.order {
		tenth := at * 10 / len(f.order)
		p.Data[tenth] += float64(f.counts[i]) / float64(max(total, 1))
		p.Recommended[tenth] += float64(places[i]) / float64(n)
		if 10*held < 8*total {
			p.HeadItems++
			held += f.counts[i]
			tail -= places[i]
		}
	}
	for k := range p.Data {
		p.Data[k], p.Recommended[k] = result.SixDigits(p.Data[k]), result.SixDigits(p.Recommended[k])
	}
	p.TailShare = result.SixDigits(float64(tail) / float64(n))
	most := slices.Clone(f.order)
	slices.SortStableFunc(most, func(a, b uint32) int { return places[b] - places[a] })
	for _, i := range most[:min(8, len(most))] {
		p.Most = append(p.Most, result.TopItem{
			Title: f.title(i),
			Share: result.SixDigits(float64(places[i]) / float64(p.Users)), Rows: f.counts[i],
		})
	}
	out.Popularity = p
	return ""
}

// title returns the title of an item, cut to 80 characters: titles of a data set may be arbitrarily long.
func (f *figures) title(i uint32) string {
	r := []rune(f.split.Info().ItemName(int(i)))
	return string(r[:min(len(r), 80)])
}

// gini returns the Gini coefficient: 0 if all values are equal, 1 if one has everything.
func gini(xs []int) float64 {
	s := slices.Sorted(slices.Values(xs))
	total, weighted := 0.0, 0.0
	for i, x := range s {
		total += float64(x)
		weighted += float64(i+1) * float64(x)
	}
	if total == 0 || len(s) < 2 {
		return 0
	}
	n := float64(len(s))
	return (2*weighted/total - (n + 1)) / (n - 1)
}
