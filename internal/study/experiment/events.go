package experiment

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/sim"
)

// Event is a progress event of a job: SettingTried, Started, Resumed, RoundEnded, BudgetSpent,
// ReferenceProgress, FigureStarted or ModelDropped.
type Event interface{ event() }

// SettingTried is the event of a setting of the method's grid that was measured.
type SettingTried struct {
	result.Tried
	At, Of int // from 1
}

// Started is the event of a simulation that is ready to run.
type Started struct {
	Job   *Job
	Run   *sim.Run
	Split *data.Split
}

// Resumed is the event of a checkpoint that was loaded.
type Resumed struct{ Round int }

// RoundEnded is the event of a round that ended.
type RoundEnded struct{ sim.Event }

// BudgetSpent is the event of a run that ends before this round because the rest of its privacy
// budget does not pay for it.
type BudgetSpent struct{ Before int }

// ReferenceProgress is the event of a reference row that is being measured: once at its start with
// Users 0, then about once a second.
type ReferenceProgress struct {
	Name        string
	Done, Users int
}

// FigureStarted is the event of a figure that is being computed. It is sent only once the figures
// have taken two seconds.
type FigureStarted struct{ Name string }

func (SettingTried) event()      {}
func (Started) event()           {}
func (Resumed) event()           {}
func (RoundEnded) event()        {}
func (BudgetSpent) event()       {}
func (ReferenceProgress) event() {}
func (FigureStarted) event()     {}
