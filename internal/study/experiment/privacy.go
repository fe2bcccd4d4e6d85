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

// ledgerFile is what a run with a privacy promise has spent.
const ledgerFile = "ledger.jsonl"

// openLedger gives a run with a promise the ledger of its folder. One without a
// folder counts in memory.
func (j *Job) openLedger(run *sim.Run, out *folder) error {
	if run.Engine.Guard == nil || out == nil {
		return nil
	}
	var costliest []account.Event
	if g := run.Engine.Guard; g.PerRound != nil {
		e, err := g.Costliest()
		if err != nil {
			return err
		}
		costliest = append(costliest, e)
	}
	l, err := round.OpenLedger(filepath.Join(out.dir, ledgerFile), j.fingerprint(), costliest...)
	if err == nil {
		run.Engine.Ledger, out.ledger = l, l
		err = errors.Join(run.Owed(), run.Behind(out.told))
	}
	if err != nil {
		return AsInput(err, fmt.Sprintf("another run spends anew on the same users, beside what this one has: tacit "+
			"run %s -o ANOTHER-FOLDER", filepath.Join(out.dir, ConfigFile)))
	}
	return nil
}

// putAside keeps the ledger of a run that is replaced: what it spent was spent on
// the same users.
func putAside(dir string) error {
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

// privacyOf is what a run's promise has cost; nil for a run without one.
func privacyOf(run *sim.Run) (*result.Privacy, error) {
	spent, promised, err := run.Spent()
	if err != nil || !promised {
		return nil, err
	}
	g := run.Engine.Guard
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
		SpentBefore: run.Broke, Discarded: run.Kept,
	}
	if math.IsInf(spent.Epsilon, 0) {
		p.Epsilon = "inf"
	}
	// Rounds are those that were paid for: after a crash more than those of the run.
	p.Rounds, p.MetricsReleased = run.Releases()
	if lost := p.Rounds - run.Engine.Next; lost > 0 && e.Mechanism != account.Tree {
		p.Caveats = append([]string{fmt.Sprintf("%d rounds were paid for and lost in a crash: the model has %d", lost,
			run.Engine.Next)}, p.Caveats...)
	}
	p.MostParticipations, p.MeanParticipations = run.Participations()
	return p, nil
}
