package data

import (
	"fmt"
	"strings"
)

// Protocol is how a method is evaluated: what is held out, what it is ranked against, and which negatives devices
// may draw. Results under different protocols are not comparable.
type Protocol struct {
	Name string
	// Split says what is held out.
	Split SplitKind
	// Hide says which items a device does not draw as negatives, besides its train items.
	Hide Hide
	// Sampled is the number of items that a held-out item is ranked against; validation and test have separate
	// ones. NewUsers ranks against all items that the user has not seen.
	Sampled int
	// Full also ranks among the whole catalogue.
	Full bool
	// Float32Sigmoid compares float32 sigmoids in the sampled ranking, as the reference code does: large logits
	// then tie at 1.
	Float32Sigmoid bool
	// ExpectedTies counts ties by their mean over all orders, unless a run overrides it: scores from features alone
	// often tie.
	ExpectedTies bool
	// MinRows drops users with fewer rows before the split; 0 means the minimum of the split.
	MinRows int
	// Shuffle puts the rows of each user in random order if the data has no times: the test item is then a random
	// row.
	Shuffle bool
	// CompleteHistory adds the rows between the train rows and the test item to the history that the test item is
	// ranked with, after training and validation.
	CompleteHistory bool
	// NewUserShare is the share of users held out of training and measured separately, from their own train rows.
	// It is 0 in named protocols; a run sets it.
	NewUserShare float64
	// ShuffleTies puts the rows of a user with the same real time, in seconds, in random order. It is false in named
	// protocols; a run sets it.
	ShuffleTies bool
	// AllTest ranks all test rows of a user together, instead of the first. It is false in named protocols; a run sets
	// it, with a split by time or by files.
	AllTest bool
	// Cut is where TimeCut starts validation and test. It is zero in named protocols; a run sets it.
	Cut   Cut
	About string
}

// SplitKind says what is held out.
type SplitKind uint8

const (
	LeaveOneOut SplitKind = iota // each user's newest row is the test, the one before it validation
	TimeCut                      // one cut in time for all users
	LastOut                      // each user's newest row is the test; there is no validation
	// NewUsers holds out a fifth of the users; each adapts the model to half of its rows, and the other half is ranked.
	NewUsers
	byFiles // the user's files; NewSplit sets it
)

// Hide says which items a device never draws as negatives, besides its train items.
type Hide uint8

const (
	HideNothing    Hide = iota // none: a device cannot know its user's future
	HideHeld                   // the held-out items
	HideCandidates             // the held-out items and the items they are ranked against
)

// Protocols returns the named protocols.
func Protocols() []Protocol {
	return []Protocol{
		{
			Name: "paper", Split: LeaveOneOut, Hide: HideHeld, Sampled: 99, Float32Sigmoid: true,
			About: "held-out items are never drawn as negatives: comparable with published numbers",
		},
		{
			Name: "isolated", Split: LeaveOneOut, Hide: HideCandidates, Sampled: 99,
			About: "no evaluation candidate is ever drawn as a negative: unbiased sampled metrics",
		},
		{
			Name: "deployed", Split: LeaveOneOut, Hide: HideNothing, Sampled: 99, Full: true,
			About: "what a real device can do: it excludes only its own train items from the negatives",
		},
		{
			Name: "complete", Split: LeaveOneOut, Hide: HideNothing, Sampled: 99, Full: true, CompleteHistory: true,
			About: "as deployed, but the validation item is part of the history when the test item is ranked, as in " +
				"most papers on sequences. Training and validation are those of deployed",
		},
		{
			Name: "temporal", Split: TimeCut, Hide: HideNothing, Sampled: 99, Full: true,
			About: "as deployed, with one cut in time for all users: no device learns from another user's future",
		},
		{
			Name: "fedrecgel", Split: LastOut, Hide: HideNothing, Sampled: 99, MinRows: 5, Shuffle: true,
			About: "as the FedRecGEL paper: the newest row is the test item and there is no validation set. The " +
				"paper selects its round on test; we report the last round, and label the paper's selection. " +
				"Without times, " +
				"a random row is the test item",
		},
		{
			Name: "privrec", Split: NewUsers, Hide: HideNothing, ExpectedTies: true,
			About: "new users: a fifth of the users is held out of training; each adapts the model to half of its " +
				"rows, and every other row is ranked among all items that the user has not seen",
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
	rule := "must be one of " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		rule += "; " + near
	}
	return Protocol{}, fmt.Errorf("unknown protocol %q; %s", name, rule)
}

// Validates reports whether the protocol has a validation set. Without one, a round can only be selected on test,
// which is a leak of another kind than Leaks reports.
func (p Protocol) Validates() bool { return p.Split != LastOut && p.Split != NewUsers }

// needs is the minimum number of rows of each user.
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
