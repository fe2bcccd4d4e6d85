package coordinator

import (
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

// If a repair did not find out which version was published last, numbers continue this far ahead.
const (
	versionLeap  = 1 << 20
	rollbackLeap = 1 << 10
)

// Repair makes a damaged folder open again. A coordinator that starts from it does not repeat
// anything that was published: see models.Published.
func Repair(dir string) (*store.Report, error) {
	r, err := store.Repair(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	lost, err := models.RepairPublished(dir)
	if lost {
		r.Lost = append(r.Lost, "the number of the last published version: numbers continue far ahead of it")
	}
	return r, err
}

// recoverFrom compares the newest version on disk with the last one that was published. If a repair
// took the store back in time, the model is published again as a new version, after a roll back,
// so that devices answer its rounds again.
func (c *Coordinator) recoverFrom(v *models.Version) error {
	p, err := models.ReadPublished(c.opt.Dir)
	switch {
	case err != nil:
		return err
	case p == nil && v.Version > 1:
		return models.Damaged(c.opt.Dir, "is missing")
	case p == nil, !p.Lost && p.Version <= v.Version:
		c.unreleased = c.budget != nil
		return c.models.WritePublished(v, c.rollbacks.count)
	case p.Lost:
		p = &models.Published{
			Run: v.Run, Version: v.Version + versionLeap, Round: c.settings().Rounds, Rollbacks: c.rollbacks.count +
				rollbackLeap,
		}
	case p.Run != v.Run:
		return models.Damaged(c.opt.Dir, "belongs to another run")
	}
	c.opt.Warn(fmt.Sprintf("version %d of the model was published, and the newest on disk is %d, after round %d: "+
		"training resumes from there", p.Version, v.Version, v.Round))
	return c.republish(v, p)
}

// republish makes the loaded version v the successor of the published one.
func (c *Coordinator) republish(v *models.Version, p *models.Published) error {
	rollbacks := max(c.rollbacks.count, p.Rollbacks) + 1
	if err := c.st.PutJSON(rollbacksKey, rollbacks); err != nil {
		return err
	}
	c.rollbacks.count = rollbacks
	c.engine.Seed = c.groupSeed()
	c.models.Skip(p.Version)
	if p.Round > v.Round {
		if err := c.stopTree(); err != nil {
			return err
		}
	}
	if err := c.collection.DropReports(""); err != nil {
		return err
	}
	return c.save(models.Outcome{}, true)
}

// recoverFromNothing is recoverFrom if no version is left on disk.
func (c *Coordinator) recoverFromNothing() error {
	p, err := models.ReadPublished(c.opt.Dir)
	if err != nil || p == nil {
		return err
	}
	if p.Lost {
		p.Version, p.Rollbacks, p.Round = versionLeap, rollbackLeap, c.settings().Rounds
	}
	c.models.Skip(p.Version)
	c.rollbacks.count = p.Rollbacks + 1
	if err := c.st.PutJSON(rollbacksKey, c.rollbacks.count); err != nil {
		return err
	}
	if err := c.checkBudget(&models.Version{Run: p.Run}); err != nil {
		return err
	}
	if p.Round > 0 {
		return c.stopTree()
	}
	return nil
}

// stopTree ends a run with tree noise: repeating a round of it would reveal what the noise hides.
func (c *Coordinator) stopTree() error {
	if !c.isTree() {
		return nil
	}
	c.stopped = "mechanism=tree spreads its noise over the rounds, and some rounds are lost: nothing more is " +
		"released; start a new run"
	return c.st.PutJSON(stoppedKey, c.stopped)
}

func (c *Coordinator) isTree() bool {
	return c.settings().DP.On() && c.settings().DP.Mechanism == privacy.Tree
}

// checkBudget checks that the ledger is as long as it was when a version was published.
func (c *Coordinator) checkBudget(v *models.Version) error {
	lines := v.LedgerLines
	if p, err := models.ReadPublished(c.opt.Dir); err == nil && p != nil {
		lines = max(lines, p.LedgerLines)
	}
	return c.budget.Check(lines)
}
