package coordinator

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/catalogue"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// ErrBegun says that the newest run is not over.
var ErrBegun = errors.New("this coordinator has a run that is not finished: continue it with its settings, or end it " +
	"with tacit admin end")

// Begin begins a run. If the newest run has the same settings, it continues, or stays finished:
// BeginRun begins another one.
func (c *Coordinator) Begin(s Settings, items []*pb.Item) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	s.methods = c.opt.Methods
	if !c.begun() {
		return c.beginFirst(s, items)
	}
	if given := &c.latest.Load().given; s.resumes(given) {
		return nil
	}
	return c.beginInLoop(&s, items)
}

// BeginRun begins a run on demand: the first run, or the next one after the newest has ended. Settings that
// are nil are those of the newest run, and items are added to the catalogue.
func (c *Coordinator) BeginRun(s *Settings, items []*pb.Item) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	if s != nil {
		s.methods = c.opt.Methods
	}
	switch {
	case c.begun():
		return c.beginInLoop(s, items)
	case s == nil:
		return errNoRun
	}
	return c.beginFirst(*s, items)
}

// BeginNext begins another run with the settings of the newest one.
func (c *Coordinator) BeginNext() error { return c.BeginRun(nil, nil) }

// start is what a run starts with. prepare fills in the second part.
type start struct {
	current
	items    *pb.Catalogue
	features *rows.Features
	base     *models.Version // whose values are the first ones; nil for initial values

	budget *budget.Budget // the ledger; nil if no run had a privacy guarantee
	engine *round.Engine
	plan   *local.Plan
}

// beginFirst begins the first run of a folder.
func (c *Coordinator) beginFirst(s Settings, items []*pb.Item) error {
	if err := s.Check(); err != nil {
		return err
	}
	features := s.Features
	if features == nil {
		features = c.opt.Features
	}
	s.Features = nil
	merged, err := catalogue.Merge(&pb.Catalogue{}, items)
	if err != nil {
		return err
	}
	if merged.Changed > 0 {
		return fmt.Errorf("%d items of the catalogue have the ID of another item: IDs must be unique", merged.Changed)
	}
	if features, err = s.publicFeatures(features, len(items)); err != nil {
		return err
	}
	// A repair may have lost the runs before: their numbers are not used again.
	number := 1
	if p, err := models.ReadPublished(c.opt.Dir); err == nil && p != nil {
		number = p.RunNumber + 1
	}
	// The ledger may name a run that is on disk and could not start: this one replaces it and counts once.
	var failed savedRun
	if err := c.st.GetJSON(runKey, &failed); err != nil {
		return err
	}
	number = cmp.Or(failed.Number, number)
	b := &start{current: c.newRun(number, s), items: &pb.Catalogue{Version: 1, Items: items}, features: features}
	if failed.Run != nil {
		b.id = failed.Run
	}
	if err := c.writeStart(b); err != nil {
		return err
	}
	if err := c.startRun(b); err != nil {
		c.latest.Store(&current{})
		return err
	}
	close(c.ready)
	return nil
}

// newRun draws the ID and the seed of a run.
func (c *Coordinator) newRun(number int, given Settings) current {
	out := current{
		id: make([]byte, 16), number: number, settings: given, given: given, begun: c.now().UTC().Truncate(time.Second),
	}
	rand.Read(out.id)
	if out.settings.Seed += uint64(number - 1); !given.Deterministic {
		var b [8]byte
		rand.Read(b[:])
		out.settings.Seed = binary.LittleEndian.Uint64(b[:])
	}
	return out
}

// writeStart prepares a run and writes it to disk. One write makes the run true; if writeStart returns an error,
// it was not made, and the coordinator is as before.
func (c *Coordinator) writeStart(b *start) (err error) {
	defer func() {
		if err != nil && b.budget != c.budget {
			err = errors.Join(err, b.budget.Close())
		}
	}()
	if err := c.prepare(b); err != nil {
		return err
	}
	if err := c.checkStart(b); err != nil {
		return err
	}
	n := len(b.items.Items)
	name, text, err := c.models.Put(b.items)
	if err != nil {
		return err
	}
	if _, err := wire.ReadCatalogue(text, n); err != nil {
		return err
	}
	features, _, err := c.models.PutFeatures(b.features)
	if err != nil {
		return err
	}
	saved := savedRun{
		Run: b.id, Number: b.number, Settings: b.settings, Given: b.given, Items: name, Count: n, Features: features,
		Begun: b.begun, Earlier: b.earlier,
	}
	if b.base != nil {
		saved.From = b.base.Version
	}
	if err := c.payForSums(); err != nil {
		return err
	}
	if err := c.st.PutJSON(runKey, saved); err != nil {
		return err
	}
	c.models.Keep(saved.Items, saved.Features)
	return nil
}

// prepare makes the engine of a run, with its first values. It changes nothing of the coordinator.
func (c *Coordinator) prepare(b *start) (err error) {
	if b.budget, err = c.ledgerOf(&b.settings); err != nil {
		return err
	}
	if err := c.checkBudget(b.budget, b.base); err != nil {
		return err
	}
	if b.engine, b.plan, err = c.newEngine(&b.current, len(b.items.Items), b.features); err != nil {
		return err
	}
	if b.engine.Stack != nil {
		b.engine.Ledger = b.budget
	}
	if b.base != nil {
		b.continues, err = c.continueFrom(&b.settings, b.engine, b.plan, b.base)
	}
	return err
}

