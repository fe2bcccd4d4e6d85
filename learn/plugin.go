package learn

import "github.com/tacit-rec/tacit/method"

// Plug describes how a plug-in changes the local training of its base method.
type Plug struct {
	// Separate requests a step on the score function followed by one on the item rows, instead
	// of one step on both.
	Separate bool
	After    []method.Step // steps that end every batch
}

// Order returns the step order, given the base method's default.
func (p Plug) Order(own string) string {
	if p.Separate {
		return "alternate"
	}
	return own
}

// Pluggable is a base method whose local training plug-ins may change.
type Pluggable interface {
	method.Learner
	// PluggedVisit returns the local training of the learner that wraps the base, changed as p
	// requests.
	PluggedVisit(of method.Learner, items int, p Plug) method.Visit
	// Separable reports whether Plug.Separate has an effect on the base.
	Separable() bool
}

// Tabled is a base method with a table of item rows that a device trains next to a frozen one.
type Tabled interface {
	Pluggable
	// ItemTables returns the two tables, or an error without a frozen one.
	ItemTables() (Blend, error)
}
