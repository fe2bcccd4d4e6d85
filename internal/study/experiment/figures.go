package experiment

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/figure"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// quietTime is how long figures may take before an event names them.
const quietTime = 2 * time.Second

// Limits of the figures of a run. They depend on the data and the method and not on a clock, so that
// the figures are the same on any machine.
const (
	mapItems       = 1000      // most popular items in the maps
	mapSteps       = 250       // steps of t-SNE
	mapPerplexity  = 30        // of t-SNE
	spectrumRows   = 4000      // rows of an item table
	spectrumDims   = 256       // wider tables have no spectrum
	spectrumRounds = 10        // rounds with a spectrum; fewer for wide tables
	inferUsers     = 500       // users that compare the three tables
	countUsers     = 20_000    // users whose rows count for popularity
	manyUsers      = 200_000   // data with more users has no figures of devices
	landscapeWork  = 4e9       // multiplications, approximately
	landscapeWide  = 2_000_000 // number of shared parameters above which the grid is coarse
	landscapeMost  = 20_000_000
)

// figures computes the figures of one run. Its time does not count as time of the run.
type figures struct {
	job    *Job
	run    *sim.Run
	split  *data.Split
	counts []int    // training rows by item
	order  []uint32 // items by popularity
	spent  time.Duration
}

func (j *Job) figures(run *sim.Run, split *data.Split) *figures {
	if !j.Figures || j.Out == "" {
		return nil
	}
	start := time.Now()
	f := &figures{job: j, run: run, split: split, counts: sim.Popularity(split, countUsers)}
	f.order = make([]uint32, len(f.counts))
	for i := range f.order {
		f.order[i] = uint32(i)
	}
	slices.SortStableFunc(f.order, func(a, b uint32) int { return f.counts[b] - f.counts[a] })
	f.spent = time.Since(start)
	return f
}

// elapsed returns the time that the figures took so far.
func (f *figures) elapsed() time.Duration {
	if f == nil {
		return 0
	}
	return f.spent
}

// table returns the current shared item table.
func (f *figures) table() (slot int, t figure.Rows, ok bool) {
	slot, dim, ok := f.run.ItemTable()
	if !ok || dim > spectrumDims {
		return 0, t, false
	}
	v, n := f.run.Value(slot), f.split.Items()
	return slot, figure.Rows{N: n, Dim: dim, Stride: len(v) / n, Data: v}, true
}

// spectra measures the item table in the first round and in evenly spaced rounds.
func (f *figures) spectra(round int) []result.Spectrum {
	if f == nil {
		return nil
	}
	start := time.Now()
	defer func() { f.spent += time.Since(start) }()
	_, t, ok := f.table()
	if !ok {
		return nil
	}
	times := spectrumRounds
	if t.Dim > 64 {
		times = 4
	}
	all := f.run.Rounds
	if round != 1 && round*times/all == (round-1)*times/all {
		return nil
	}
	var every, trained []uint32
	for i := range uint32(t.N) {
		every = append(every, i)
		if f.counts[i] > 0 {
			trained = append(trained, i)
		}
	}
	some := t.Pick(evenly(trained, spectrumRows))
	var out []result.Spectrum
	for _, p := range []struct {
		of   string
		rows figure.Rows
	}{{"all", t.Pick(evenly(every, spectrumRows))}, {"trained", some}, {"unit", some.Unit()}} {
		s := figure.SpectrumOf(p.rows)
		one := result.Spectrum{
			Of: p.of, Rows: s.Rows, EffectiveRank: result.SixDigits(s.EffectiveRank),
			Abundance: result.SixDigits(s.Abundance), Participation: result.SixDigits(s.Participation),
		}
		for _, x := range s.Singular {
			one.Singular = append(one.Singular, result.SixDigits(x))
		}
		out = append(out, one)
	}
	return out
}

// evenly returns at most n evenly spaced elements of xs.
func evenly[T any](xs []T, n int) []T {
	if len(xs) <= n {
		return xs
	}
	out := make([]T, n)
	for i := range out {
		out[i] = xs[i*len(xs)/n]
	}
	return out
}

// users returns at most n evenly spaced users.
func (f *figures) users(n int) []int {
	all := make([]int, f.split.Users())
	for i := range all {
		all[i] = i
	}
	return evenly(all, n)
}

