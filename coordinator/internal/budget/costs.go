package budget

import (
	"math"
	"sort"
	"sync"

	"github.com/tacit-rec/tacit/privacy/account"
)

// costs remembers what the releases since a line cost, until the ledger grows.
type costs struct {
	mu     sync.Mutex
	lines  int // of the ledger
	delta  float64
	option account.Options
	events []account.Event // of all periods
	at     []int           // by event: its line
	known  []float64       // by the first event that counts; NaN if it is not known
}

// EpsilonSince is the privacy cost at delta of all releases from a line of the ledger on, whatever
// the budget period: of a device that enrolled when the ledger had that many lines. Releases under
// different adjacencies are added up.
func (b *Budget) EpsilonSince(line int, delta float64, o account.Options) float64 {
	if b == nil {
		return 0
	}
	k := &b.costs
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := b.ledger.Len(); n != k.lines || delta != k.delta || o.Accountant != k.option.Accountant {
		k.lines, k.delta, k.option = n, delta, o
		k.events, k.at = b.ledger.Paid()
		k.known = make([]float64, len(k.events)+1)
		for i := range k.events {
			k.known[i] = math.NaN()
		}
		if o.Accountant != account.PLD { // whose every answer is expensive
			k.all()
		}
	}
	i := sort.SearchInts(k.at, line)
	if math.IsNaN(k.known[i]) {
		var c composed
		for _, e := range k.events[i:] {
			c.add(e, k.option)
		}
		k.known[i] = c.epsilon(delta)
	}
	return k.known[i]
}

// all computes every cost in one pass from the end, so that no curve is computed twice.
func (k *costs) all() {
	var c composed
	for i := len(k.events) - 1; i >= 0; i-- {
		c.add(k.events[i], k.option)
		k.known[i] = c.epsilon(k.delta)
	}
}

// composed is the releases of each adjacency.
type composed struct {
	adjacency []account.Adjacency
	spent     []*account.Spent
	bad       bool
}

func (c *composed) add(e account.Event, o account.Options) {
	i := 0
	for i < len(c.adjacency) && c.adjacency[i] != e.Adjacency {
		i++
	}
	if i == len(c.adjacency) {
		c.adjacency = append(c.adjacency, e.Adjacency)
		c.spent = append(c.spent, &account.Spent{Options: o})
	}
	c.bad = c.bad || c.spent[i].Spend(e) != nil
}

// epsilon is infinite if the cost cannot be computed.
func (c *composed) epsilon(delta float64) (sum float64) {
	for _, s := range c.spent {
		r, err := s.Epsilon(delta / float64(len(c.spent)))
		if err != nil || c.bad {
			return math.Inf(1)
		}
		sum += r.Epsilon
	}
	return sum
}
