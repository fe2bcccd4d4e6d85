package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/vec"
)

// Run is one experiment: a method on a split. It is made by New, moved on by
// Step, and may be saved and loaded between steps.
type Run struct {
	Options
	Seed   uint64
	fleet  *fleet
	engine *round.Engine
	eval   *eval
	Best   *Ranks // of the selected round
	turn   bool   // the round in progress is evaluated
	Totals
}

// Totals is what a run has selected and counted so far. A checkpoint holds it: its JSON
// names are those of the first version.
type Totals struct {
	Selected int     // the best round, from 1; 0 before the first evaluation
	BestHR   float64 // its validation HR@10
	RoundMS  []float64
	Train    time.Duration
	Eval     time.Duration
	Total    time.Duration // wall time of training and evaluation, over all sessions
	Devices  int
	Samples  int
	Dropped  int
	Late     int
	Idle     int // in the last round
	Bytes    int
	Down     int       // bytes downloaded, if Encode is sparse
	TestBest *TestBest `json:"OnTest"` // nil if the protocol has validation items
	// rounds with too few devices, of which nothing was released
	Discarded int `json:"Kept"`
	// the round, from 1, that the budget does not cover; 0 for none
	BudgetEnd    int             `json:"Broke"`
	LedgerEvents []account.Event `json:"Paid"`              // the ledger when the checkpoint was saved
	Unevaluated  *Unevaluated    `json:"Pending,omitempty"` // the newest round, if its evaluation was interrupted
}

// Unevaluated is a round whose evaluation was interrupted. The next Step evaluates it, from
// the start.
type Unevaluated struct {
	Event     Event
	Discarded bool `json:"Kept"` // nothing of it was released
	Last      bool // the budget covers no further round
	Finite    bool `json:"Sane"` // all values are finite
}

// TestBest is the round that is best on test, the first of equals. To report it as a
// result is to have looked at the answers; papers do.
type TestBest struct {
	Round int             `json:"round"`
	Test  metrics.Summary `json:"test"`
}

// Event is one round as it is told to people and written to metrics.jsonl.
type Event struct {
	Round     int              `json:"round"`
	Valid     *metrics.Summary `json:"valid,omitempty"`
	Test      *metrics.Summary `json:"test,omitempty"`
	Loss      *float64         `json:"train_loss,omitempty"`
	Devices   int              `json:"devices"`
	Dropped   int              `json:"dropped,omitempty"`
	Late      int              `json:"late,omitempty"`
	Idle      int              `json:"idle,omitempty"`
	Samples   int              `json:"samples"`
	BytesUp   int              `json:"bytes_up"`
	Down      int              `json:"bytes_down,omitempty"` // and Zeros: where Encode is sparse
	Zeros     float64          `json:"zeros,omitempty"`      // share of the numbers sent to devices
	Truncated int              `json:"cut,omitempty"`        // numbers that were beyond the reach of their slots
	TrainMS   float64          `json:"train_ms"`
	EvalMS    float64          `json:"eval_ms"`
	Best      bool             `json:"best,omitempty"`
	Clip      float64          `json:"clip,omitempty"`    // the bound on updates that the round had
	Epsilon   *float64         `json:"epsilon,omitempty"` // spent so far; null is without bound
	Released  *ReleasedMetrics `json:"released,omitempty"`
}

// ErrDiverged says that a model has become infinite or not a number.
var ErrDiverged = errors.New("sim: the model has diverged: a value or the loss is not finite; lower the learning rate")

