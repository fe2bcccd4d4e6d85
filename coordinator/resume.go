package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// savedRun is a run as the store keeps it.
type savedRun struct {
	Run      []byte   `json:"run"`
	Settings Settings `json:"settings"`
	Items    string   `json:"items"` // hash of the first catalogue
	Count    int      `json:"count"` // of its items
	Features string   `json:"features,omitempty"`
}

const waitingForRun = "waiting for a run: tacit admin begin, or tacit fleet"

// resume continues the run of the folder.
func (c *Coordinator) resume() error {
	b, err := c.st.Get(runKey)
	if errors.Is(err, store.ErrNotFound) {
		c.progress.set(WaitingForRun, waitingForRun)
		return nil
	}
	if err != nil {
		return err
	}
	var r savedRun
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("the run's settings are corrupt: %w", err)
	}
	defer close(c.ready)
	r.Settings.methods = c.opt.Methods
	c.latest.Store(&current{id: r.Run, number: 1, settings: r.Settings})
	c.models.Begin(c.runID())
	for key, to := range map[string]any{
		rollbacksKey: &c.rollbacks.count, rollbackRoundsKey: &c.rollbacks.rounds, stoppedKey: &c.stopped,
	} {
		if err := c.st.GetJSON(key, to); err != nil {
			return err
		}
	}
	all, err := c.models.Complete()
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		err := c.models.Check(all[i])
		if err == nil {
			return c.resumeAt(all[i], all[len(all)-1])
		}
		c.opt.Warn(fmt.Sprintf("%v: this version is not used, and training resumes from an older one", err))
	}
	return c.resumeAtStart(&r)
}

// resumeAtStart continues a run that has no version on disk.
func (c *Coordinator) resumeAtStart(r *savedRun) error {
	b, err := c.models.Read(r.Items)
	if err != nil {
		return err
	}
	first, err := wire.ReadCatalogue(b, r.Count)
	if err != nil {
		return err
	}
	features, err := c.loadFeatures(r.Features, r.Count)
	if err != nil {
		return err
	}
	return c.saveFirst(first, features)
}

// resumeAt continues from a version. newest is another one if it cannot be used; its catalogue stays.
func (c *Coordinator) resumeAt(v, newest *models.Version) error {
	if err := c.loadItems(v); err != nil {
		return err
	}
	if err := c.openBudget(); err != nil {
		return err
	}
	if err := c.makeEngine(v.Items, c.catalogue.Features()); err != nil {
		return err
	}
	if err := errors.Join(c.checkBudget(v), c.nameRun()); err != nil {
		return err
	}
	if err := c.load(v); err != nil {
		return err
	}
	if err := c.models.Resume(v); err != nil {
		return err
	}
	if newest != v {
		if err := c.keepItems(newest); err != nil {
			c.opt.Warn(fmt.Sprintf("the catalogue is that of version %d: %v", v.Version, err))
		}
	}
	if err := c.recoverFrom(v); err != nil {
		return err
	}
	c.evaluations.NoteInterrupted(c.models.Round())
	if c.unreleased {
		c.budget.Reclaim(c.models.Newest().LedgerLines, c.engine.Stack.IsMetric)
	}
	// A kill may have left the reports of the last round beside its outcome.
	next := &pb.Task{Kind: pb.Kind_TRAIN, Round: uint32(c.engine.Next)}
	return c.collection.DropReports(collection.LogOf(c.runID(), c.rollbacks.count, next))
}
