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
		return "the protocol ranks sampled candidates only, so nobody has a list"
	}
	places, n := make([]int, len(f.counts)), 0
	for _, i := range top {
		if i != metrics.None {
			places[i]++
			n++
		}
	}
	if n == 0 {
		return "nobody has a list"
	}
	p := &result.Popularity{
		Coverage: result.SixDigits(metrics.Coverage(top, len(f.counts))),
		Gini:     result.SixDigits(gini(places)), GiniData: result.SixDigits(gini(f.counts)),
	}
	const per = 10 // the length of a list
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

// title is how an item is shown: a data set may hold anything.
func (f *figures) title(i uint32) string {
	r := []rune(f.split.Info().ItemName(int(i)))
	return string(r[:min(len(r), 80)])
}

// gini is 0 where all are equal, and 1 where one has all.
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
