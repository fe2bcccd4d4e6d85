package data

import (
	"fmt"
	"strings"
)

// Protocol is how a method is evaluated: a named, printed value, never a detail
// of a loader. No table mixes two of them.
type Protocol struct {
	Name string
	// Split says what is held out.
	Split SplitKind
	// Hide says which items a device does not draw as negatives, beside its train
	// items.
	Hide Hide
	// Sampled is the number of items the held-out one is ranked against; validation
	// and test have their own. NewUsers has no such lists: the others are all items
	// that the user never touched.
	Sampled int
	// Full ranks over the catalogue as well.
	Full bool
	// Squash compares float32 sigmoids in the sampled ranking, as the reference
	// code does: large logits then tie at 1.
	Squash bool
	// Expected counts ties by their mean over all orders, unless a run says
	// otherwise: scores of features alone tie by nature.
	Expected bool
	// MinRows is how many rows a user has at least; those with fewer are left out
	// before the split. 0 is what the split needs.
	MinRows int
	// Shuffle puts the rows of users in random order where the data has no times: the
	// test item is then any of them.
	Shuffle bool
	// Apart is the share of users that take no part in training and are measured
	// apart from the others, from their own train rows. No named protocol has any: a run
	// asks for them.
	Apart float64
	About string
}

// SplitKind says what is held out.
type SplitKind uint8

const (
	LeaveOneOut SplitKind = iota // each user's newest row is the test, the one before it validation
	TimeCut                      // one cut in time for all users
	LastOut                      // each user's newest row is the test; there is no validation
	// a fifth of the users; half of the rows of each are theirs to learn from, the others are ranked
	NewUsers
)

// Hide says what a device keeps out of its negatives, beside its train items.
type Hide uint8

const (
	HideNothing    Hide = iota // a device cannot know what its user will do next
	HideHeld                   // the held-out items
	HideCandidates             // the held-out items and all they are ranked against
)

// Protocols are the named values.
func Protocols() []Protocol {
	return []Protocol{
		{
			Name: "paper", Split: LeaveOneOut, Hide: HideHeld, Sampled: 99, Squash: true,
			About: "held-out items are never drawn as negatives: to stand beside published numbers",
		},
		{
			Name: "isolated", Split: LeaveOneOut, Hide: HideCandidates, Sampled: 99,
			About: "no evaluation candidate is drawn as a negative: a fair reading of sampled metrics",
		},
		{
			Name: "deployed", Split: LeaveOneOut, Hide: HideNothing, Sampled: 99, Full: true,
			About: "what a real device can do: only its own train items are kept out of the negatives",
		},
		{
			Name: "temporal", Split: TimeCut, Hide: HideNothing, Sampled: 99, Full: true,
			About: "as deployed, with one cut in time for all: no device learns from another user's future",
		},
		{
			Name: "fedrecgel", Split: LastOut, Hide: HideNothing, Sampled: 99, MinRows: 5, Shuffle: true,
			About: "as the FedRecGEL paper: the newest row is the test and nothing is left to validate on. The " +
				"paper chose its round on test, which " +
				"no honest number may; the last round is reported, and the paper's choice is labelled. Without times a random row is the test",
		},
		{
			Name: "privrec", Split: NewUsers, Hide: HideNothing, Expected: true,
			About: "new users: a fifth takes no part in training; each adapts the model to half of its rows, and " +
				"each other row is ranked among all items it never touched",
		},
	}
}

// ProtocolNamed returns the named protocol.
func ProtocolNamed(name string) (Protocol, error) {
	var names []string
	for _, p := range Protocols() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Protocol{}, fmt.Errorf("data: unknown protocol %q; there are %s", name, strings.Join(names, ", "))
}

// Validates reports whether there is something to choose a round on. Where there is
// not, a choice can only be made on test: a leak of another kind than Leaks tells.
func (p Protocol) Validates() bool { return p.Split != LastOut && p.Split != NewUsers }

// needs is how many rows each user must have.
func (p Protocol) needs() int {
	switch p.Split {
	case LeaveOneOut:
		return max(p.MinRows, 3)
	case LastOut, NewUsers:
		return max(p.MinRows, 2)
	}
	return p.MinRows
}

// Leaks reports whether, while negatives are drawn, a held-out item is treated
// differently from the items it will be ranked against.
func (p Protocol) Leaks() bool {
	heldHidden := p.Hide != HideNothing
	othersHidden := p.Hide == HideCandidates
	return heldHidden != othersHidden
}
