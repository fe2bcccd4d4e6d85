package coordinator

import (
	"math/rand/v2"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/masked"
)

// CheckIns limits how often devices check in. The coordinator tells each device when to come again:
//
//   - During rounds: when the next one should begin.
//   - While it waits for devices or for an operator: after half the time that it has waited so far, at least
//     MinInterval, since what has just begun to wait often ends soon.
//   - While a round waits for check-ins: the same, at most half a deadline, so that they are there when it begins.
//   - If all rounds are done: the same, at least IdleInterval, or just after the next scheduled start.
//
// No interval exceeds MaxInterval unless the rate requires it, and each varies at random by a quarter, so
// that devices do not come all at once.
type CheckIns struct {
	Rate         float64       // check-ins per second of all devices together; defaults to 2000
	MinInterval  time.Duration // shortest interval while the coordinator waits; defaults to 5 s
	IdleInterval time.Duration // shortest interval if all rounds are done; defaults to 5 min
	MaxInterval  time.Duration // longest interval; defaults to 1 h
}

// setDefaults fills in what is not set.
func (p *CheckIns) setDefaults() {
	if p.Rate == 0 {
		p.Rate = 2000
	}
	for _, x := range []struct {
		interval *time.Duration
		fallback time.Duration
	}{{&p.MinInterval, 5 * time.Second}, {&p.IdleInterval, 5 * time.Minute}, {&p.MaxInterval, time.Hour}} {
		if *x.interval == 0 {
			*x.interval = x.fallback
		}
	}
	p.IdleInterval = min(p.IdleInterval, p.MaxInterval)
	p.MinInterval = min(p.MinInterval, p.IdleInterval)
}

// testInterval is the shortest interval of a deterministic federation, which is a test.
const testInterval = 50 * time.Millisecond

// after is when a device that has nothing to do should check in again. It does not depend on what the
// device or others did in the round in progress: under a privacy guarantee that is secret.
func (c *Coordinator) after(now time.Time) time.Duration {
	every := c.pollEvery(c.devices.ActiveCount())
	if state, _ := c.progress.get(); state == BetweenRuns {
		day := c.timeOfDay()
		if left := c.schedule.Next(day).Sub(day); left <= c.opt.CheckIns.MaxInterval {
			spread := max(every, c.opt.CheckIns.MinInterval) // after the start, not all at once
			return left + time.Duration(rand.Float64()*float64(spread))
		}
	}
	wait := max(c.interval(now), every)
	return time.Duration(float64(wait) * (0.75 + 0.5*rand.Float64()))
}

// interval is how long a device should wait, whatever the rate.
func (c *Coordinator) interval(now time.Time) time.Duration {
	p := c.opt.CheckIns
	state, since := c.progress.lasting()
	least := p.MinInterval
	if c.begun() && c.settings().Deterministic {
		least = min(least, testInterval)
	}
	switch state {
	case Training, Evaluating:
		return c.roundInterval(now)
	case BetweenRuns, Finished, BudgetSpent, Stopped, Outdated:
		least = p.IdleInterval
	case WaitingForCheckIns:
		return min(max(least, now.Sub(since)/2), c.settings().Deadline/2)
	case WaitingForDevices:
		if last := c.devices.LastEnrolment(); last.After(since) {
			since = last
		}
	}
	return min(max(least, now.Sub(since)/2), p.MaxInterval)
}

// roundInterval is how long a device should wait during rounds.
func (c *Coordinator) roundInterval(now time.Time) time.Duration {
	taken, average := c.progress.timing(now)
	wait := min(average/8, 2*time.Second)
	open := c.collection.Open()
	if _, gathering := open.(*masked.WaitingRoom); gathering || open == nil {
		return wait
	}
	deadline := c.settings().Deadline
	if c.sampled() { // a round ends at its deadline, whoever reports
		return max(wait, deadline-taken)
	}
	left := average - taken
	if done, expected := open.Progress(); done > expected/8 && !c.settings().DP.On() {
		// What is missing, at the rate so far. With a privacy guarantee the number of reports is secret.
		rest := taken * time.Duration(max(expected-done, 0)) / time.Duration(done)
		if left < 0 || rest < left {
			left = rest
		}
		return max(wait, min(left, deadline/2))
	}
	if left < 0 {
		left = taken / 4
	}
	return max(wait, min(left/2, deadline/2))
}

// soon is when a device comes for a model that it helped to make.
func (c *Coordinator) soon() time.Duration {
	return max(2*time.Second, c.pollEvery(c.devices.ActiveCount()))
}

// pollEvery is how often a device may ask, so that all of them together do not exceed the rate.
func (c *Coordinator) pollEvery(devices int) time.Duration {
	return max(50*time.Millisecond, time.Duration(float64(devices)/c.opt.CheckIns.Rate*float64(time.Second)))
}
