package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/masked"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// savedRun is a run as the store keeps it.
type savedRun struct {
	Run      []byte   `json:"run"`
	Number   int      `json:"number"`
	Settings Settings `json:"settings"`
	Given    Settings `json:"given"`
	Items    string   `json:"items"` // hash of the first catalogue
	Count    int      `json:"count"` // of its items
	Features string   `json:"features,omitempty"`
	From     uint64   `json:"from,omitempty"`   // the version whose values are the first ones
	Former   []string `json:"former,omitempty"` // see current

	Begun   time.Time `json:"begun"`
	Earlier []RunInfo `json:"earlier,omitempty"`
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
	r.Settings.methods, r.Given.methods = c.opt.Methods, c.opt.Methods
	c.latest.Store(&current{
		id: r.Run, number: r.Number, settings: r.Settings, given: r.Given, former: r.Former, begun: r.Begun,
		earlier: r.Earlier,
	})
	c.models.Begin(c.runID())
	c.models.Keep(r.Items, r.Features)
	c.evaluations.SetRun(r.Number)
	for key, to := range map[string]any{
		rollbacksKey: &c.rollbacks.count, rollbackRoundsKey: &c.rollbacks.rounds, stoppedKey: &c.stopped,
		handledKey: &c.handled, proofKey: &c.proof, announcedKey: &c.announced,
	} {
		if err := c.st.GetJSON(key, to); err != nil {
			return err
		}
	}
	all, err := c.models.Complete()
	if err != nil {
		return err
	}
	c.recallRounds(all)
	newest, base := (*models.Version)(nil), (*models.Version)(nil)
	for _, v := range slices.Backward(all) {
		if newest == nil && c.latest.Load().has(v.Run) {
			newest = v
		}
		err := c.models.Check(v)
		switch {
		case err != nil:
			c.opt.Warn(fmt.Sprintf("%v: this version is not used, and training resumes from an older one", err))
		case c.latest.Load().has(v.Run):
			return c.resumeAt(v, newest)
		case base == nil && v.Version <= r.From:
			base = v
		}
	}
	return c.resumeAtStart(&r, base, all)
}

// resumeAtStart continues a run of which no version can be used. Its catalogue is the newest one that can be
// read, so that no item is lost.
func (c *Coordinator) resumeAtStart(r *savedRun, base *models.Version, all []*models.Version) error {
	for _, v := range slices.Backward(all) {
		if !c.latest.Load().has(v.Run) {
			continue
		}
		items, err := c.models.LoadCatalogue(v)
		if err != nil {
			continue
		}
		if features, err := c.loadFeatures(v.Features, v.Items); err == nil {
			return c.restart(&start{current: *c.latest.Load(), items: items, features: features, base: base})
		}
	}
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
	return c.restart(&start{current: *c.latest.Load(), items: first, features: features, base: base})
}

// restart starts a run that is on disk.
func (c *Coordinator) restart(b *start) error {
	err := c.prepare(b)
	c.setLedger(b.budget)
	if err != nil {
		return err
	}
	return c.startRun(b)
}

// resumeAt continues from a version. newest is another one if it cannot be used; its catalogue stays.
func (c *Coordinator) resumeAt(v, newest *models.Version) error {
	if err := c.loadItems(v); err != nil {
		return err
	}
	ledger, err := c.ledgerOf(c.settings())
	if err != nil {
		return err
	}
	c.setLedger(ledger)
	if err := c.makeEngine(v.Items, c.catalogue.Features()); err != nil {
		return err
	}
	if err := errors.Join(c.checkBudget(ledger, v), c.nameRun()); err != nil {
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
	if err := c.noteContinues(v); err != nil {
		return err
	}
	if err := c.checkOwn(); err != nil {
		return err
	}
	if err := errors.Join(c.recoverFrom(v), c.noteReset()); err != nil {
		return err
	}
	c.evaluations.NoteInterrupted(c.models.Round())
	if err := c.reclaimLines(); err != nil {
		return err
	}
	// A kill may have left the reports of the last round beside its outcome.
	next := &pb.Task{Kind: pb.Kind_TRAIN, Round: uint32(c.engine.Next)}
	log := collection.LogOf(c.runID(), c.rollbacks.count, next)
	if sum, err := masked.ReadSum(c.st, log+sumSuffix); err != nil || sum == nil {
		if err := errors.Join(err, c.payForSums()); err != nil { // the kill interrupted a roll back
			return err
		}
	}
	return c.collection.DropReports(log)
}

// noteContinues reads from a version whether its run started from the model of the run before.
func (c *Coordinator) noteContinues(v *models.Version) error {
	b, err := c.models.Read(v.Plan)
	if err != nil {
		return err
	}
	p := &pb.Plan{}
	if err := proto.Unmarshal(b, p); err != nil {
		return fmt.Errorf("version %d: the plan is corrupt: %w", v.Version, err)
	}
	run := *c.latest.Load()
	run.continues = p.Continues
	c.latest.Store(&run)
	return nil
}
