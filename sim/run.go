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

// Run is one simulation: a method on a split. New makes it, Step trains one round, and Save
// and Load store it between steps.
type Run struct {
	Options
	Seed      uint64
	fleet     *devices
	engine    *round.Engine
	eval      *eval
	Best      *Ranks // of the selected round
	evaluated bool   // the round in progress is evaluated
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

// TestBest is the first round with the best test metrics. Some papers report it, which selects
// on the test set.
type TestBest struct {
	Round int             `json:"round"`
	Test  metrics.Summary `json:"test"`
}

// Event describes one round, for progress output and metrics.jsonl.
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
	Down      int              `json:"bytes_down,omitempty"` // this and Zeros only if Encode is sparse
	Zeros     float64          `json:"zeros,omitempty"`      // share of the numbers sent to devices
	Truncated int              `json:"cut,omitempty"`        // numbers that exceeded the range of their slot
	TrainMS   float64          `json:"train_ms"`
	EvalMS    float64          `json:"eval_ms"`
	Best      bool             `json:"best,omitempty"`
	Clip      float64          `json:"clip,omitempty"`    // clipping bound of the round
	Epsilon   *float64         `json:"epsilon,omitempty"` // spent so far; null if unbounded
	Released  *ReleasedMetrics `json:"released,omitempty"`
}

// ErrDiverged says that a value of the model or the training loss is not finite.
var ErrDiverged = errors.New("the model has diverged: a value or the loss is not finite; lower the learning rate")

