package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// kept is what the store remembers of a run.
type kept struct {
	Run      []byte   `json:"run"`
	Settings Settings `json:"settings"`
	Items    string   `json:"items"` // hash of the first catalogue
	Count    int      `json:"count"` // of its items
	Features string   `json:"features,omitempty"`
}

// resume goes on with the run of the folder.
func (c *Coordinator) resume() error {
	b, err := c.st.Get("run")
	if errors.Is(err, store.ErrNotFound) {
		c.say("waiting for a run: tacit admin begin, or tacit fleet")
		return nil
	}
	if err != nil {
		return err
	}
	var r kept
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("coord: the run: %w", err)
	}
	defer close(c.ready)
	c.run, c.settings = r.Run, r.Settings
	c.models.Begin(c.run)
	c.settings.methods = c.opt.Methods
	if err := c.restore(); err != nil {
		return err
	}
	all, err := c.models.Complete()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		b, err := c.models.Read(r.Items)
		if err != nil {
			return err
		}
		first, err := wire.ReadCatalogue(b, r.Count)
		if err == nil {
			err = c.loadFeatures(r.Features, r.Count)
		}
		if err != nil {
			return err
		}
		return c.first(first)
	}
	return c.resumeAt(all[len(all)-1])
}

// resumeAt goes on from a version.
func (c *Coordinator) resumeAt(v *models.Version) error {
	if err := c.loadItems(v); err != nil {
		return err
	}
	if err := c.openBudget(); err != nil {
		return err
	}
	if err := c.makeEngine(v.Items); err != nil {
		return err
	}
	if err := c.checkBudget(v); err != nil {
		return err
	}
	if err := c.load(v); err != nil {
		return err
	}
	if err := c.models.Resume(v); err != nil {
		return err
	}
	if err := c.recoverFrom(v); err != nil {
		return err
	}
	c.interrupted()
	if c.unreleased {
		c.budget.Reclaim(c.models.Newest().LedgerLines, c.engine.Stack.IsMetric)
	}
	return c.recall()
}

// interrupted says that a readout was cut off, until there is another: it is not made again.
func (c *Coordinator) interrupted() {
	n := len(c.readouts)
	if c.reading == 0 || c.models.Round() < c.reading || n > 0 && c.readouts[n-1].Round == c.reading {
		return
	}
	c.missed = fmt.Sprintf("the coordinator was stopped during the readout after round %d", c.reading)
}

// restore reads what else was going on.
func (c *Coordinator) restore() error {
	for key, to := range map[string]any{
		"counted": &c.counted, "back": &c.back, "readouts": &c.readouts,
		"paused": &c.paused, "times": &c.times, "reach": &c.reach, "reading": &c.reading, "barred": &c.barred,
	} {
		b, err := c.st.Get(key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			return fmt.Errorf("coord: %s: %w", key, err)
		}
	}
	return nil
}