// compute computes the figures of a finished run.
func (f *figures) compute(ctx context.Context) (*result.Figures, error) {
	if f == nil {
		return nil, nil
	}
	start := time.Now()
	out := &result.Figures{Schema: result.Schema, Missing: map[string]string{}}
	for _, step := range []struct {
		key, name string
		do        func(context.Context, *result.Figures) string
	}{
		{"popularity", "popularity and coverage", f.popularity},
		{"inference", "the three tables", f.inference},
		{"items", "the map of items", f.items},
		{"landscape", "the loss landscape", f.landscape},
	} {
		reported := make(chan struct{})
		slow := time.AfterFunc(quietTime-time.Since(start), func() {
			defer close(reported)
			f.job.OnEvent(FigureStarted{step.name})
		})
		if why := step.do(ctx, out); why != "" {
			out.Missing[step.key] = why
		}
		if !slow.Stop() {
			<-reported // one event at a time
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	out.Seconds = result.SixDigits((f.spent + time.Since(start)).Seconds())
	return out, nil
}

// ofTables returns the metrics of ranks of a comparison.
func (f *figures) ofTables(c *sim.TableComparison, ranks []metrics.Rank) metrics.Metrics {
	if c.Start != nil {
		return metrics.OfTogether(ranks, c.Start, f.run.TieRule())
	}
	return metrics.Of(ranks, f.run.TieRule())
}

func (f *figures) inference(_ context.Context, out *result.Figures) string {
	if !f.run.HasTunedTables() {
		return "devices do not recommend with their own item tables"
	}
	if f.split.Users() > manyUsers {
		return "too many users"
	}
	users := f.users(inferUsers)
	got := f.run.CompareTables(users)
	of := func(p []metrics.Rank) [2]float64 {
		m := f.ofTables(got, p)
		return [2]float64{result.SixDigits(m.HR10()), result.SixDigits(m.NDCG10())}
	}
	out.Inference = &result.Inference{
		Users: f.ofTables(got, got.Own).Users, Own: of(got.Own),
		Base: of(got.Global),
	}
	if got.Random != nil {
		o := of(got.Random)
		out.Inference.Other = &o
	}
	return ""
}

// items computes the maps of the most popular items, for the device with the median number of rows.
func (f *figures) items(ctx context.Context, out *result.Figures) string {
	slot, table, ok := f.table()
	switch {
	case !ok:
		return "the method shares no item table, or a too wide one"
	case f.split.Users() > manyUsers:
		return "too many users"
	}
	sight := f.run.Inspect(f.median(), slot)
	ids := f.order[:min(mapItems, len(f.order))]
	m := &result.ItemMap{Catalogue: table.N, Dim: table.Dim, User: f.split.Info().UserName(sight.User)}
	kind := map[uint32]string{}
	for _, list := range []struct {
		kind  string
		items []uint32
	}{{"negative", sight.Drawn}, {"train", sight.Train}} {
		for _, i := range list.items {
			kind[i] = list.kind
		}
	}
	if sight.Valid != data.None {
		kind[uint32(sight.Valid)] = "valid"
	}
	if sight.Test != data.None {
		kind[uint32(sight.Test)] = "test"
	}
	for _, i := range ids {
		one := result.MapItem{
			Item: int(i), Title: f.title(i), Rows: f.counts[i], Kind: kind[i],
			Global: result.SixDigits(float64(sight.Global[i])),
		}
		if sight.Own != nil {
			own := result.SixDigits(float64(sight.Own[i]))
			one.Own = &own
		}
		m.Items = append(m.Items, one)
	}
	tables, names := []figure.Rows{table.Pick(ids)}, []string{"coordinator"}
	if sight.Table != nil {
		own := table
		own.Data = sight.Table
		tables, names = append(tables, own.Pick(ids)), append(names, "device")
	}
	m.Maps = make([]result.Projection, 2*len(tables))
	var wg sync.WaitGroup
	for k, t := range tables {
		wg.Go(func() {
			xy, shares := figure.PCA(t)
			m.Maps[2*k] = result.Projection{Table: names[k], Kind: "pca", Shares: &shares, XY: shortened(xy)}
			xy = figure.TSNE(t, mapPerplexity, mapSteps, f.run.Seed, func() bool { return ctx.Err() != nil })
			m.Maps[2*k+1] = result.Projection{Table: names[k], Kind: "tsne", XY: shortened(xy)}
		})
	}
	wg.Wait()
	out.Items = m
	return ""
}

func shortened(xy [][2]float64) [][2]float64 {
	for i := range xy {
		xy[i] = [2]float64{result.SixDigits(xy[i][0]), result.SixDigits(xy[i][1])}
	}
	return xy
}

// median returns the user with the median number of training rows among those with a test item.
func (f *figures) median() int {
	type user struct{ u, rows int }
	var all []user
	var p data.Part
	for u := range min(f.split.Users(), countUsers) {
		if f.split.User(u, &p); p.Test != data.None {
			all = append(all, user{u, len(p.Train)})
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.SortStableFunc(all, func(a, b user) int { return a.rows - b.rows })
	return all[len(all)/2].u
}
