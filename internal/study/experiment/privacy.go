package experiment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/sim"
)

// ledgerFile lists what a run with a privacy guarantee has spent.
const ledgerFile = "ledger.jsonl"

// openLedger opens the ledger of a run with a privacy guarantee. A run without a folder keeps its
// ledger in memory.
func (j *Job) openLedger(run *sim.Run, out *folder) error {
	if run.Stack() == nil || out == nil {
		return nil
	}
	var costliest []account.Event
	if g := run.Stack(); g.PerRound != nil {
		e, err := g.Costliest()
		if err != nil {
			return err
		}
		costliest = append(costliest, e)
	}
	l, err := round.OpenLedger(filepath.Join(out.dir, ledgerFile), j.fingerprint(), costliest...)
	if err == nil {
		run.SetLedger(l)
		out.ledger = l
		err = errors.Join(run.CheckLedger(), run.CheckLedgerRounds(out.logged))
	}
	if err != nil {
		return AsInput(err, fmt.Sprintf("start another run, which spends budget on the same users in addition: tacit "+
			"run %s -o ANOTHER-FOLDER", filepath.Join(out.dir, ConfigFile)))
	}
	return nil
}

// keepLedger renames the ledger of a run that is replaced. Its budget was spent on the same users.
func keepLedger(dir string) error {
	from := filepath.Join(dir, ledgerFile)
	if !exists(from) {
		return nil
	}
	for n := 1; ; n++ {
		if to := filepath.Join(dir, fmt.Sprintf("ledger-replaced-%d.jsonl", n)); !exists(to) {
			return os.Rename(from, to)
		}
	}
}

// privacyOf returns the guarantee of a run and what it has spent; nil for a run without one.
func privacyOf(run *sim.Run) (*result.Privacy, error) {
	spent, private, err := run.Spent()
	if err != nil || !private {
		return nil, err
	}
	g := run.Stack()
	events, err := g.Events(g.Noise, 1)
	if err != nil {
		return nil, err
	}
	e := events[0]
	p := &result.Privacy{
		Epsilon: spent.Epsilon, Delta: g.Delta, Adjacency: string(g.Adjacency), Sampler: string(e.Sampler), Q: e.Q,
		Noise: g.Noise, Uneven: g.VariesByRound(), Mechanism: string(e.Mechanism), Adaptive: g.Adaptive != "off",
		MetricsNoise: g.Policy.Metrics, Accountant: string(spent.Accountant), Conversion: string(spent.Conversion),
		Against: string(g.Trust), HoldsAgainst: g.Against(), Caveats: g.Caveats(), Budget: g.Epsilon, Clip: g.Clip,
		SpentBefore: run.BudgetEnd, Discarded: run.Discarded,
	}
	if math.IsInf(spent.Epsilon, 0) {
		p.Epsilon = "inf"
	}
	// Rounds that were paid for; after a crash more than the model has.
	p.Rounds, p.MetricsReleased = run.Releases()
	if lost := p.Rounds - run.RoundsRun(); lost > 0 && e.Mechanism != account.Tree {
		p.Caveats = append([]string{fmt.Sprintf("a crash lost %d rounds that were paid for; the model has %d", lost,
			run.RoundsRun())}, p.Caveats...)
	}
	p.MostParticipations, p.MeanParticipations = run.Participations()
	return p, nil
}