// New returns a run of a method on a split, with that many concurrent jobs.
func New(m method.Method, split *data.Split, opt Options, seed uint64, jobs int) (*Run, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if _, own := method.As[method.Updater](m); own && (opt.Mean != "cohort" || textOf(opt.Server) != "sgd:1") {
		return nil, errors.New("this method has its own server step: omit mean and server")
	}
	if opt.NewUsers != split.NewUserShare {
		return nil, fmt.Errorf("new-users = %g: the split holds out %g of the users", opt.NewUsers, split.NewUserShare)
	}
	f, err := newFleet(m, split, opt, seed, jobs)
	if err != nil {
		return nil, err
	}
	if err := opt.Cohort.Check(f.Count()); err != nil {
		return nil, err
	}
	var value [][]float32
	for i := range f.plan.Slots {
		value = append(value, f.mem.Value(i))
	}
	e := round.New(opt.Config, f.plan, f, value, seed)
	e.Noise, e.Workers = opt.Noise, jobs
	r := &Run{Options: opt, Seed: seed, fleet: f, engine: e, eval: newEval(split, opt.EvalUsers.Of(split), seed)}
	r.Best = newPlaces(split)
	e.BeforeUpdate = r.evalBeforeUpdate
	if opt.integers() && !opt.DP.On() {
		if f.central != nil {
			return nil, errors.New("sums = integer: this method is trained in one place and has no sums")
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
		if err := r.buildStack(); err != nil {
			return nil, err
		}
	}
	if r.progressOnly() {
		r.sampleProgress()
	}
	if f.plan.Serves(method.ServeLocal) && opt.partial() && split.HeldOut() == nil {
		f.evalAll(context.Background(), r.eval, 0, false) // untrained devices are evaluated with initial values
	}
	return r, nil
}

// Done reports whether all rounds that the privacy budget covers are run and evaluated.
func (r *Run) Done() bool { return r.EvaluatedRounds() >= r.Rounds || r.BudgetEnd > 0 }

// EvaluatedRounds is the number of rounds whose events Step has returned.
func (r *Run) EvaluatedRounds() int {
	if r.Unevaluated != nil {
		return r.engine.Next - 1
	}
	return r.engine.Next
}

// Step trains one round, and evaluates it if it is due. If ctx is done, Step finishes the
// training, skips the evaluation and returns ctx's error; the next Step, also of a run that was
// saved and loaded, evaluates the round.
func (r *Run) Step(ctx context.Context) (Event, error) {
	if r.Unevaluated != nil {
		return r.evaluate(ctx)
	}
	t, f := r.engine.Next, r.fleet
	last, err := r.lastAffordable(t)
	if err != nil {
		return Event{}, err
	}
	turn := r.evaluates(t) || last
	r.evaluated = turn
	// A device that recommends with its own tuned rows is evaluated while they are in cache.
	// One that is not in a round keeps its rank until it trains again, so a partial cohort is
	// evaluated in every round.
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
	sane := r.finite() && rep.Rejected == "" // in a simulation no device lies: training diverges
	if rep.LossN > 0 {
		// A private slot that has diverged shows only in the loss.
		l := rep.Loss / float64(rep.LossN)
		if l-l == 0 {
			ev.Loss = &l
		} else if r.engine.Stack == nil { // with differential privacy nobody may learn of it
			sane = false
		}
	}
	ev.TrainMS, ev.EvalMS = ms(took-evalled), ms(evalled)
	r.account(rep, took-evalled, evalled)
	r.Down += ev.Down
	p := &Unevaluated{ev, rep.Discarded, last, sane}
	if turn {
		r.Unevaluated = p
		return r.evaluate(ctx)
	}
	return r.finishRound(p, false)
}

// evaluate evaluates the newest round.
func (r *Run) evaluate(ctx context.Context) (Event, error) {
	p := r.Unevaluated
	took, err := r.evalRest(ctx, p.Event.Round-1)
	r.Eval += took
	p.Event.EvalMS += ms(took)
	if err != nil {
		return Event{}, err
	}
	r.Unevaluated = nil
	if err := r.selectRound(&p.Event); err != nil {
		return p.Event, err
	}
	return r.finishRound(p, true)
}

// finishRound ends a round that is evaluated or not due for evaluation.
func (r *Run) finishRound(p *Unevaluated, turn bool) (Event, error) {
	if err := r.addCost(&p.Event, p, turn); err != nil {
		return p.Event, err
	}
	if !p.Finite {
		return p.Event, ErrDiverged
	}
	return p.Event, nil
}

// evaluates reports whether round t, from 0, is evaluated.
func (r *Run) evaluates(t int) bool { return (t+1)%r.evalEvery() == 0 || t+1 == r.Rounds }

// evalBeforeUpdate evaluates what must be evaluated before the server step.
func (r *Run) evalBeforeUpdate(t int) error {
	if r.fleet.tuned != nil && r.evaluated {
		start := time.Now()
		r.fleet.evalOtherTables(r.eval, t)
		r.fleet.extra += time.Since(start)
	}
	return nil
}

// evalRest evaluates the devices that were not evaluated right after training.
func (r *Run) evalRest(ctx context.Context, t int) (time.Duration, error) {
	f := r.fleet
	if !f.plan.Serves(method.ServeLocal) && !f.plan.Serves(method.ServeOther) || f.out != nil {
		return f.evalAll(ctx, r.eval, t, false)
	} else if f.split.NewUsers() != nil {
		return f.evalAll(ctx, r.eval, t, true)
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

// selectRound computes the metrics of a round, and keeps its ranks if its validation HR@10 is the
// best so far; of equal rounds the latest counts. Without validation items the last round
// counts, and TestBest is recorded as well. With differential privacy a selection on validation
// metrics would be a release, so the last round counts, or the best one by released metrics.
func (r *Run) selectRound(ev *Event) error {
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
	if hr >= r.BestHR || r.Selected == 0 { // released metrics may be negative
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

// UsesLastRound reports whether the method's result is its last round, not the best one.
func (r *Run) UsesLastRound() bool {
	m, ok := method.As[method.FinalRound](r.engine.Plan.Method)
	return ok && m.ReportsFinalRound()
}

// TieRule returns how equal scores count.
func (o *Options) TieRule() metrics.Ties {
	if o.Ties == "expected" {
		return metrics.Expected
	}
	return metrics.Against
}

// finite reports whether a centrally trained model is finite. The engine checks other models.
func (r *Run) finite() bool {
	if !r.fleet.plan.Central() {
		return true
	}
	for i := range r.fleet.plan.Slots {
		if x := vec.Sum(r.engine.Value[i]); x-x != 0 {
			return false
		}
	}
	return true
}

// BytesDown is the mean download of a device in a round.
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
