package closed

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// The phases of shared-curvature iALS, with the objective of Rendle et al. (2022),
// followed by those that IALSNext adds.
const (
	alsCounts   = iota // count the devices that have each item
	alsSolves          // step
	alsAverages        // step, and update the mean of the rows
	alsSettles         // the same, then replace the rows with their mean
	nextHeads          // learn the sequence head
	nextChooses        // compare the settings
)

func (m *IALS) Phase(round, rounds int) (int, string) {
	switch window := min(m.Average, rounds/2); {
	case round == 0:
		return alsCounts, "count"
	case round == rounds-1 && window > 0:
		return alsSettles, "settle"
	case round >= rounds-window:
		return alsAverages, "average"
	}
	return alsSolves, "solve"
}

// Transfers sends counts in every round, and everything else after the first round.
func (m *IALS) Transfers(phase, slot int) bool { return phase > alsCounts || slot == alsCount }

// Popular orders the items by the estimated number of devices that have them.
func (m *IALS) Popular(g *method.Global) []uint32 {
	return learn.MostFrequent(g.Value[alsN], g.Items, g.Stride[alsN])
}

// ReportsFinalRound reports whether the last round replaces the rows with their mean.
func (m *IALS) ReportsFinalRound() bool { return m.Average > 0 }

func (m *IALSNext) Phase(round, rounds int) (int, string) {
	switch {
	case round > 1 && round == rounds-1:
		return nextChooses, "choose"
	case round > 1 && round == rounds-2:
		return nextHeads, "head"
	}
	return m.IALS.Phase(round, max(rounds-2, 1))
}

// Transfers returns the slots that a phase needs.
func (m *IALSNext) Transfers(phase, slot int) bool {
	switch phase {
	case nextHeads:
		return slot == alsItem || slot == alsCount || slot == nextSquare || slot == nextNext
	case nextChooses:
		return slot == alsItem || slot == alsGram || slot == nextHead || slot == nextMerit
	}
	return slot < alsSlots && m.IALS.Transfers(phase, slot)
}

// ReportsFinalRound is true: only the last round chooses the setting.
func (m *IALSNext) ReportsFinalRound() bool { return true }
