package bench

import (
	"context"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/naive"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Round is the time of a method's round on a data set: training only, from drawing samples to the server
// step.
type Round struct {
	Method  string  `json:"method"`
	Data    string  `json:"dataset"`
	Devices int     `json:"devices"`
	Samples int     `json:"samples"`
	Jobs    int     `json:"jobs"`
	MS      float64 `json:"ms_median"`
	Best    float64 `json:"ms_best"`
	// NaiveMS is the time of package naive on the same number of goroutines, whose rounds run between
	// ours; 0 if it was not run.
	NaiveMS float64 `json:"naive_ms,omitempty"`
	Naive   float64 `json:"times_naive,omitempty"`
}

// counts returns the numbers of goroutines to measure with: powers of two, and all.
func (c Config) counts() []int {
	var out []int
	for j := 1; j < c.Jobs; j *= 2 {
		out = append(out, j)
	}
	return append(out, c.Jobs)
}

func rounds(ctx context.Context, c Config, s Set) error {
	split, err := splitOf(s, "paper")
	if err != nil {
		return err
	}
	for _, e := range methods.Default().Entries() {
		for _, jobs := range c.counts() {
			if e.Name != "pfedrec" && jobs != c.Jobs || ctx.Err() != nil {
				continue // other methods scale alike
			}
			if c.Quick && !slices.Contains(quickMethods, e.Name) {
				continue
			}
			c.OnEvent(Measuring{s.Name + ": a round of " + e.Name})
			row, err := oneRound(ctx, c, split, e, jobs)
			if err != nil {
				return err
			}
			row.Data = s.Name
			c.add(func(r *Report) { r.Rounds = append(r.Rounds, row) })
		}
	}
	return ctx.Err()
}

func splitOf(s Set, protocol string) (*data.Split, error) {
	p, err := data.ProtocolNamed(protocol)
	if err != nil {
		return nil, err
	}
	return data.NewSplit(s.Source, p, 1)
}

func options(rounds, every int) sim.Options {
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery = rounds, every
	return o
}

func oneRound(ctx context.Context, c Config, split *data.Split, e method.Entry, jobs int) (Round, error) {
	const never = 1_000_000
	run, err := sim.New(e.Build(), split, options(never, never), 1, jobs)
	if err != nil {
		return Round{}, err
	}
	var slow *naive.Program
	if e.Name == "pfedrec" {
		slow = naive.New(split, 32, 1)
	}
	var fast, plain []float64
	row := Round{Method: e.Name, Jobs: jobs}
	repeats, least := 5, 3
	if c.Quick {
		repeats, least = 2, 1
	}
	if _, err := run.Step(ctx); err != nil { // the first round allocates
		return row, err
	}
	for range repeats {
		for end, n := time.Now().Add(c.span()), 0; n < least || time.Now().Before(end); n++ {
			ev, err := run.Step(ctx)
			if err != nil {
				return row, err
			}
			fast = append(fast, ev.TrainMS)
			row.Devices, row.Samples = ev.Devices, ev.Samples
		}
		if slow != nil {
			start := time.Now()
			slow.Round(jobs)
			plain = append(plain, float64(time.Since(start).Microseconds())/1000)
		}
	}
	row.MS, row.Best = median(fast), fast[0]
	for _, t := range fast {
		row.Best = min(row.Best, t)
	}
	if len(plain) > 0 {
		row.NaiveMS = median(plain)
		row.Naive = row.NaiveMS / row.MS
	}
	return row, nil
}

// Ranking is the time to rank the catalogue for all users of a data set, with their lists.
type Ranking struct {
	Data  string  `json:"dataset"`
	Users int     `json:"users"`
	Items int     `json:"items"`
	Jobs  int     `json:"jobs"`
	MS    float64 `json:"ms_median"`
}

func ranking(ctx context.Context, c Config, s Set) error {
	c.OnEvent(Measuring{s.Name + ": ranking the catalogue for every user"})
	split, err := splitOf(s, "deployed")
	if err != nil {
		return err
	}
	m := &methods.FedMF{}
	param.Defaults(m)
	run, err := sim.New(m, split, options(8, 1), 1, c.Jobs)
	if err != nil {
		return err
	}
	var times []float64
	for !run.Done() {
		ev, err := run.Step(ctx)
		if err != nil {
			return err
		}
		times = append(times, ev.EvalMS)
	}
	one := Ranking{Data: s.Name, Users: split.Users(), Items: split.Items(), Jobs: c.Jobs, MS: median(times)}
	c.add(func(r *Report) { r.Rankings = append(r.Rankings, one) })
	return nil
}

// Run is the time of a complete run: PFedRec for a hundred rounds, evaluated after each.
type Run struct {
	Data     string  `json:"dataset"`
	Protocol string  `json:"protocol"`
	Rounds   int     `json:"rounds"`
	Jobs     int     `json:"jobs"`
	Seconds  float64 `json:"seconds"`
	HR10     float64 `json:"hr@10"`
}

func wholeRun(ctx context.Context, c Config, s Set) error {
	n := 100
	if c.Quick {
		n = 10
	}
	c.OnEvent(Measuring{s.Name + ": a complete run of pfedrec"})
	split, err := splitOf(s, "paper")
	if err != nil {
		return err
	}
	m := &methods.PFedRec{}
	param.Defaults(m)
	start := time.Now()
	run, err := sim.New(m, split, options(n, 1), 1, c.Jobs)
	if err != nil {
		return err
	}
	for !run.Done() {
		if _, err := run.Step(ctx); err != nil {
			return err
		}
	}
	took := time.Since(start).Seconds()
	_, test := run.Best.Summaries(run.TieRule(), split.Items())
	one := Run{
		Data: s.Name, Protocol: split.Name, Rounds: n, Jobs: c.Jobs, Seconds: took, HR10: test.Sampled["hr@10"],
	}
	c.add(func(r *Report) { r.Runs = append(r.Runs, one) })
	return nil
}
