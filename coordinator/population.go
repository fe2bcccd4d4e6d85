package coordinator

import (
	"fmt"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/wire"
)

// Devices come and go, and rounds draw from those that are active. What the privacy accountant assumes
// about the population is enforced here:
//
//   - cohort=poisson draws each enrolled device independently, overdue ones too, and divides by a fixed
//     number: the number of devices does not matter.
//   - a cohort of a fixed size claims the rate count/Devices: a round begins only if at least Devices
//     devices are active, so nobody is drawn with a higher probability.
//   - mechanism=tree counts how often a device takes part, whatever the population: a device contributes
//     once in an epoch, and one that enrols during an epoch waits for the next.
//   - without sampling every active device may take part.
//
// A round that few devices can take part in costs as much as one with all of them. So with a privacy guarantee it
// begins only if the least share (Settings.Minimum) of the planned devices is there, and the same share of the
// active ones that were heard of since the start: see lacksCheckIns.

// sampled reports whether the privacy guarantee claims that the cohort is a secret random sample.
func (c *Coordinator) sampled() bool {
	s := c.settings()
	sampler, _ := s.Cohort.Sampling(s.Devices)
	return s.DP.On() && sampler != account.None
}

// requiredDevices is the number of active devices without which the next round does not begin.
func (c *Coordinator) requiredDevices() int {
	s := c.settings()
	n := 1
	if c.engine.Next == 0 && c.runNumber() <= 1 || c.sampled() && s.Cohort.Kind != "poisson" {
		n = s.Devices
	}
	if g := c.engine.Stack; g != nil {
		n = max(n, g.RequiredDevices(), c.minShare(s.Devices))
	}
	if s.Masked {
		n = max(n, c.minDevices(pb.Kind_TRAIN))
	}
	return n
}

// lacksDevices says why the next round cannot begin, and returns a channel that closes when that may
// have changed. The message is empty if the round can begin.
func (c *Coordinator) lacksDevices() (State, string, <-chan struct{}) {
	active, changed := c.devices.Count()
	required := c.requiredDevices()
	if active >= required || c.engine.Next > 0 { // otherwise it is not worth counting after each enrolment
		active = len(c.devices.Active(c.now()))
	}
	switch {
	case active >= required:
		return Training, "", changed
	case active == 0 && c.engine.Next > 0:
		return NoDevices, "no device is active: waiting for one to check in", changed
	}
	return WaitingForDevices, fmt.Sprintf("waiting for devices: %d of %d", active, required), changed
}

// minShare is the share of devices that is the least for a round, rounded up.
func (c *Coordinator) minShare(devices int) int {
	return int(math.Ceil(float64(devices) * c.settings().Minimum))
}

// lacksCheckIns says that the next round waits until enough active devices are there. Active devices may sleep:
// they were told to come in an hour when nothing was to do. With a privacy guarantee a round without them would
// cost as much as one with them. A device is there if it checked in since the last round began, or since a round
// became possible, or if it was told to check in before the deadline. The wait ends: each active device checks
// in when it was told to, or becomes overdue, and then the round waits for devices, as lacksDevices says. It depends
// on check-ins only, which reveal neither histories nor which devices will be drawn.
func (c *Coordinator) lacksCheckIns() (State, string) {
	s := c.settings()
	if !s.DP.On() || c.collection.Interrupted() { // a round that a kill interrupted has begun
		return Training, ""
	}
	now := c.now()
	if c.awaited.IsZero() {
		c.awaited = now
	}
	within := max(s.Deadline, 2*c.pollEvery(c.devices.ActiveCount()))
	here, heard := c.devices.Expected(c.awaited, now, within)
	required := max(1, c.minShare(s.Devices), c.minShare(heard))
	if here >= required {
		return Training, ""
	}
	return WaitingForCheckIns, fmt.Sprintf("round %d: waiting for devices to check in: %d of %d", c.engine.Next+1, here,
		required)
}

// draw appends the cohort of round t to dst, ascending. If the devices 0 to Devices-1 are active, it is
// the cohort that a simulation draws.
func (c *Coordinator) draw(t int, dst []uint32) []uint32 {
	s := c.settings()
	cohort, from := s.Cohort, c.devices.Active(c.now())
	switch {
	case cohort.ByCheckIn():
		return c.eligible(t, dst)
	case cohort.Kind == "cycle":
		return c.drawTurn(t, from, dst)
	case cohort.Kind == "poisson" && s.DP.On():
		from = c.devices.Members(c.now())
	case c.sampled(): // the same number from a population that may be larger than planned
		cohort = round.Cohort{Kind: "count", Count: int(cohort.Expected(s.Devices))}
	default:
		if limit := c.largestCohort(); cohort.Expected(len(from)) > float64(limit) {
			cohort = round.Cohort{Kind: "count", Count: limit}
		}
	}
	population := len(from)
	if c.sampled() && cohort.Kind == "count" { // devices may have gone since the round was allowed to begin
		population = max(population, s.Devices)
	}
	for _, i := range cohort.DrawFrom(c.cohortStreams(), t, population, nil) {
		if int(i) < len(from) {
			dst = append(dst, from[i])
		}
	}
	return dst
}

