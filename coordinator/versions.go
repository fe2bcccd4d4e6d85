package coordinator

import (
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/catalogue"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/wire"
)

// save makes the engine's values the next version of the model and publishes it.
func (c *Coordinator) save(outcome models.Outcome, rolledBack bool) error {
	e := c.engine
	features := c.catalogue.Features()
	run := c.latest.Load()
	plan := run.settings.message(c.plan, features)
	plan.Continues = run.continues
	s := &models.Snapshot{
		Now: c.now(), Run: models.Run{Number: run.number}, Round: e.Next, Rollbacks: c.rollbacks.count,
		Items: e.Plan.Items,
		Slots: e.Plan.Slots, Values: e.Value, Rules: e.State,
		Plan: plan, Catalogue: c.catalogue.Current(),
		Features: features,
		Noisy:    e.Stack != nil, RolledBack: rolledBack, Outcome: outcome,
	}
	if c.settings().Cohort.ByCheckIn() {
		s.Participants = c.collection.Participation.Bytes()
	}
	s.TreeNoise = c.noise.NodeBytes()
	s.LedgerLines, s.LedgerHead = c.budget.Head()
	// Periods never decrease, so a run without a privacy guarantee names the period too.
	s.Run.BudgetPeriod, s.Run.InPeriod = c.budget.Period()
	if e.Stack != nil {
		s.Clip = e.Stack.Clip
	}
	_, err := c.models.Save(s)
	return err
}

// load puts the values of a version into the engine.
func (c *Coordinator) load(v *models.Version) error {
	e := c.engine
	if err := c.models.Load(v, e.Plan.Slots, e.Value, e.State); err != nil {
		return err
	}
	if c.settings().Cohort.ByCheckIn() {
		b, err := c.models.Read(v.Participants)
		if err == nil {
			err = c.collection.Participation.Load(b)
		}
		if err != nil {
			return fmt.Errorf("version %d: the list of participants is missing or corrupt: %w", v.Version, err)
		}
	}
	if err := c.noise.LoadNodes(v.TreeNoise); err != nil {
		return fmt.Errorf("version %d: the noise of its tree is corrupt: %w", v.Version, err)
	}
	e.Next = v.Round
	if e.Stack != nil && v.Clip > 0 {
		e.Stack.Clip = v.Clip
	}
	return nil
}

// loadItems reads the catalogue and the features of a version.
func (c *Coordinator) loadItems(v *models.Version) error {
	items, err := c.models.LoadCatalogue(v)
	if err != nil {
		return err
	}
	features, err := c.loadFeatures(v.Features, v.Items)
	if err != nil {
		return err
	}
	c.catalogue.Set(items, features)
	return nil
}

// rankItems lists the items by popularity as the method's values tell, for users without a history. It does
// so when the values tell for the first time and after the last round, unless devices were asked. That
// costs no privacy: the values are noisy if there is a guarantee.
func (c *Coordinator) rankItems() {
	known := c.catalogue.Current()
	if c.evaluations.Counted() || len(known.Popular) > 0 && c.engine.Next < c.settings().Rounds {
		return
	}
	popular := c.engine.Popular()
	if len(popular) == 0 || slices.Equal(popular, known.Popular) {
		return
	}
	next := proto.Clone(known).(*pb.Catalogue)
	next.Popular = popular
	next.Version++
	c.catalogue.Set(next, c.catalogue.Features())
}

// keepItems replaces the catalogue by that of a newer version, whose values are not used.
func (c *Coordinator) keepItems(newer *models.Version) error {
	items, err := c.models.LoadCatalogue(newer)
	if err != nil {
		return err
	}
	features, err := c.loadFeatures(newer.Features, newer.Items)
	if err == nil {
		err = c.grow(len(items.Items), features)
	}
	if err == nil {
		c.catalogue.Set(items, features)
	}
	return err
}

