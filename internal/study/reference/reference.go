// Package reference measures the reference rows of every report: popularity, the centralised closed-form
// model EASE, local-only training, and the memoriser, a scorer without a model that shows what a
// protocol leaks. Reference rows are not federated, and their time never counts as time of a run.
package reference

import (
	"context"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// Names lists the reference rows in the order of reports.
var Names = []string{"popularity", "ease", "local", "memoriser"}

// Row is a measured reference row.
type Row struct {
	Valid, Test *metrics.Summary // nil if the row was not measured
	New         *metrics.Summary // test metrics of cold-start users; nil without any
	Reason      string           // why the row was not measured
	About       string
	Seconds     float64
	// Sampled and Full are the test metrics per user. Full is empty if the protocol does not rank the
	// full catalogue.
	Sampled, Full metrics.PerUser
}

// Config says what to measure.
type Config struct {
	Split     *data.Split
	Rounds    int // that the memoriser observes
	Negatives int
	Seed      uint64
	Ties      metrics.Ties
	EvalUsers int // 0 for all
	Jobs      int
	Cache     *Cache // shared by rows of the same data; may be nil
	// OnProgress receives progress events, from any goroutine; may be nil.
	OnProgress func(Progress)
}

// Progress is a progress event of a reference row.
type Progress struct{ Done, Users int }

// Cache holds the item-item weights of the data set that was measured last. They depend only on the
// training rows, so the seeds of a run share them.
type Cache struct {
	of      string
	weights []float32
}

// Limits of the reference rows.
const (
	EASEItems   = 6000
	easeLambda  = 300
	LocalRounds = 60
	LocalUsers  = 2000 // at most, because each is trained separately
)

// Compute measures one reference row.
func Compute(ctx context.Context, name string, c Config) (Row, error) {
	start := time.Now()
	if _, in := c.Split.Source.(*data.Set); !in {
		return Row{Reason: "the data is generated user by user and not held in memory"}, nil
	}
	var row Row
	var fresh func() sim.Scorer
	users := c.EvalUsers
	switch name {
	case "popularity":
		row.About = "number of training rows of an item, over all users"
		p := popularity(c.Split)
		fresh = func() sim.Scorer { return p }
	case "ease":
		if n := c.Split.Items(); n > EASEItems {
			return Row{Reason: fmt.Sprintf("%d items exceed the limit of %d for a dense item-item matrix", n,
					EASEItems)},
				nil
		}
		row.About = fmt.Sprintf("EASE (Steck 2019), centralised, lambda %d, not tuned", easeLambda)
		b, err := c.Cache.ease(c.Split)
		if err != nil {
			return Row{Reason: err.Error()}, nil
		}
		fresh = func() sim.Scorer { return &easeScorer{b: b, items: c.Split.Items()} }
	case "local":
		row.About = fmt.Sprintf("PFedRec's model trained on each device alone, %d rounds, nothing shared", LocalRounds)
		if all := c.Split.Users(); all > LocalUsers && (users == 0 || users > LocalUsers) {
			users = LocalUsers
			row.About += fmt.Sprintf(", measured on %d of %d users", users, all)
		}
		plan, err := localPlan(c)
		if err != nil {
			return Row{}, err
		}
		fresh = func() sim.Scorer { return newLocal(plan, c.Split) }
	case "memoriser":
		row.About = fmt.Sprintf("no model: minus the number of times an item was drawn as a negative in %d rounds; "+
			"ties count by their expectation", c.Rounds)
		c.Ties = metrics.Expected // most items tie; counting ties as losses would put it below chance
		plan, err := localPlan(c)
		if err != nil {
			return Row{}, err
		}
		fresh = func() sim.Scorer { return newMemoriser(plan, c) }
	default:
		return Row{}, fmt.Errorf("unknown reference row %q", name)
	}
	places, err := sim.Evaluate(ctx, c.Split, users, c.Jobs, fresh, c.tell())
	if err != nil {
		return Row{}, err
	}
	valid, test := places.Summaries(c.Ties, c.Split.Items())
	row.Valid, row.Test = &valid, &test
	if _, fresh := places.NewUsers(c.Ties, c.Split.Items()); fresh.Sampled != nil {
		row.New = &fresh
	}
	row.Sampled, row.Full = places.PerUser(c.Ties)
	row.Seconds = time.Since(start).Seconds()
	return row, nil
}

func (c Config) tell() func(int) {
	if c.OnProgress == nil {
		return nil
	}
	return func(done int) { c.OnProgress(Progress{done, c.Split.Users()}) }
}

// popular scores items by their number of training rows, for all users alike.
type popular []float32

func popularity(s *data.Split) popular {
	out := make(popular, s.Items())
	var p data.Part
	for u := range s.Users() {
		if s.User(u, &p); p.New {
			continue
		}
		for _, i := range p.Train {
			out[i]++
		}
	}
	return out
}

func (p popular) For(int, *data.Part) {}

func (p popular) Score(items []uint32, dst []float32) { pick(p, items, dst) }

func (p popular) ScoreAll(dst []float32) { copy(dst, p) }

func pick(all []float32, items []uint32, dst []float32) {
	for x, i := range items {
		dst[x] = all[i]
	}
}

// localPlan returns the plan of the local method with the sampling of the run.
func localPlan(c Config) (*local.Plan, error) {
	m := &methods.Local{}
	param.Defaults(m)
	return local.NewPlan(m, local.Options{
		Items: c.Split.Items(), Rounds: LocalRounds, Batch: 256, Negatives: c.Negatives, Seed: c.Seed,
	})
}

// task returns the local training task of a user under the split.
func task(s *data.Split, u int, p *data.Part) local.Task {
	return local.Task{Device: uint32(u), Train: p.Train, Hide: s.Hidden(p)}
}

// localOnly trains each user from initial parameters and scores with the result.
type localOnly struct {
	*local.Worker
	mem   *local.Memory
	split *data.Split
}

func newLocal(p *local.Plan, s *data.Split) *localOnly {
	m, err := local.NewMemory(p, 1, 1)
	if err != nil {
		panic(err) // one shard of a catalogue in memory cannot fail
	}
	return &localOnly{local.NewWorker(m, 0), m, s}
}

func (l *localOnly) For(u int, p *data.Part) {
	st := l.mem.NewState(nil)
	t := task(l.split, u, p)
	for t.Round = range LocalRounds {
		l.Visit(&st, &t, local.NotCounted, false)
	}
	l.Prepare(&st, &t)
}

// memoriser scores items by how rarely they were drawn as negatives. Under a leaking protocol the
// held-out item is never drawn and ranks first.
type memoriser struct {
	*local.Worker
	c     Config
	count []float32
}

func newMemoriser(p *local.Plan, c Config) *memoriser {
	m, err := local.NewMemory(p, 1, 1)
	if err != nil {
		panic(err) // as above
	}
	return &memoriser{local.NewWorker(m, 0), c, make([]float32, c.Split.Items())}
}

func (m *memoriser) For(u int, p *data.Part) {
	clear(m.count)
	t := task(m.c.Split, u, p)
	for t.Round = range m.c.Rounds {
		for _, raw := range m.DrawSamples(&t) {
			if raw&vec.Positive == 0 {
				m.count[raw]--
			}
		}
	}
}

func (m *memoriser) Score(items []uint32, dst []float32) { pick(m.count, items, dst) }

func (m *memoriser) ScoreAll(dst []float32) { copy(dst, m.count) }