// New prepares an experiment.
func New(m method.Method, split *data.Split, opt Options, seed uint64, jobs int) (*Run, error) {
	if err := opt.Check(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	if _, own := method.As[method.Updater](m); own && (opt.Mean != "cohort" || textOf(opt.Server) != "sgd:1") {
		return nil, errors.New("sim: this method has a server step of its own: mean and server do not apply to it")
	}
	if opt.NewUsers != split.NewUserShare {
		return nil, fmt.Errorf("sim: new-users is %g, and the split holds out %g", opt.NewUsers, split.NewUserShare)
	}
	f, err := newFleet(m, split, opt, seed, jobs)
	if err != nil {
		return nil, err
	}
	if err := opt.Cohort.Check(f.Count()); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	var value [][]float32
	for i := range f.plan.Slots {
		value = append(value, f.mem.Value(i))
	}
	e := round.New(opt.Config, f.plan, f, value, seed)
	e.Noise, e.Workers = opt.Noise, jobs
	r := &Run{Options: opt, Seed: seed, fleet: f, engine: e, eval: newEval(split, opt.EvalUsers, seed)}
	r.Best = newPlaces(split)
	e.BeforeUpdate = r.before
	if opt.integers() && !opt.DP.On() {
		if f.central != nil {
			return nil, errors.New("sim: sums=integer: this method is trained in one place, and sums nothing")
		}
		b := f.plan.Bound(f.Count())
		e.Bound = &b
	}
	if opt.bare() {
		if err := r.bareMasks(); err != nil {
			return nil, err
		}
	}
	if opt.DP.On() {
		if err := r.guard(); err != nil {
			return nil, err
		}
	}
	if f.plan.Serves(method.ServeLocal) && opt.partial() && split.HeldOut() == nil {
		f.prepared(context.Background(), r.eval, 0, false) // who has not been visited yet is measured as it was born
	}
	return r, nil
}

// Done reports whether all rounds are run.
func (r *Run) Done() bool { return r.EvaluatedRounds() >= r.Rounds || r.BudgetEnd > 0 }

// EvaluatedRounds is how many rounds Step has told of.
func (r *Run) EvaluatedRounds() int {
	if r.Unevaluated != nil {
		return r.engine.Next - 1
	}
	return r.engine.Next
}

// Step runs one round, and evaluates it if it is its turn. Once ctx is done the round is
// finished, and its evaluation is not: then the error is ctx's, and the next Step, also of
// a run that was saved and loaded, evaluates it.
func (r *Run) Step(ctx context.Context) (Event, error) {
	if r.Unevaluated != nil {
		return r.measure(ctx)
	}
	t, f := r.engine.Next, r.fleet
	last, err := r.lastAffordable(t)
	if err != nil {
		return Event{}, err
	}
	turn := r.evaluates(t) || last
	r.turn = turn
	// A device that recommends with its own tuned rows is measured while they are
	// in cache. One that sits a round out keeps its place until its next visit, so
	// a partial cohort is measured in every round.
	tuned := f.plan.Serves(method.ServeLocal)
	f.loss = turn
	if f.eval = nil; tuned && f.out == nil && (turn || r.partial()) {
		f.eval = r.eval
	}
	down, zeros := 0, 0.0
	if f.plan.Sparse {
		down, zeros = f.mem.SparseDown()
	}
	start, clip := time.Now(), r.clip()
	rep, err := r.engine.Step(ctx)
	if errors.Is(err, round.ErrBudgetSpent) {
		r.BudgetEnd = t + 1
	}
	if err != nil {
		return Event{}, err
	}
	took, evalled := time.Since(start), f.evalTime()
	ev := Event{
		Round: t + 1, Devices: rep.Devices, Dropped: rep.Dropped, Late: rep.Late, Idle: rep.Idle,
		Samples: rep.Samples, BytesUp: rep.Bytes, Down: down * rep.Devices, Zeros: zeros, Truncated: rep.Truncated,
		Clip: clip,
	}
	sane := r.finite()
	if rep.LossN > 0 {
		// A private slot that has diverged shows in the loss alone.
		l := rep.Loss / float64(rep.LossN)
		if l-l == 0 {
			ev.Loss = &l
		} else if r.engine.Stack == nil { // else it is a device's own affair: nobody may learn of it
			sane = false
		}
	}
	ev.TrainMS, ev.EvalMS = ms(took-evalled), ms(evalled)
	r.account(rep, took-evalled, evalled)
	r.Down += ev.Down
	p := &Unevaluated{ev, rep.Discarded, last, sane}
	if turn {
		r.Unevaluated = p
		return r.measure(ctx)
	}
	return r.close(p, false)
}

// measure evaluates the pending round.
func (r *Run) measure(ctx context.Context) (Event, error) {
	p := r.Unevaluated
	took, err := r.after(ctx, p.Event.Round-1)
	r.Eval += took
	p.Event.EvalMS += ms(took)
	if err != nil {
		return Event{}, err
	}
	r.Unevaluated = nil
	if err := r.judge(&p.Event); err != nil {
		return p.Event, err
	}
	return r.close(p, true)
}

// close ends a round that is measured, or needs not to be.
func (r *Run) close(p *Unevaluated, turn bool) (Event, error) {
	if err := r.tell(&p.Event, p, turn); err != nil {
		return p.Event, err
	}
	if !p.Finite {
		return p.Event, ErrDiverged
	}
	return p.Event, nil
}

// evaluates reports whether round t, from 0, is evaluated.
func (r *Run) evaluates(t int) bool { return (t+1)%r.EvalEvery == 0 || t+1 == r.Rounds }

// before measures what must be measured before the coordinator's step.
func (r *Run) before(t int) error {
	if r.fleet.tuned != nil && r.turn {
		start := time.Now()
		r.fleet.strangers(r.eval, t)
		r.fleet.extra += time.Since(start)
	}
	return nil
}

// after measures who was not measured in its visit.
func (r *Run) after(ctx context.Context, t int) (time.Duration, error) {
	f := r.fleet
	if !f.plan.Serves(method.ServeLocal) && !f.plan.Serves(method.ServeOther) || f.out != nil {
		return f.prepared(ctx, r.eval, t, false)
	} else if f.split.NewUsers() != nil {
		return f.prepared(ctx, r.eval, t, true)
	}
	return 0, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *Run) account(rep round.Report, train, evalled time.Duration) {
	r.RoundMS = append(r.RoundMS, ms(train))
	r.Train += train
	r.Eval += evalled
	r.Devices += rep.Devices
	r.Samples += rep.Samples
	r.Dropped += rep.Dropped
	r.Late += rep.Late
	r.Idle = rep.Idle
	r.Bytes += rep.Bytes
}

// judge computes the round's metrics and keeps its places if its validation
// HR@10 is the best so far; of equal ones the latest counts. Without validation
// all are equal, so the last round is kept, and what test would have chosen beside.
// Under a privacy promise a choice on validation would be a release: the last round is
// kept, or the one that is best by metrics that were released.
func (r *Run) judge(ev *Event) error {
	ties := r.TieRule()
	valid, test := r.eval.now.Summaries(ties, r.fleet.split.Items())
	ev.Valid, ev.Test = &valid, &test
	hr := valid.Sampled["hr@10"]
	if r.engine.Stack != nil {
		var err error
		if ev.Released, err = r.publish(ev.Round-1, valid); err != nil {
			return err
		}
		if hr = r.BestHR; ev.Released != nil {
			hr = ev.Released.HR10
		}
	}
	if r.UsesLastRound() {
		hr = r.BestHR
	}
	if hr >= r.BestHR || r.Selected == 0 { // released ones may be below 0
		r.BestHR, r.Selected, ev.Best = hr, ev.Round, true
		r.eval.now.copyTo(r.Best)
	}
	const by = "hr@10"
	if !r.fleet.split.Validates() && r.engine.Stack == nil &&
		(r.TestBest == nil || test.Sampled[by] > r.TestBest.Test.Sampled[by]) {
		r.TestBest = &TestBest{ev.Round, test}
	}
	return nil
}

// UsesLastRound reports whether the last round is the one that counts.
func (r *Run) UsesLastRound() bool {
	m, ok := method.As[method.FinalRound](r.engine.Plan.Method)
	return ok && m.ReportsFinalRound()
}

// TieRule returns how ties count.
func (o *Options) TieRule() metrics.Ties {
	if o.Ties == "expected" {
		return metrics.Expected
	}
	return metrics.Against
}

func (r *Run) finite() bool {
	for i, s := range r.fleet.plan.Slots {
		if s.Scope != method.Shared && !r.fleet.plan.Central() {
			continue
		}
		if x := vec.Sum(r.engine.Value[i]); x-x != 0 {
			return false
		}
	}
	return true
}

// BytesDown is what a device has downloaded in a round, on average.
func (r *Run) BytesDown() float64 {
	if r.fleet.plan.Sparse && r.Devices > 0 {
		return float64(r.Down) / float64(r.Devices)
	}
	return r.fleet.plan.MeanBytesDown(max(r.engine.Next, 1))
}

// MedianRoundMS is the median training time of a round.
func (t *Totals) MedianRoundMS() float64 {
	if len(t.RoundMS) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(t.RoundMS))
	return s[len(s)/2]
}