// loadFeatures reads the features that a version names; nil if it names none.
func (c *Coordinator) loadFeatures(name string, items int) (*rows.Features, error) {
	if name == "" {
		return nil, nil
	}
	b, err := c.models.Read(name)
	if err != nil {
		return nil, err
	}
	return wire.ReadFeatures(b, items)
}

// publicFeatures returns the part of features that everybody may know; nil if the method reads none.
func (s *Settings) publicFeatures(f *rows.Features, items int) (*rows.Features, error) {
	m, err := s.build()
	if err != nil {
		return nil, err
	}
	if _, reads := method.As[method.Featured](m); !reads || f == nil {
		return nil, nil
	}
	b, err := wire.Marshal(wire.EncodeFeatures(f))
	if err != nil {
		return nil, err
	}
	return wire.ReadFeatures(b, items)
}

// AddItems adds items or changes them, from the next round on.
func (c *Coordinator) AddItems(items []*pb.Item) (*AddedItems, error) {
	if !c.begun() {
		return nil, errNoRun
	}
	if len(items) == 0 || len(items) > 100_000 {
		return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("%d items: must be 1 to 100000", len(items)))
	}
	out, err := c.catalogue.Add(items)
	if errors.As(err, new(*catalogue.InvalidError)) {
		return nil, refusal(connect.CodeInvalidArgument, err)
	}
	if err == nil {
		c.requests.notify()
	}
	return out, err
}

// AddedItems is what AddItems will change.
type AddedItems = catalogue.Added

// takeItems merges pending items into the catalogue, as a new version of the model.
func (c *Coordinator) takeItems() error {
	n := c.catalogue.Pending()
	// A round that a kill interrupted has reports for the old catalogue on disk: it comes first.
	if n == 0 || c.collection.Interrupted() {
		return nil
	}
	items, features, err := c.catalogue.Next(n)
	if err == nil {
		err = c.grow(len(items.Items), features)
	}
	if err != nil {
		c.opt.Warn(fmt.Sprintf("pending items (%d) are discarded: %v", n, err))
	} else {
		c.catalogue.Set(items, features)
		if err := c.save(models.Outcome{}, false); err != nil {
			return err
		}
	}
	if err := c.fault("merged"); err != nil {
		return err
	}
	return c.catalogue.Remove(n)
}

// grow makes room for a larger catalogue, and gives the method its features. New rows start with the
// values that they would have had from the beginning.
func (c *Coordinator) grow(items int, features *rows.Features) error {
	old, oldPlan := c.engine, c.plan
	if items == oldPlan.Items && features == c.catalogue.Features() {
		return nil
	}
	if c.isTree() && items != oldPlan.Items {
		return errors.New("mechanism=tree spreads its noise over the rounds and cannot add items; " +
			"start a new run to add items")
	}
	if err := c.makeEngine(items, features); err != nil {
		return err
	}
	for i := range c.plan.Slots {
		was, is := &oldPlan.Slots[i], &c.plan.Slots[i]
		if was.Dim != is.Dim || was.Rows != is.Rows && !is.PerItem {
			c.install(old, oldPlan)
			return fmt.Errorf("slot %s of %s would change its shape with %d items; start a new run to add items",
				is.Name, c.settings().Method, items)
		}
	}
	for i := range c.plan.Slots {
		copy(c.engine.Value[i], old.Value[i])
		if s := old.State; s != nil && s[i].M != nil {
			c.engine.State[i] = s[i].Extend(len(c.engine.Value[i]))
		}
	}
	c.engine.Next = old.Next
	if old.Stack != nil {
		c.engine.Stack.Clip = old.Stack.Clip
	}
	return nil
}

// Export returns a model as a zip file of tables in a format, npy or csv; version 0 is the newest.
func (c *Coordinator) Export(version uint64, format string) ([]byte, error) {
	if !c.begun() {
		return nil, errNoRun
	}
	c.mu.Lock()
	slots := c.plan.Slots
	c.mu.Unlock()
	b, err := c.models.Export(version, format, slots)
	if err != nil {
		return nil, refusal(connect.CodeInvalidArgument, err)
	}
	return b, nil
}
