package closed

// The phases of shared-curvature iALS, whose objective is that of Rendle et al. (2022), and
// then those that Tacit adds.
const (
	alsCounts   = iota // say which items there are
	alsSolves          // step
	alsAverages        // step, and take the rows into their mean
	alsSettles         // and take the mean as the rows
	tacHeads           // the sequence head, and pairs of items
	tacChooses         // judge the settings
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

// Transfers: counts always, everything else after the first round.
func (m *IALS) Transfers(phase, slot int) bool { return phase > alsCounts || slot == alsCount }

// ReportsFinalRound: the mean rows come last.
func (m *IALS) ReportsFinalRound() bool { return m.Average > 0 }

func (m *Tacit) Phase(round, rounds int) (int, string) {
	switch {
	case round > 1 && round == rounds-1:
		return tacChooses, "choose"
	case round > 1 && round == rounds-2:
		return tacHeads, "head"
	}
	return m.IALS.Phase(round, max(rounds-2, 1))
}

// Transfers says what a phase needs.
func (m *Tacit) Transfers(phase, slot int) bool {
	switch phase {
	case tacHeads:
		return slot == alsItem || slot == alsCount || slot == tacSquare || slot == tacNext || slot > tacItems
	case tacChooses:
		return slot == alsItem || slot == alsGram || slot == tacHead || slot == tacMerit || slot == tacItems
	}
	return slot < alsSlots && m.IALS.Transfers(phase, slot)
}

// ReportsFinalRound: only the last round has all of it.
func (m *Tacit) ReportsFinalRound() bool { return true }