// startRun starts a prepared run that is on disk: nothing of the run before but its model remains. It may be
// repeated until the first version of the run is on disk.
func (c *Coordinator) startRun(b *start) error {
	if err := c.fault("begun"); err != nil {
		return err
	}
	c.progress.set(Starting, fmt.Sprintf("run %d begins", b.number))
	if b.base != nil && !b.continues {
		c.opt.Warn(fmt.Sprintf("run %d starts from initial values: the tables of %s have other shapes than those "+
			"of version %d", b.number, b.settings.Method, b.base.Version))
	}
	c.setLedger(b.budget)
	c.latest.Store(&b.current)
	c.models.Begin(b.id)
	c.catalogue.Set(b.items, b.features)
	for _, step := range []func() error{
		c.clearRun, func() error { return c.recoverNumbers(b.base) }, c.nameRun,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.engine.Seed = c.groupSeed()
	c.install(b.engine, b.plan)
	if err := c.dropSums(); err != nil {
		return err
	}
	return c.save(models.Outcome{}, false)
}

// clearRun removes what belongs to the run before.
func (c *Coordinator) clearRun() error {
	c.spent, c.stopped = false, ""
	c.collection.EnterAttempt(nil)
	c.collection.Enter(nil)
	c.collection.Participation.Clear()
	c.mu.Lock()
	c.rollbacks.rounds = 0
	c.mu.Unlock()
	return errors.Join(
		c.collection.History.Clear(), c.evaluations.BeginRun(c.runNumber()),
		c.noise.LoadNodes(nil), c.st.PutJSON(stoppedKey, ""), c.st.PutJSON(rollbackRoundsKey, 0),
	)
}

// continueFrom puts the values of a version of an earlier run into an engine. It reports false, and
// leaves the engine as it is, if the method or the shape of a table differs. Tables and rows with a number per item
// may have grown. What only the server uses starts anew if its shape differs.
func (c *Coordinator) continueFrom(s *Settings, e *round.Engine, p *local.Plan, v *models.Version) (bool, error) {
	b, err := c.models.Read(v.Plan)
	if err != nil {
		return false, err
	}
	was := &pb.Plan{}
	if err := proto.Unmarshal(b, was); err != nil {
		return false, fmt.Errorf("version %d: the plan is corrupt: %w", v.Version, err)
	}
	if was.Method != s.Method || len(was.Shape) != 2*len(p.Slots) || int(was.Items) > p.Items {
		return false, nil
	}
	slots := append(p.Slots[:0:0], p.Slots...)
	values, isNew := make([][]float32, len(slots)), make([]bool, len(slots))
	for i := range slots {
		slot := &slots[i]
		rows, dim := int(was.Shape[2*i]), int(was.Shape[2*i+1])
		fits := dim == slot.Dim && (rows == slot.Rows || slot.PerItem && rows < slot.Rows)
		isRow := rows == 1 && slot.Rows == 1 && dim == int(was.Items) && slot.Dim == p.Items
		if !fits && !isRow {
			if slot.Scope != method.Server {
				return false, nil
			}
			isNew[i] = true
		}
		slot.Rows, slot.Dim = rows, dim
		values[i] = make([]float32, rows*vec.Pad(dim))
		copy(values[i], e.Value[i]) // the coordinator keeps no values of some slots
	}
	if err := c.models.Load(v, slots, values, round.New(e.Config, p, e.Devices, nil, 0).State); err != nil {
		return false, err
	}
	for i, v := range values {
		if slots[i].Dim < p.Slots[i].Dim {
			v = v[:slots[i].Dim] // without padding
		}
		if !isNew[i] {
			copy(e.Value[i], v)
		}
	}
	return true, nil
}

// ledgerOf opens the ledger, if a run with these settings, an earlier one, or one that the folder does not know has
// a privacy guarantee.
func (c *Coordinator) ledgerOf(s *Settings) (*budget.Budget, error) {
	_, err := os.Stat(filepath.Join(c.opt.Dir, budget.File))
	proven := c.proof != nil && c.proof.LedgerLines > 0
	if c.budget != nil || err != nil && !s.DP.On() && !proven {
		return c.budget, nil
	}
	b, err := budget.Open(c.opt.Dir, hex.EncodeToString(c.identity.id[:]))
	if err != nil {
		return nil, err
	}
	b.RetryWith(c.st.Retry)
	b.AnnounceWith(c.announce)
	return b, nil
}

func (c *Coordinator) setLedger(b *budget.Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = b
}

// openLedger is the ledger, for all goroutines; nil if no run had a privacy guarantee.
func (c *Coordinator) openLedger() *budget.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// nameRun records the run in the ledger, before its first release. A stopped run releases nothing, so a new
// budget period does not count it.
func (c *Coordinator) nameRun() error {
	if !c.settings().DP.On() || c.stopped != "" {
		return nil
	}
	return c.budget.BeginRun(hex.EncodeToString(c.runID()), c.runNumber())
}
