package coordinator

import (
	"errors"
	"fmt"
	"slices"
)

// If devices add the noise, the coordinator is not trusted, and a sum is released when devices reveal their
// shares, not when a model is published. So a sum that is dropped instead of published is paid for, and the
// ledger line of a sum pays for no other one.

// paidKey is the number of ledger lines that have paid for sums which were dropped.
const paidKey = "paid"

// unpaidRounds are the rounds whose sums devices began to reveal, and that no version contains.
func (c *Coordinator) unpaidRounds() (rounds []int) {
	if c.engine == nil || c.engine.Stack == nil || !c.engine.Stack.Drawn {
		return nil
	}
	return c.collection.Sums(c.runID(), c.engine.Next, sumSuffix)
}

// payForSums pays for the sums that are about to be dropped. A line that was written for one of them pays
// for it.
func (c *Coordinator) payForSums() error {
	rounds := c.unpaidRounds()
	if len(rounds) == 0 {
		return nil
	}
	for _, t := range rounds {
		event, spends, err := c.engine.Stack.Spends(t)
		if err != nil {
			return err
		}
		if spends {
			err = c.budget.Spend(event)
		}
		if err != nil {
			return err
		}
		c.opt.Warn(fmt.Sprintf("devices revealed the sum of round %d, and it is not published: it is discarded, and "+
			"the privacy ledger counts it", t+1))
	}
	return c.st.PutJSON(paidKey, c.budget.Lines())
}

// announcedKey are the announced lines.
const announcedKey = "announced"

// announced are the salts of the ledger lines that the folder has written since a version, each kept before its line.
// So lines of another copy of the folder are never taken for its own.
type announced struct {
	Version uint64   `json:"version"`
	Salts   []string `json:"salts"`
}

func (c *Coordinator) announce(salt string) error {
	if last := c.models.Last(); c.announced.Version != last {
		c.announced = announced{Version: last}
	}
	c.announced.Salts = append(c.announced.Salts, salt)
	return c.st.PutJSON(announcedKey, c.announced)
}

// reclaimLines makes the ledger lines of releases that nobody saw pay for later ones, unless another copy of the
// folder was running.
func (c *Coordinator) reclaimLines() error {
	g := c.engine.Stack
	if !c.unreleased || g == nil {
		return nil
	}
	lines, err := c.budget.Unpublish(c.models.Newest().LedgerLines, c.announced.Salts)
	if err != nil || c.proof != nil || g.Drawn && len(c.unpaidRounds()) == 0 {
		return err
	}
	paid := 0
	if err := c.st.GetJSON(paidKey, &paid); err != nil {
		return err
	}
	c.budget.Reclaim(slices.DeleteFunc(lines, func(line int) bool { return line < paid }), g.IsMetric)
	return nil
}

// dropSums deletes the reports and sums of rounds that are not repeated, after paying for them.
func (c *Coordinator) dropSums() error {
	return errors.Join(c.payForSums(), c.collection.DropReports(""))
}
