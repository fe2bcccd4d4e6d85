package coordinator

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/catalogue"
	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// Options are how a coordinator is run; they may change from start to start.
type Options struct {
	Dir   string           // where all of its state is. Required.
	Now   func() time.Time // Defaults to time.Now
	Warn  func(string)     // hears what an operator should know; may be nil
	Rate  float64          // check-ins a second that devices are paced to; defaults to 2000
	Event func(Event)      // hears of each round; may be nil
	// Features are columns that a Featured method reads, for a run that begins or that an
	// older program began. Of them only what is public is kept: what columns there are, and
	// the values of items.
	Features *rows.Features
	// Methods are the methods that a run may train. Nil means methods.Default().
	Methods *method.Registry

	fault func(point string) error                            // a test's: what goes wrong at a point of a round
	timer func(time.Duration) (<-chan time.Time, func() bool) // a test's: when the time of a masked round is up
}

// Event is a round that has ended.
type Event struct {
	Round, Rounds int
	Version       uint64
	Counted       int
	Asked         int
	Kept          bool
	Seconds       float64
	Epsilon       float64 // 0 without a promise
	Readout       *Readout
	Missed        string // why there is no readout, or no popularity in it
}

// Coordinator is a federation's one.
type Coordinator struct {
	opt       Options
	st        *store.Store
	id        [16]byte
	key       ed25519.PrivateKey
	secret    [32]byte // of privacy noise, and of the cohorts
	settings  Settings
	devices   *enrolment.Registry
	starting  sync.Mutex    // a run is begun once
	ready     chan struct{} // closed when there is a run
	models    *models.Models
	budget    *budget.Budget // nil without a privacy guarantee
	catalogue *catalogue.Catalogue

	// Of the run; only the loop of Run changes them.
	run      []byte
	plan     *local.Plan
	engine   *round.Engine
	bound    privacy.Bound
	ending   closedRound // the round whose outcome is to be kept
	attempts uint32      // at masked rounds since the start
	noise    [32]byte    // what the next release's noise is drawn from
	spent    bool        // the budget has no room for another round
	barred   string      // why nothing may be released any more; else empty
	// unreleased says that what the ledger has beyond the newest version was paid for a
	// release that nobody has seen.
	unreleased bool
	life       context.Context
	kill       context.CancelFunc
	running    sync.Mutex // held by Run

	mu       sync.Mutex
	times    int      // turns: how often the model went back; cohorts are never used twice
	place    place    // where devices of the round go; nil between rounds
	masked   *buckets // the last masked round's
	paused   bool
	state    string // for people
	back     uint64 // the version to go back to, or 0
	readouts []Readout
	slow     int               // how often steps of masked rounds were made twice as long
	outrun   bool              // devices came too late for a step
	missed   string            // why the last readout was not made
	reading  int               // the round whose readout was begun before a stop; 0 for none
	asked    []closedRound     // the last readouts' sums
	over     []closedRound     // the last rounds that ended
	lost     map[uint32]uint32 // by seat: the last round of which a device says that it is
	counted  bool              // popularity is known
	reach    int               // rounds that had begun when an operator last went back
	pace     time.Duration     // of rounds, smoothed
	opened   time.Time
	counts   map[string]int64
	seen     int64           // check-ins when the last round of independent draws began
	came     seatSet         // who is in a sum of these rounds, where devices choose themselves
	tried    map[uint32]bool // by seat: who has sent, in these rounds, what is in none
	refused  func() map[string]uint64
	wake     chan struct{}
	uploads  uploads
}

// place is a round in progress.
type place interface {
	// tasked is what a seat is to do; nil for nothing.
	tasked(seat uint32, now time.Time) *pb.Task
	// progress is how many of how many are done.
	progress() (done, of int)
}

// Open loads a coordinator's folder, with the run that it holds, if any.
func Open(opt Options) (c *Coordinator, err error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Warn == nil {
		opt.Warn = func(string) {}
	}
	if opt.Rate == 0 {
		opt.Rate = 2000
	}
	st, err := store.Open(opt.Dir, store.Options{Warn: opt.Warn})
	if err != nil {
		return nil, err
	}
	c = &Coordinator{
		opt: opt, st: st, counts: map[string]int64{}, lost: map[uint32]uint32{}, tried: map[uint32]bool{},
		wake: make(chan struct{}, 1), ready: make(chan struct{}), state: "starting", uploads: newUploads(),
	}
	c.life, c.kill = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	if err := c.identity(); err != nil {
		return c, err
	}
	if c.devices, err = enrolment.Open(st); err != nil {
		return c, err
	}
	if c.catalogue, err = catalogue.Open(st); err != nil {
		return c, err
	}
	c.models = models.New(models.Options{
		Store: st, Dir: opt.Dir, Federation: c.id[:], Signer: c.key, Fault: c.point,
	})
	return c, c.resume()
}

