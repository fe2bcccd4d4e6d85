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
	at     []int     // by event, of all periods: its line
	known  []float64 // by the first event that counts
	most   float64   // what all events cost, at most
}

// EpsilonSince is the privacy cost at delta of all releases from a line of the ledger on, whatever
// the budget period: of a device that enrolled when the ledger had that many lines. Releases under
// different adjacencies are added up. It is infinite if entries from then on were lost. If the accountant
// is PLD, whose every answer is expensive, it is an upper bound: the smaller of what RDP says and of what
// PLD says of the whole ledger.
func (b *Budget) EpsilonSince(line int, delta float64, o account.Options) float64 {
	if b == nil {
		return 0
	}
	k := &b.costs
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := b.ledger.Len(); n != k.lines || delta != k.delta || o.Accountant != k.option.Accountant {
		k.lines, k.delta, k.option = n, delta, o
		events, at := b.ledger.Paid()
		k.at = at
		k.compute(events)
	}
	if line <= b.ledger.LostLine() {
		return math.Inf(1)
	}
	return min(k.known[sort.SearchInts(k.at, line)], k.most)
}

// periodCost remembers what the budget period cost, until the ledger grows.
type periodCost struct {
	mu         sync.Mutex
	lines      int // of the ledger; 0 if the cost is not known
	delta      float64
	accountant account.Accountant
	epsilon    float64
}

// Epsilon is the privacy cost at delta of all entries of the budget period; infinite if it is unknown.
func (b *Budget) Epsilon(delta float64, o account.Options) float64 {
	if b == nil {
		return 0
	}
	t := &b.spent
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := b.ledger.Len(); n != t.lines || delta != t.delta || o.Accountant != t.accountant {
		t.lines, t.delta, t.accountant, t.epsilon = n, delta, o.Accountant, math.Inf(1)
		if r, err := account.Epsilon(delta, o, b.ledger.Events()...); err == nil && !b.ledger.Lost() {
			t.epsilon = r.Epsilon
		}
	}
	return t.epsilon
}

// compute computes every cost in one pass from the end, so that no curve is computed twice.
func (k *costs) compute(events []account.Event) {
	var c, all composed
	o := k.option
	if k.most = math.Inf(1); o.Accountant == account.PLD {
		for _, e := range events {
			all.add(e, o)
		}
		k.most = all.epsilon(k.delta)
		o = account.Options{Accountant: account.RDP}
	}
	k.known = make([]float64, len(events)+1)
	for i := len(events) - 1; i >= 0; i-- {
		c.add(events[i], o)
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
