package method

// InPasses is a Method whose run consists of passes over the devices: Passes consecutive stretches of rounds
// of nearly equal length. In a pass the server should hear of every device about once, so that the sum over a
// pass is a sum over the federation. With a cohort such as cycle:2% and as many rounds as Passes cycles have,
// a pass meets every device exactly once; a run in which neither rounds nor cohort are set has these settings.
//
// A device may be absent, a cohort may be random, and a round may have no report at all. A method therefore
// gathers the sums of a pass in Server slots, which survive a checkpoint, counts the devices in them, and uses
// PassScale when the pass ends.
type InPasses interface {
	Method
	// Passes returns the number of passes, 1 or more.
	Passes() int
}

// EmptyUpdater is an Updater whose Update is also called after a round without usable reports, because a pass
// may end in it. Global.Devices is then 0, and all sums are zero.
type EmptyUpdater interface {
	Updater
	UpdatesEmptyRounds() bool
}

// PartialUpdater is an Updater that changes only some slots after a round. The runtime then copies and checks only
// these, which matters for tables of a large catalogue that stay the same in most rounds.
type PartialUpdater interface {
	Updater
	// Updates reports whether Update or PostUpdate may change the value of a slot after a round.
	Updates(round, rounds, slot int) bool
}

// PassOf returns the pass of a round, from 0, and whether the round is the first or the last one of the pass.
// Rounds count from 0. If there are fewer rounds than passes, each round is a pass, and the last passes do not
// take place.
func PassOf(round, rounds, passes int) (pass int, first, last bool) {
	if passes < 1 || rounds <= passes {
		return round, true, true
	}
	pass = passAt(round, rounds, passes)
	first = round == 0 || passAt(round-1, rounds, passes) != pass
	last = round+1 >= rounds || passAt(round+1, rounds, passes) != pass
	return pass, first, last
}

func passAt(round, rounds, passes int) int {
	return min(int(int64(round)*int64(passes)/int64(rounds)), passes-1)
}

// PassRounds returns the first round of a pass and the first round after it. They are equal for a pass that does
// not take place.
func PassRounds(pass, rounds, passes int) (from, to int) {
	if passes < 1 || rounds <= passes {
		return min(pass, rounds), min(pass+1, rounds)
	}
	start := func(p int) int { return int((int64(p)*int64(rounds) + int64(passes) - 1) / int64(passes)) }
	return start(pass), start(pass + 1)
}

// PassScale returns the factor that turns the sum of the given number of reports into an estimate of the sum over
// all users: 1 if each device has reported once, and 0 without reports.
func PassScale(users int, reports float64) float64 {
	if reports <= 0 {
		return 0
	}
	return float64(users) / reports
}