// largestCohort is the number of devices whose sum fits: masks are planned for a largest sum, and other
// sums have 63 bits. A larger population is truncated at random, if no sampling is claimed.
func (c *Coordinator) largestCohort() int {
	s := c.settings()
	switch {
	case s.Masked:
		return int(s.Cohort.Expected(s.Devices))
	case c.engine.Bound != nil:
		return int((1 << 62) / maxInteger(*c.engine.Bound))
	}
	return wire.MaxDevices
}

// cohortStreams are the random streams of cohorts. They are secret: the accountant assumes that nobody
// knows which devices are in a cohort.
func (c *Coordinator) cohortStreams() round.Streams {
	if c.settings().Deterministic {
		return round.SeedStreams(c.settings().Seed)
	}
	return round.KeyedStreams(c.noise.CohortKey(c.runID(), c.rollbacks.count))
}

// drawTurn appends the active devices whose turn it is. Without a privacy guarantee nobody counts turns:
// a turn whose devices are all gone goes to others.
func (c *Coordinator) drawTurn(t int, active, dst []uint32) []uint32 {
	s := c.settings()
	turn := s.Cohort.Turn(c.cohortStreams(), t, s.Devices, c.settled(t, active))
	if len(turn) == 0 && !s.DP.On() {
		count := round.Cohort{Kind: "count", Count: int(s.Cohort.Expected(s.Devices))}
		for _, i := range count.DrawFrom(c.cohortStreams(), t, len(active), nil) {
			turn = append(turn, active[i])
		}
	}
	return append(dst, turn...)
}

// eligible appends the devices that may still contribute in this epoch. Those that are overdue may check
// in at any time.
func (c *Coordinator) eligible(t int, dst []uint32) []uint32 {
	return c.collection.Participation.Eligible(dst, c.settled(t, c.devices.Members(c.now())))
}

// substitutes are active devices outside of a cohort that may take the places of devices that did not
// come. The list is empty if sampling is claimed: a sample that is replaced until it is convenient is not a
// random sample, and that it was replaced would reveal which devices were drawn.
func (c *Coordinator) substitutes(t int, cohort []uint32, places int) []uint32 {
	s := c.settings()
	if c.sampled() {
		return nil
	}
	var from []uint32
	switch {
	case s.Cohort.ByCheckIn(), s.Cohort.Kind == "cycle" && s.DP.On():
		from, places = c.draw(t, nil), wire.MaxDevices
	case s.Cohort.All():
		from, places = c.devices.Active(c.now()), max(0, c.largestCohort()-len(cohort)+places)
	default:
		from = c.devices.Active(c.now())
	}
	from = slices.DeleteFunc(slices.Clone(from), func(id uint32) bool {
		_, in := slices.BinarySearch(cohort, id)
		return in
	})
	return c.atMost(places, t, from)
}

// atMost draws a number of devices of a list if it has more.
func (c *Coordinator) atMost(n, t int, from []uint32) []uint32 {
	if len(from) <= n {
		return from
	}
	pick := round.Cohort{Kind: "count", Count: n}.DrawFrom(c.cohortStreams(), t, len(from), nil)
	for i, x := range pick {
		pick[i] = from[x]
	}
	return pick
}

// epochStart is the number of enrolments when an epoch of a participation limit began.
type epochStart struct {
	Run        []byte `json:"run"`
	Epoch      int    `json:"epoch"`
	Enrolments int    `json:"enrolments"`
}

const epochKey = "epoch"

// beginEpoch notes, before a round, how many devices have enrolled when its epoch begins. It does nothing
// without a guarantee that depends on a participation limit.
func (c *Coordinator) beginEpoch(t int) error {
	s := c.settings()
	every := s.Cohort.Epoch(s.Devices)
	if !s.DP.On() || every == 0 {
		c.epoch = epochStart{}
		return nil
	}
	now := epochStart{c.runID(), t / every, c.devices.Enrolments()}
	if c.epoch.Run == nil {
		if err := c.st.GetJSON(epochKey, &c.epoch); err != nil {
			return err
		}
	}
	if string(c.epoch.Run) == string(now.Run) && c.epoch.Epoch == now.Epoch {
		return nil
	}
	if err := c.st.PutJSON(epochKey, now); err != nil {
		return err
	}
	c.epoch = now
	return nil
}

// settled are the devices that may take part in the epoch. A device that enrols during an epoch waits for
// the next one: otherwise a device that leaves and enrols again with another key would take part twice.
func (c *Coordinator) settled(t int, devices []uint32) []uint32 {
	if c.epoch.Run == nil {
		return devices
	}
	return c.devices.EnrolledBefore(devices, c.epoch.Enrolments)
}
