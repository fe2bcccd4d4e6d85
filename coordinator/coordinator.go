// Package coordinator is the server of a federation. It tells devices that check in what to do,
// adds up what they send, and publishes the models that the round engine makes of the sums. It
// keeps all of its state in one folder, so that it may be killed at any moment, and never sees a
// user's history.
//
// The coordinator is a loop over parts that have their own locks, each a package below internal:
// enrolment, collection, models, catalogue, evaluation, budget and noise. Its one convention:
// whatever is acknowledged is on disk first.
package coordinator

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/catalogue"
	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/evaluation"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/coordinator/internal/noise"
	"github.com/tacit-rec/tacit/coordinator/internal/operators"
	"github.com/tacit-rec/tacit/coordinator/internal/schedule"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/method"
)

// Options say how to run a coordinator. They may change from start to start.
type Options struct {
	Dir      string           // the folder of all its state; required
	Now      func() time.Time // defaults to time.Now
	Warn     func(string)     // receives warnings for the operator; may be nil
	CheckIns CheckIns         // how often devices check in
	Event    func(Event)      // receives an event after each round; may be nil
	// Info receives records of normal operation: a message, then keys and values as log/slog takes them. It may be
	// nil.
	Info func(message string, fields ...any)
	// Enrolment says how devices without a token of the operator may enrol. By default none can.
	Enrolment EnrolmentLimits
	// Features are columns that the method reads, for a run that begins. The coordinator keeps only
	// their public part: the columns and the values of items.
	Features *rows.Features
	// Schedule says when runs start, such as daily@03:00 in UTC; empty for runs on demand only.
	Schedule string
	// Methods are the methods that a run may train. Nil means methods.Default().
	Methods *method.Registry

	fault  func(point string) error                            // tests let a step of a round fail
	wall   func() time.Time                                    // the time of day
	refuse func() error                                        // tests let a write of the store fail
	probe  time.Duration                                       // between attempts to write to a full disk
	slow   time.Duration                                       // after which a write counts as slow
	watch  time.Duration                                       // between looks at the machine
	memory func() (used, limit int64)                          // tests limit the memory
	timer  func(time.Duration) (<-chan time.Time, func() bool) // tests end the steps of a masked round
	hold   time.Duration                                       // of calls of masked rounds; 0 means holdCalls
}

// EnrolmentLimits say how devices without a token of the operator may enrol.
type EnrolmentLimits = enrolment.Limits

// Event describes a round that has ended.
type Event struct {
	Round, Rounds    int
	Version          uint64
	Sampled          bool   // the cohort is a secret sample: Counted and Cohort are 0
	Counted          int    // devices in the sum
	Cohort           int    // devices of the cohort
	Discarded        bool   // too few devices, or the model was rejected: the model is that of before
	Rejected         string // why the model of the round was rejected; otherwise empty
	Seconds          float64
	Epsilon          float64 // 0 without a privacy guarantee
	Evaluation       *Evaluation
	EvaluationMissed string // why there is no evaluation, or no popularity in it
}

// Evaluation is the result of a federated evaluation.
type Evaluation = evaluation.Result

// Coordinator is the server of one federation.
type Coordinator struct {
	opt      Options
	st       *store.Store
	identity identity
	latest   atomic.Pointer[current] // the newest run
	starting sync.Mutex              // held by Begin
	ready    chan struct{}           // closed when there is a run
	running  sync.Mutex              // held by Run
	life     context.Context
	kill     context.CancelFunc
	commands chan func() error // what only the loop may do, while it is idle
	schedule schedule.Schedule

	// Parts with their own locks.
	devices     *enrolment.Registry
	models      *models.Models
	catalogue   *catalogue.Catalogue
	collection  *collection.Collection
	evaluations *evaluation.Log
	budget      *budget.Budget // nil without a privacy guarantee
	requests    *requests
	progress    progress
	admin       admin

	noise *noise.Source
	training

	mu        sync.Mutex // guards what follows
	plan      *local.Plan
	engine    *round.Engine
	rollbacks rollbacks
	interrupt context.CancelCauseFunc // ends the round in progress; nil without one
	shown     *proof                  // the newest one that a device has shown
}

// training is what only the loop changes.
type training struct {
	closing    collection.Closed // the round whose outcome is being saved
	attempts   uint32            // at masked sums since the start
	awaited    time.Time         // since when devices are awaited for the next round; zero if none can begin
	epoch      epochStart        // of the participation limit
	spent      bool              // the budget does not cover another round
	stopped    string            // why nothing may be released any more; otherwise empty
	unreleased bool              // the ledger has entries, beyond the newest version, for releases that nobody saw
	announced  announced         // the ledger lines since the newest version
	handled    time.Time         // scheduled starts up to this time were handled
	proof      *proof            // that the folder is older than what was released; otherwise nil
}

// rollbacks is how often the model was rolled back, so that no cohort is used twice.
type rollbacks struct {
	count  int
	rounds int // that had begun at the last one: their reports may be in no sum
}

// Keys of the store.
const (
	runKey            = "run"
	rollbacksKey      = "rollbacks"
	rollbackRoundsKey = "rollback-rounds"
	stoppedKey        = "stopped"
	handledKey        = "schedule"
)

