package coordinator

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// CountRefusals sets where the server counts refused requests, by code.
func (c *Coordinator) CountRefusals(byCode func() map[string]uint64) {
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.progress.refused = byCode
}

var errNoRun = refusal(connect.CodeFailedPrecondition, errors.New("no run has begun: tacit admin begin"))

// refusal is an error whose text reaches the operator. The server replaces the text of errors
// without a code.
func refusal(code connect.Code, err error) error {
	reason := rpc.Malformed
	switch code {
	case connect.CodeFailedPrecondition:
		reason = rpc.NotNow
	case connect.CodeNotFound:
		reason = rpc.NotFound
	}
	return rpc.Refuse(reason, code, "%v", err)
}

// Token makes a token that lets a number of devices enrol within a time.
func (c *Coordinator) Token(uses int, valid time.Duration, note string) (string, error) {
	if uses < 1 || valid <= 0 {
		return "", fmt.Errorf("uses = %d, valid for %v: both must be above 0", uses, valid)
	}
	return c.devices.NewToken(uses, c.now().Add(valid), note)
}

// Pause pauses training after the round in progress, or resumes it.
func (c *Coordinator) Pause(pause bool) error {
	if !c.begun() {
		return errNoRun
	}
	return c.requests.setPause(pause)
}

// Rollback requests an older model, from the next round on.
func (c *Coordinator) Rollback(version uint64) error {
	if !c.begun() {
		return errNoRun
	}
	v, err := c.models.Find(version)
	if err != nil {
		return err
	}
	if v == nil {
		return refusal(connect.CodeNotFound, fmt.Errorf("version %d is not on disk: tacit admin history lists "+
			"the versions that are", version))
	}
	earlier := v.Run != c.runHex() // its values come back, and rounds are not repeated
	state, _ := c.progress.get()
	if c.isTree() && !(earlier && state.Over()) {
		return refusal(connect.CodeFailedPrecondition, errors.New("mechanism=tree spreads its noise over "+
			"the rounds and cannot be rolled back; tacit admin end, then tacit admin begin"))
	}
	if c.settings().Cohort.ByCheckIn() && !earlier {
		return refusal(connect.CodeFailedPrecondition, errors.New("cohort=checkin: devices decline rounds that "+
			"they have seen, so the run cannot be rolled back; tacit admin end, then tacit admin begin"))
	}
	return c.requests.setRollback(version)
}

// Readmit ends the exclusion of a device.
func (c *Coordinator) Readmit(id uint32) error {
	if !c.devices.Enrolled(id) {
		return refusal(connect.CodeNotFound, fmt.Errorf("device %d is not enrolled", id))
	}
	if c.devices.Barred(id) != enrolment.Excluded {
		return refusal(connect.CodeFailedPrecondition, fmt.Errorf("device %d is not excluded", id))
	}
	return c.devices.Readmit(id)
}

// rollBack restores an older model, as a new version. The budget that was spent stays spent, and no
// noise is used again.
func (c *Coordinator) rollBack() error {
	to := c.requests.rollbackTo()
	if to == 0 {
		return nil
	}
	v, err := c.models.Find(to)
	if err != nil {
		return err
	}
	if v == nil {
		c.opt.Warn(fmt.Sprintf("cannot roll back: version %d is no longer on disk", to))
		return c.requests.endRollback(to)
	}
	if err := c.models.Check(v); err != nil {
		c.opt.Warn(fmt.Sprintf("cannot roll back: %v", err))
		return c.requests.endRollback(to)
	}
	if err := c.payForSums(); err != nil {
		return err
	}
	if err := c.countRollback(); err != nil {
		return err
	}
	if v.Run != c.runHex() {
		fits, err := c.restoreEarlier(v)
		if err != nil {
			return err
		}
		if !fits {
			c.opt.Warn(fmt.Sprintf("cannot roll back: the tables of version %d, of run %d, have other shapes than "+
				"those of run %d", to, v.RunNumber, c.runNumber()))
			return c.requests.endRollback(to)
		}
	} else if err := c.restore(v); err != nil {
		return err
	}
	if err := c.collection.DropReports(""); err != nil {
		return err
	}
	c.spent = false
	if err := c.save(models.Outcome{}, true); err != nil {
		return err
	}
	return c.requests.endRollback(to)
}

// restore loads the values of an older version. The catalogue stays as it is now: retired items stay
// retired, and items that were added since have the values of untrained ones.
func (c *Coordinator) restore(v *models.Version) error {
	items, features := len(c.catalogue.Current().Items), c.catalogue.Features()
	if v.Items != items {
		var err error
		if features, err = c.loadFeatures(v.Features, v.Items); err != nil {
			return err
		}
	}
	if err := c.makeEngine(v.Items, features); err != nil {
		return err
	}
	if err := c.load(v); err != nil {
		return err
	}
	return c.grow(items, c.catalogue.Features())
}

// restoreEarlier loads the values of a version of an earlier run. The rounds of the newest run are not
// repeated. It reports false if the tables have other shapes.
func (c *Coordinator) restoreEarlier(v *models.Version) (bool, error) {
	e, p, err := c.newEngine(c.latest.Load(), len(c.catalogue.Current().Items), c.catalogue.Features())
	if err != nil {
		return false, err
	}
	fits, err := c.continueFrom(c.settings(), e, p, v)
	if err != nil || !fits {
		return false, err
	}
	e.Next = c.engine.Next
	if e.Stack != nil {
		e.Stack.Clip = c.engine.Stack.Clip
	}
	c.install(e, p)
	return true, nil
}

// countRollback counts a roll back before it happens, so that the rounds which follow draw other
// cohorts.
func (c *Coordinator) countRollback() error {
	next := rollbacks{count: c.rollbacks.count + 1, rounds: max(c.rollbacks.rounds, c.engine.Next+1)}
	err := errors.Join(c.st.PutJSON(rollbackRoundsKey, next.rounds), c.st.PutJSON(rollbacksKey, next.count))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rollbacks = next
	return nil
}

// Revoke refuses a device from now on.
func (c *Coordinator) Revoke(id uint32) error {
	if !c.devices.Enrolled(id) {
		return refusal(connect.CodeNotFound, fmt.Errorf("device %d is not enrolled", id))
	}
	return c.devices.Revoke(id)
}
