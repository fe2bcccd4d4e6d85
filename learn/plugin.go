package learn

import "github.com/tacit-rec/tacit/method"

// Plug is what a plug-in asks of the local training of its base.
type Plug struct {
	// Separate asks for a step on the score function and then one on the item rows,
	// instead of one step on both.
	Separate bool
	After    []method.Step // steps that end every batch
}

// Order returns the order of the steps of a base whose own order is given.
func (p Plug) Order(own string) string {
	if p.Separate {
		return "alternate"
	}
	return own
}

// Pluggable is a base whose local training plug-ins may change.
type Pluggable interface {
	method.Learner
	// PluggedVisit is Visit for the learner around the base, changed as p asks.
	PluggedVisit(of method.Learner, items int, p Plug) method.Visit
	// Separable reports whether Plug.Separate changes anything that the base does not
	// do already.
	Separable() bool
}

// Tabled is a base with a table of item rows that a device tunes beside a frozen one.
type Tabled interface {
	Pluggable
	// ItemTables returns the two tables, or an error if there is no frozen one.
	ItemTables() (Blend, error)
}