// Open loads a coordinator's folder, with the run that it holds, if any.
func Open(opt Options) (c *Coordinator, err error) {
	if opt.Info == nil {
		opt.Info = func(string, ...any) {}
	}
	if opt.Warn == nil {
		opt.Warn = func(string) {}
	}
	opt.CheckIns.setDefaults()
	when, err := schedule.Parse(opt.Schedule)
	if err != nil {
		return nil, err
	}
	if opt.refuse == nil {
		opt.refuse = refusedWrites()
	}
	if opt.memory == nil {
		opt.memory = usedMemory
	}
	opt.watch = cmp.Or(opt.watch, watchEvery)
	if err := refuseIncomplete(opt.Dir); err != nil {
		return nil, err
	}
	st, err := store.Open(opt.Dir, store.Options{
		Warn: opt.Warn, ProbeEvery: opt.probe, Refuse: opt.refuse, SlowAfter: opt.slow,
	})
	if err != nil {
		return nil, err
	}
	c = &Coordinator{
		opt: opt, st: st, admin: admin{durations: newDurations()}, ready: make(chan struct{}),
		commands: make(chan func() error), schedule: when,
	}
	if c.opt.wall = opt.Now; opt.Now == nil {
		c.opt.wall = wallClock
		c.opt.Now = newClock(wallClock, func(by time.Duration) { go c.clockStepped(by) }).now
	}
	c.progress.trouble = c.trouble
	c.progress.memory.read, c.progress.memory.every = opt.memory, opt.watch
	c.latest.Store(&current{})
	c.progress.info, c.progress.warn, c.progress.now = opt.Info, opt.Warn, c.opt.Now
	c.progress.set(Starting, "starting")
	c.life, c.kill = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	if err := c.openParts(); err != nil {
		return c, err
	}
	return c, c.resume()
}

func (c *Coordinator) openParts() (err error) {
	if c.identity, err = loadIdentity(c.st); err != nil {
		return err
	}
	c.noise = noise.New(c.identity.secret)
	c.models = models.New(models.Options{
		Store: c.st, Dir: c.opt.Dir, Federation: c.identity.id[:], Signer: c.identity.key, Fault: c.fault,
	})
	if c.devices, err = enrolment.Open(c.st, c.identity.id[:], c.opt.Enrolment, c.now()); err != nil {
		return err
	}
	c.devices.SetLedger(c.enrolmentLine)
	if c.catalogue, err = catalogue.Open(c.st); err != nil {
		return err
	}
	if c.collection, err = collection.New(c.st); err != nil {
		return err
	}
	if c.evaluations, err = evaluation.Open(c.st); err != nil {
		return err
	}
	if c.admin.operators, err = operators.Open(c.st); err != nil {
		return err
	}
	if err := c.openAudit(); err != nil {
		return err
	}
	c.requests, err = openRequests(c.st)
	return err
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

// timer returns a channel that receives after a time, and a function that stops it.
func (c *Coordinator) timer(d time.Duration) (<-chan time.Time, func() bool) {
	if c.opt.timer != nil {
		return c.opt.timer(d)
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// fault lets tests interrupt a step.
func (c *Coordinator) fault(point string) error {
	if c.opt.fault == nil {
		return nil
	}
	return c.opt.fault(point)
}

// Close stops the loop and closes the folder. Whatever was acknowledged is on disk.
func (c *Coordinator) Close() error {
	c.kill()
	closed := make(chan struct{})
	defer close(closed)
	go c.releaseWrites(closed)
	c.running.Lock() // Run has returned
	defer c.running.Unlock()
	if c.devices != nil {
		c.devices.Close()
	}
	return errors.Join(c.budget.Close(), c.admin.log.Close(), c.st.Close())
}

// identity is the keys of a federation.
type identity struct {
	id     [16]byte
	key    ed25519.PrivateKey
	secret [32]byte // of noise and cohorts
}

const identityKey = "identity"

// loadIdentity loads the federation's keys, or makes them.
func loadIdentity(st *store.Store) (out identity, err error) {
	var saved struct{ ID, Seed, Secret []byte }
	if err := st.GetJSON(identityKey, &saved); err != nil {
		return out, fmt.Errorf("the federation's key file is corrupt: %w", err)
	}
	if saved.ID == nil {
		saved.ID, saved.Seed, saved.Secret = make([]byte, 16), make([]byte, ed25519.SeedSize), make([]byte, 32)
		for _, b := range [][]byte{saved.ID, saved.Seed, saved.Secret} {
			rand.Read(b)
		}
		if err := st.PutJSON(identityKey, saved); err != nil {
			return out, err
		}
	}
	if len(saved.ID) != 16 || len(saved.Seed) != ed25519.SeedSize || len(saved.Secret) != 32 {
		return out, errors.New("the federation's key file is corrupt: a key has the wrong length")
	}
	copy(out.id[:], saved.ID)
	copy(out.secret[:], saved.Secret)
	out.key = ed25519.NewKeyFromSeed(saved.Seed)
	return out, nil
}
