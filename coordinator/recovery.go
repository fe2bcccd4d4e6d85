package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
)

// If a repair did not find out which version was published last, numbers continue this far ahead.
const (
	versionLeap  = 1 << 20
	rollbackLeap = 1 << 10
)

// Repair makes a damaged folder open again. A coordinator that starts from it does not repeat
// anything that was published: see models.Published. If entries of the privacy ledger are lost, the
// whole budget counts as spent.
func Repair(dir string) (*store.Report, error) {
	r, err := store.Repair(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	r.Lost = append(r.Lost, enrolment.DescribeLost(r.Dropped)...)
	lost, err := models.RepairPublished(dir)
	if lost {
		r.Lost = append(r.Lost, "the number of the last published version: numbers continue far ahead of it")
	}
	if err != nil {
		return r, err
	}
	lost, err = repairLedger(dir, r.Aside)
	if lost {
		r.Lost = append(r.Lost, "entries of the privacy ledger ("+budget.File+"): "+
			"the whole privacy budget counts as spent; "+resetHint)
	}
	return r, err
}

// repairLedger makes the privacy ledger of a folder open again, and copies a damaged one to the folder aside. It
// returns whether entries are lost.
func repairLedger(dir, aside string) (lost bool, err error) {
	written := 0
	if p, err := models.ReadPublished(dir); err == nil && p != nil {
		written = p.LedgerLines
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return false, err
	}
	defer st.Close()
	all, err := models.New(models.Options{Store: st, Dir: dir}).List()
	if err != nil {
		return false, err
	}
	for _, v := range all {
		written = max(written, v.LedgerLines)
	}
	if _, err := os.Stat(filepath.Join(dir, budget.File)); err != nil && written == 0 {
		return false, nil
	}
	id, err := loadIdentity(st)
	if err != nil {
		return false, err
	}
	return budget.Repair(dir, aside, hex.EncodeToString(id.id[:]), written)
}

// behind compares the newest version on disk, nil for none, with the last one that was published. It
// returns nil if the store has it all; otherwise what was published, at least.
func (c *Coordinator) behind(v *models.Version) (*models.Published, error) {
	have := uint64(0)
	if v != nil {
		have = v.Version
	}
	p, err := models.ReadPublished(c.opt.Dir)
	switch {
	case err != nil:
		return nil, err
	case p == nil && have > 1:
		return nil, models.Damaged(c.opt.Dir, "is missing")
	case p == nil, !p.Lost && p.Version <= have:
		return nil, nil
	case p.Lost:
		return &models.Published{
			Run: c.runHex(), RunNumber: c.runNumber(), Version: have + versionLeap, Round: c.settings().Rounds,
			Rollbacks: c.rollbacks.count + rollbackLeap,
		}, nil
	}
	return p, nil
}

// recoverFrom makes a version of the run the newest. If a repair or a restored backup took the store
// back in time, the model is published again as a new version, after a roll back, so that devices
// answer its rounds again.
func (c *Coordinator) recoverFrom(v *models.Version) error {
	p, err := c.behind(v)
	if err != nil {
		return err
	}
	if p == nil {
		c.unreleased = c.reclaims(v)
		return c.models.WritePublished(v, c.rollbacks.count)
	}
	c.opt.Warn(fmt.Sprintf("version %d of the model was published, and the newest on disk is %d, after round %d: "+
		"training resumes from there", p.Version, v.Version, v.Round))
	return c.republish(p)
}

// republish makes the engine's values the successor of a version that is not on disk.
func (c *Coordinator) republish(p *models.Published) error {
	if err := c.payForSums(); err != nil {
		return err
	}
	if p.Run != c.runHex() || p.Round > c.models.Round() { // rounds are lost
		if err := c.stopTree(); err != nil {
			return err
		}
	}
	if err := c.overtake(p); err != nil {
		return err
	}
	if err := c.collection.DropReports(""); err != nil {
		return err
	}
	_, ranks := method.As[method.PopularityRanker](c.plan.Method)
	if len(c.catalogue.Current().GetPopular()) > 0 && !ranks { // perhaps in this run, and devices answer once
		if err := c.evaluations.SetCounted(); err != nil {
			return err
		}
	}
	return c.save(models.Outcome{}, true)
}

// overtake continues all numbers after those of a version that is not on disk, so that devices which
// have it accept the next one.
func (c *Coordinator) overtake(p *models.Published) error {
	rollbacks := max(c.rollbacks.count, p.Rollbacks) + 1
	if err := c.st.PutJSON(rollbacksKey, rollbacks); err != nil {
		return err
	}
	c.mu.Lock()
	c.rollbacks.count = rollbacks
	c.mu.Unlock()
	c.models.Skip(p.Version)
	if n := c.runNumber(); p.RunNumber > n || p.RunNumber == n && p.Run != c.runHex() {
		if err := c.renumber(p.RunNumber + 1); err != nil {
			return err
		}
	}
	if c.engine != nil {
		c.engine.Seed = c.groupSeed()
	}
	return nil
}

// renumber makes the run another one with a higher number: a later run was published, and is not on
// disk. Devices know each run number as one run.
func (c *Coordinator) renumber(number int) error {
	var saved savedRun
	if err := c.st.GetJSON(runKey, &saved); err != nil {
		return err
	}
	run := *c.latest.Load()
	run.number, run.id, run.former = number, make([]byte, 16), append(slices.Clone(run.former), c.runHex())
	rand.Read(run.id)
	saved.Run, saved.Number, saved.Former = run.id, number, run.former
	if err := c.st.PutJSON(runKey, saved); err != nil {
		return err
	}
	c.latest.Store(&run)
	c.models.Begin(run.id)
	c.evaluations.SetRun(number)
	return c.nameRun()
}

// recoverNumbers is recoverFrom for a run that starts: base is the newest version of the run before,
// nil for none.
func (c *Coordinator) recoverNumbers(base *models.Version) error {
	if base != nil {
		if err := c.models.Resume(base); err != nil {
			return err
		}
	}
	p, err := c.behind(base)
	if err != nil || p == nil {
		return err
	}
	if err := c.overtake(p); err != nil {
		return err
	}
	if p.Run == c.runHex() && p.Round > 0 { // of this run nothing is left
		return c.stopTree()
	}
	return nil
}

// stopTree ends a run with tree noise: repeating a round of it would reveal what the noise hides.
func (c *Coordinator) stopTree() error {
	if !c.isTree() {
		return nil
	}
	c.stopped = "mechanism=tree spreads its noise over the rounds, and some rounds are lost: this run releases " +
		"nothing more; tacit admin begin begins another one"
	return c.st.PutJSON(stoppedKey, c.stopped)
}

func (c *Coordinator) isTree() bool {
	return c.settings().DP.On() && c.settings().DP.Mechanism == privacy.Tree
}

// checkBudget checks that the ledger is as long as it was when a version was published; nil for none.
func (c *Coordinator) checkBudget(b *budget.Budget, v *models.Version) error {
	lines := 0
	if v != nil {
		lines = v.LedgerLines
	}
	if p, err := models.ReadPublished(c.opt.Dir); err == nil && p != nil {
		lines = max(lines, p.LedgerLines)
	}
	return b.Check(lines)
}
