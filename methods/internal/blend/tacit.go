// Package blend holds Tacit's default method, a blend of the sequence bank and of a closed-form method.
package blend

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
)

// Tacit is the default method (Tacit's own): a blend of the sequence bank (`bank`) and of shared-curvature iALS
// (`ials`, with the objective of Rendle et al. 2022). Three passes over the devices compute item features from sums of
// their histories; some closed-form steps that start from these features give the item rows of iALS; then the bank is
// trained on the features. A device stores nothing: it solves for its vector and reads its history whenever it needs
// them. The newest item of a history is withheld from all of this. In the last pass each device ranks that item with
// a small grid of blends and sends how well each did; the coordinator chooses the best. There is one setting for all
// data and nothing to tune, and held-out items are not used.
type Tacit struct {
	Rank    int     `default:"96" min:"1" max:"512" range:"64|96|128" doc:"rank of each of the three parts of the features"`
	Width   int     `default:"64" min:"1" max:"512" range:"32|64|128" doc:"width of the bank"`
	Dim     int     `default:"64" min:"1" max:"512" range:"32|64|96" doc:"dimension of the closed-form part, at most the rank"`
	Solves  int     `default:"5" min:"1" max:"100" range:"3..10" doc:"passes of the closed-form part"`
	Train   int     `default:"8" min:"1" max:"1000" range:"4..16" doc:"training passes of the bank; the last one chooses"`
	LR      float64 `default:"0.01" min:">0" range:"1e-3..0.1,log" doc:"learning rate of the bank's server step"`
	Drop    float64 `default:"0.1" min:"0" max:"<1" range:"0.05..0.3" doc:"dropout of the bank"`
	Longest int     `default:"200" min:"1" range:"50|100|200" doc:"newest items of a history that the bank reads"`
	Softmax int     `default:"512" min:"1" range:"256|512|1024" doc:"most negatives of the bank's sampled softmax: 4 for each position, at least 32"`
}

var (
	_ method.Linear           = (*Tacit)(nil)
	_ method.Ready            = (*Tacit)(nil)
	_ method.InPasses         = (*Tacit)(nil)
	_ method.EmptyUpdater     = (*Tacit)(nil)
	_ method.PartialUpdater   = (*Tacit)(nil)
	_ method.PhasedSlots      = (*Tacit)(nil)
	_ method.FinalRound       = (*Tacit)(nil)
	_ method.PopularityRanker = (*Tacit)(nil)
)

// Phases. The passes for features come first.
const (
	phaseSolve = sequence.FeaturePasses + iota
	phaseTrain
	phaseChoose
)

// Slots of the choice, relative to the first.
const (
	chooseMerit  = iota // sum: the gain of each setting
	chooseChoice        // broadcast: the chosen setting, from 1; 0 before the choice
	chooseMerits        // server: the sums of the pass
	chooseSlots
)

func (m *Tacit) features() *sequence.Features { return &sequence.Features{Rank: m.Rank, Few: few} }

func (m *Tacit) solver(items int) solver {
	return solver{first: firstSolve, dim: min(m.Dim, m.features().Width(items)/3)}
}

// The first slots of the closed-form part, of the choice and of the bank. Those of the features come first.
var (
	firstSolve  = (&sequence.Features{}).SlotCount()
	firstChoice = firstSolve + solveSlots
	firstBank   = firstChoice + chooseSlots
)

func (m *Tacit) frozen(items int) *sequence.Frozen {
	return sequence.OnBank(sequence.Frozen{
		First: firstBank, Item: m.features().Table(), Dim: m.features().Width(items), Width: m.Width,
		Longest: m.Longest, Negatives: m.Softmax, Withhold: 1, Drop: m.Drop,
	})
}

// heads are the two parts of a score: the closed-form part and the bank.
var heads = [2]method.Head{
	{Item: firstSolve + solveItem, Vector: firstSolve + solveUser, Bias: method.NoBias},
	*sequence.OnBank(sequence.Frozen{First: firstBank, Width: 1}).Head(),
}

// Passes returns the number of passes over the devices.
func (m *Tacit) Passes() int { return sequence.FeaturePasses + m.Solves + m.Train }

// Slots returns those of the features, the closed-form part, the choice and the bank.
func (m *Tacit) Slots(items int) []method.Slot {
	out := append(m.features().Slots(items), m.solver(items).slots(items)...)
	out = append(out,
		method.Slot{
			Name: "merit", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: settings, Range: 2,
			HighPrecision: true, Doc: "how well each setting ranks a device's newest item, in the last pass",
		},
		method.Slot{
			Name: "choice", Scope: method.Shared, Upload: method.Broadcast, Rows: 1, Dim: 1,
			Doc: "the best setting, from 1",
		},
		method.Slot{
			Name: "merits", Scope: method.Server, Rows: 1, Dim: settings, Doc: "sums of the last pass",
		},
	)
	return append(out, m.frozen(items).Slots(items)...)
}

// Phase returns the phase of a pass. The last round always chooses if the bank is trained at all.
func (m *Tacit) Phase(round, rounds int) (int, string) {
	switch pass, _, _ := method.PassOf(round, rounds, m.Passes()); {
	case pass < sequence.FeaturePasses:
		return pass, [...]string{"count", "sketch", "features"}[pass]
	case pass < sequence.FeaturePasses+m.Solves:
		return phaseSolve, "solve"
	case pass == m.Passes()-1, round == rounds-1:
		return phaseChoose, "choose"
	}
	return phaseTrain, "train"
}

// Transfers returns the slots that a phase needs.
func (m *Tacit) Transfers(phase, slot int) bool {
	f, s := m.frozen(0), m.solver(0)
	switch phase {
	case phaseSolve:
		return s.solves(slot)
	case phaseTrain:
		return f.Trains(slot)
	case phaseChoose:
		return f.Trains(slot) || slot == heads[1].Item || s.serves(slot) || slot == firstChoice+chooseMerit
	}
	return m.features().Transfers(phase, slot)
}

// ReportsFinalRound is true: only the last round chooses the setting.
func (m *Tacit) ReportsFinalRound() bool { return true }

// UpdatesEmptyRounds is true: a pass may end in a round without reports.
func (m *Tacit) UpdatesEmptyRounds() bool { return true }

// Popular orders the items by the number of devices that have them.
func (m *Tacit) Popular(g *method.Global) []uint32 {
	counts := m.features().Counts()
	return learn.MostFrequent(g.Value[counts], g.Items, g.Stride[counts])
}

// Heads returns the two parts of a score.
func (m *Tacit) Heads() []method.Head { return heads[:] }