// ErrBegun says that the folder holds a run already.
var ErrBegun = errors.New("coord: this coordinator has a run: another one wants another folder")

// Begin begins a run, unless there is one with the same settings: then that goes on.
func (c *Coordinator) Begin(s Settings, items []*pb.Item) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	s.methods = c.opt.Methods
	if c.begun() {
		if !s.resumes(&c.settings) {
			return fmt.Errorf("%w: %s", ErrBegun, c.settings.differs(&s))
		}
		if c.settings.bits() == 0 && s.narrow(len(items)) {
			c.opt.Warn(fmt.Sprintf("the run was begun without bits, and goes on so: bits = %d is for another run",
				s.Bits))
		}
		return nil
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("coord: %w", err)
	}
	if c.settings = s; s.Features == nil {
		c.settings.Features = c.opt.Features
	}
	if err := c.begin(items); err != nil {
		c.settings = Settings{}
		return err
	}
	close(c.ready)
	return nil
}

// begun reports whether there is a run.
func (c *Coordinator) begun() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

func (c *Coordinator) now() time.Time { return c.opt.Now() }

// timer is a channel that hears when so long has passed, and how to stop it.
func (c *Coordinator) timer(d time.Duration) (<-chan time.Time, func() bool) {
	if c.opt.timer != nil {
		return c.opt.timer(d)
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// identity loads the federation's keys, or makes them.
func (c *Coordinator) identity() error {
	type keys struct{ ID, Seed, Secret []byte }
	b, err := c.st.Get("identity")
	var k keys
	switch {
	case errors.Is(err, store.ErrNotFound):
		k = keys{make([]byte, 16), make([]byte, ed25519.SeedSize), make([]byte, 32)}
		for _, x := range [][]byte{k.ID, k.Seed, k.Secret} {
			rand.Read(x)
		}
		if b, err = json.Marshal(k); err == nil {
			err = c.st.Put("identity", b)
		}
	case err == nil:
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return err
	}
	if len(k.ID) != 16 || len(k.Seed) != ed25519.SeedSize || len(k.Secret) != 32 {
		return errors.New("coord: the federation's keys are not keys")
	}
	copy(c.id[:], k.ID)
	copy(c.secret[:], k.Secret)
	c.key = ed25519.NewKeyFromSeed(k.Seed)
	return nil
}

// put keeps a small thing.
func (c *Coordinator) put(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.st.Put(key, b)
}

func (c *Coordinator) begin(items []*pb.Item) error {
	merged, err := catalogue.Merge(&pb.Catalogue{}, items)
	if err != nil {
		return err
	}
	if merged.Changed > 0 {
		return fmt.Errorf("%d items of the catalogue have the ID of another item", merged.Changed)
	}
	if err := c.settings.publicFeatures(len(items)); err != nil {
		return err
	}
	c.run = make([]byte, 16)
	rand.Read(c.run)
	if !c.settings.Rehearsal {
		var b [8]byte
		rand.Read(b[:])
		for _, x := range b {
			c.settings.Seed = c.settings.Seed<<8 | uint64(x)
		}
	}
	first := &pb.Catalogue{Version: 1, Items: items}
	if err := c.makeEngine(len(items)); err != nil { // before anything is on disk
		return err
	}
	name, blob, err := c.models.Put(first)
	if err == nil {
		_, err = wire.ReadCatalogue(blob, len(items))
	}
	if err != nil {
		return err
	}
	features, _, err := c.models.PutFeatures(c.settings.Features)
	if err != nil {
		return err
	}
	if err := c.put("run", kept{c.run, c.settings, name, len(items), features}); err != nil {
		return err
	}
	return c.first(first)
}

// first makes version 1: the starting values.
func (c *Coordinator) first(items *pb.Catalogue) error {
	c.models.Begin(c.run)
	c.catalogue.Set(items, c.settings.Features)
	if err := c.openBudget(); err != nil {
		return err
	}
	if err := c.recoverFromNothing(); err != nil {
		return err
	}
	if err := c.makeEngine(len(items.Items)); err != nil {
		return err
	}
	return c.save(models.Outcome{}, false)
}

// Close stops what is going on and closes the folder. Whatever was acknowledged is there.
func (c *Coordinator) Close() error {
	c.kill()
	c.running.Lock() // Run has ended
	defer c.running.Unlock()
	if c.devices != nil {
		c.devices.Close()
	}
	return errors.Join(c.budget.Close(), c.st.Close())
}

// openBudget opens the ledger of a run with a privacy guarantee.
func (c *Coordinator) openBudget() (err error) {
	if c.settings.DP.On() && c.budget == nil {
		c.budget, err = budget.Open(c.opt.Dir, hex.EncodeToString(c.run))
	}
	return err
}
