package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
)

// buildStack builds the privacy stack of a run.
func (r *Run) buildStack() error {
	f, e := r.fleet, r.engine
	if r.DP.Metrics > 0 && !f.split.Validates() {
		return fmt.Errorf("metrics=%g: protocol %s has no validation items; omit metrics",
			r.DP.Metrics, f.split.Name)
	}
	evaluations := (r.Rounds + r.EvalEvery - 1) / r.EvalEvery
	s := r.PrivacyRun(cmp.Or(r.Name, "this method"), f.plan, f.Count(), r.Secagg != "off", r.Secagg == "on",
		evaluations)
	var err error
	if e.Stack, err = privacy.Build(r.DP, s); err != nil {
		return err
	}
	if r.Secagg == "on" {
		if f.masked, err = newMasked(f, e.Stack); err != nil {
			return err
		}
	}
	e.Ledger = &account.Spent{}
	e.Random = func(n privacy.Node, piece int) io.Reader { return round.DeterministicNoise(r.Seed, n, piece) }
	return nil
}

// Spent returns the privacy budget spent so far; false without differential privacy.
func (r *Run) Spent() (account.Result, bool, error) {
	g := r.engine.Stack
	if g == nil {
		return account.Result{}, false, nil
	}
	res, err := account.Epsilon(g.Delta, g.Options(), r.engine.Ledger.Events()...)
	return res, true, err
}

// Releases counts the released rounds and evaluations in the ledger.
func (r *Run) Releases() (rounds, metrics int) {
	g := r.engine.Stack
	for _, e := range r.engine.Ledger.Events() {
		switch {
		case g.IsMetric(e):
			metrics += int(e.Rounds)
		case e.Mechanism != account.Tree:
			rounds += int(e.Rounds)
		}
	}
	if g.Mechanism == privacy.Tree { // a tree is recorded when it starts
		rounds = r.engine.Next
	}
	return rounds, metrics
}

// Participations returns how often devices have trained: the maximum and the mean.
func (r *Run) Participations() (most int, mean float64) {
	for u := range r.fleet.state {
		n := int(r.fleet.state[u].Visits)
		most = max(most, n)
		mean += float64(n)
	}
	return most, mean / float64(r.fleet.Count())
}

// ReleasedMetrics are the metrics of a round with noise, as a coordinator would publish them.
type ReleasedMetrics struct {
	HR10   float64 `json:"hr@10"`
	NDCG10 float64 `json:"ndcg@10"`
}

// publish records the release of a round's validation metrics and adds noise to them. It
// divides by the number of users that are asked, which is public, and not by the number that
// have a validation item.
func (r *Run) publish(t int, of metrics.Summary) (*ReleasedMetrics, error) {
	g, users := r.engine.Stack, float64(counted(r.eval.now.Valid))
	if g.Policy.Metrics == 0 || !r.fleet.split.Validates() {
		return nil, nil
	}
	if ok, err := r.engine.Affords(1); err != nil || !ok {
		return nil, err
	}
	if err := r.engine.Ledger.Spend(g.MetricEvent()); err != nil {
		return nil, fmt.Errorf("cannot release the metrics of round %d: %w", t+1, err)
	}
	const grid = 1 << 12
	sums := []int64{int64(of.Sampled["hr@10"] * users * grid), int64(of.Sampled["ndcg@10"] * users * grid)}
	dev := int64(g.Policy.Metrics*(privacy.MetricSensitivity*grid+2)) + 1
	privacy.NewSource(round.DeterministicNoise(r.Seed, round.MetricsNode(t), 0)).AddGauss(dev, sums)
	n := float64(r.eval.askedUsers()) * grid
	return &ReleasedMetrics{float64(sums[0]) / n, float64(sums[1]) / n}, nil
}

// lastAffordable reports whether round t, from 0, is the last that the budget covers. The last
// round is always evaluated, so the budget must cover its metrics too.
func (r *Run) lastAffordable(t int) (bool, error) {
	if r.engine.Stack == nil || t+1 >= r.Rounds {
		return t+1 >= r.Rounds, nil
	}
	metrics := 1
	if r.evaluates(t) {
		metrics = 2
	}
	ok, err := r.engine.Affords(metrics, t, t+1)
	return !ok, err
}

// clip is the clipping bound of the next round.
func (r *Run) clip() float64 {
	if r.engine.Stack == nil {
		return 0
	}
	return r.engine.Stack.Clip
}

// addCost adds the budget spent to a round's event.
func (r *Run) addCost(ev *Event, p *Unevaluated, turn bool) error {
	if p.Discarded {
		r.Discarded++
	}
	if r.engine.Stack == nil {
		return nil
	}
	if p.Last && r.engine.Next < r.Rounds {
		r.BudgetEnd = r.engine.Next + 1
	}
	if !turn {
		return nil
	}
	spent, _, err := r.Spent()
	if err == nil && !math.IsInf(spent.Epsilon, 0) {
		ev.Epsilon = &spent.Epsilon
	}
	return err
}

// restoreLedger copies the events of a checkpoint to a ledger in memory. A ledger in a file must hold
// them already.
func (r *Run) restoreLedger() error {
	if _, memory := r.engine.Ledger.(*account.Spent); !memory {
		return r.CheckLedger()
	}
	for _, e := range r.LedgerEvents {
		if err := r.engine.Ledger.Spend(e); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// CheckLedger returns an error if the ledger lacks events that it had when the checkpoint was
// saved: it then belongs to another run, or was shortened.
func (r *Run) CheckLedger() error {
	if r.engine.Ledger == nil {
		return nil
	}
	has := map[account.Event]int64{}
	for _, e := range r.engine.Ledger.Events() {
		n := e.Rounds
		e.Rounds = 0
		has[e] += n
	}
	for _, e := range r.LedgerEvents {
		n := e.Rounds
		e.Rounds = 0
		if has[e] < n {
			return fmt.Errorf("the checkpoint has %d releases and the ledger %d: lines of the ledger are missing", n,
				has[e])
		}
	}
	return nil
}

// counted is the number of users that were ranked.
func counted(places []metrics.Rank) (n int) {
	for _, p := range places {
		if p.Above != metrics.NotRanked {
			n++
		}
	}
	return n
}

// CheckLedgerRounds returns an error if the ledger has fewer rounds than were reported: it was
// shortened.
func (r *Run) CheckLedgerRounds(told int) error {
	g := r.engine.Stack
	if g == nil || told == 0 {
		return nil
	}
	paid, _ := r.Releases()
	if g.Mechanism == privacy.Tree {
		told, paid = (told+g.Epoch-1)/g.Epoch, 0
		for _, e := range r.engine.Ledger.Events() {
			if e.Mechanism == account.Tree {
				paid += int(e.Rounds)
			}
		}
	}
	if paid < told {
		return fmt.Errorf("the ledger has %d rounds, but %d were run: it was shortened, so the budget spent is "+
			"unknown "+
			"and nothing more may be released", paid, told)
	}
	return nil
}
