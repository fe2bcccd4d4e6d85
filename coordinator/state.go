package coordinator

import (
	"maps"
	"sync"
	"time"
)

// State is what a coordinator is doing.
type State string

// The states of a coordinator.
const (
	Starting          State = "starting"
	WaitingForRun     State = "waiting-for-run"     // an operator must begin one
	WaitingForDevices State = "waiting-for-devices" // to enrol, or to be active again
	NoDevices         State = "no-devices"          // no device is active
	// WaitingForCheckIns is the state of a run with a privacy guarantee whose devices sleep: see lacksCheckIns.
	WaitingForCheckIns State = "waiting-for-check-ins"
	Training           State = "training"
	Evaluating         State = "evaluating"
	Paused             State = "paused"
	BudgetSpent        State = "budget-spent" // the privacy budget does not cover another round
	Stopped            State = "stopped"      // nothing may be released any more
	Finished           State = "finished"     // the run is over, and no other one is scheduled
	BetweenRuns        State = "between-runs" // the run is over, and another one is scheduled
	Outdated           State = "outdated"     // devices hold a newer model than the state folder
)

// Over reports whether the run is over, so that another one may begin.
func (s State) Over() bool {
	return s == Finished || s == BetweenRuns || s == BudgetSpent || s == Stopped
}

// progress is what people and devices see of a coordinator while it runs.
type progress struct {
	info func(message string, fields ...any) // records changes of the state; may be nil
	warn func(string)                        // receives changes that need the operator's attention; may be nil
	now  func() time.Time                    // nil means time.Now

	mu        sync.Mutex
	state     State
	since     time.Time // when the state began
	message   string    // for people
	counts    map[string]int64
	rejected  int                      // models that were rejected one after the other
	refused   func() map[string]uint64 // by code, of the server; may be nil
	opened    time.Time                // when the round began
	idled     bool                     // devices had been told to come later when it began
	roundTime time.Duration            // of a round, smoothed

	trouble func() (State, string) // the state that the machine imposes; may be nil
	memory  memory
}

// set sets the state, and a message for people that explains it.
func (p *progress) set(s State, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info != nil && p.state != s {
		p.info("state changed", "state", string(s), "message", message)
	}
	if p.warn != nil && p.state != s && (s == BudgetSpent || s == Stopped) {
		p.warn("training has ended before its last round: " + message)
	}
	if p.state != s {
		p.since = time.Now()
		if p.now != nil {
			p.since = p.now()
		}
	}
	p.state, p.message = s, message
}

// get returns the state, and its message for people. Trouble with the machine hides any other state.
func (p *progress) get() (State, string) {
	if p.trouble != nil {
		if s, message := p.trouble(); s != "" {
			return s, message
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.message
}

// lasting is the state and when it began.
func (p *progress) lasting() (State, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.since
}

// count adds to a counter.
func (p *progress) count(counter string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = map[string]int64{}
	}
	p.counts[counter] += n
}

func (p *progress) counted(counter string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[counter]
}

// refusedPrefix begins the names of the counters of refused requests.
const refusedPrefix = "refused_"

// all returns all counters, with the refusals of the server.
func (p *progress) all() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int64{}
	maps.Copy(out, p.counts)
	if p.refused != nil {
		for code, n := range p.refused() {
			out[refusedPrefix+code] = int64(n)
		}
	}
	return out
}

// beginRound notes when a round begins.
func (p *progress) beginRound(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened, p.idled = now, p.state != Training && p.state != Evaluating && p.state != WaitingForCheckIns
}

// endRound notes how long a round took.
func (p *progress) endRound(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idled { // it waited for devices that slept
		took /= 4
	}
	if p.roundTime == 0 {
		p.roundTime = took
	}
	p.roundTime = (p.roundTime + took) / 2
}

// timing is how long the round has taken, and how long a round takes on average.
func (p *progress) timing(now time.Time) (taken, average time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.opened), p.roundTime
}

// reject notes whether the model of the last round was rejected.
func (p *progress) reject(rejected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rejected++; !rejected {
		p.rejected = 0
	}
}

// rejectedInARow is how many models were rejected since the last one that was published.
func (p *progress) rejectedInARow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rejected
}
