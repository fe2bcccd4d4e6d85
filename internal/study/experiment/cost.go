package experiment

import (
	"slices"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// perSample is the approximate time of training on one core, in seconds per sample and pass, for
// methods that differ from the rest.
var perSample = map[string]float64{
	"metamf": 2.5e-6, "dp-privrec": 25e-6, "fedpergnn": 0.3e-6, "fedrap": 0.1e-6, "fedrap+plgc": 1.1e-6,
	"fedrecgel": 30e-6, "nn-self": 60e-6,
}

// perSquare is the time of a closed-form solve in seconds per row of a user and pair of dimensions; a
// third of it is the time per user and triple of dimensions.
const perSquare = 1e-9

// perPair and perTriple are the time in seconds, per pair and per triple of items, that the coordinator
// of a method with an item-item matrix spends on it in a run: inverting EASE's matrix is cubic in the
// catalogue, independent of the number of users.
var (
	perPair   = map[string]float64{"oneshot": 6e-7, "tacit-private": 6e-7, "markov": 1.5e-7, "ease-sketch": 6e-8}
	perTriple = map[string]float64{"ease": 2e-10, "slit": 2.5e-10}
)

// Costs of methods that train a network in passes over the devices, in seconds on one core: of each weight for an
// item of a history, forward and backward, and of each weight for a server step. A forward pass alone takes a third.
const perPassWeight, perStepWeight = 0.4e-9, 0.25e-6

// PassSeconds estimates the seconds on one core of a method in passes over the devices: of training, in which each
// round meets the given number of devices, and of one evaluation of a user, without the ranking of the catalogue.
// The result is false for other methods.
func PassSeconds(m method.Method, src data.Source, rounds int, devices float64) (train, evaluate float64, ok bool) {
	p, ok := method.As[method.InPasses](m)
	if !ok {
		return 0, 0, false
	}
	weights := 0.0
	for _, s := range m.Slots(src.Items()) {
		if s.Scope == method.Shared && s.Upload == method.Gradient && !s.PerItem {
			weights += float64(s.Rows * s.Dim)
		}
	}
	values, length := param.Values(m), float64(Rows(src))/float64(max(src.Users(), 1))
	if n, ok := values["longest"].(int); ok {
		length = min(length, float64(n))
	}
	training := float64(rounds)
	if n, ok := values["train"].(int); ok {
		training *= float64(n) / float64(max(p.Passes(), n, 1))
	}
	train = training * weights * (devices*length*perPassWeight + perStepWeight)
	return train, length * weights * perPassWeight / 3, true
}

// RoundsBeforeTraining is the number of rounds in which a method in passes does not train its network yet. They
// take less time than the others. It is 0 for other methods.
func (s *Spec) RoundsBeforeTraining() int {
	p, ok := method.As[method.InPasses](s.Params)
	train, has := param.Values(s.Params)["train"].(int)
	if !ok || !has || train >= p.Passes() {
		return 0
	}
	from, _ := method.PassRounds(p.Passes()-train, s.Rounds, p.Passes())
	return from
}

// EstimateSeconds estimates, very roughly, the seconds that one seed takes on one core.
func (s *Spec) EstimateSeconds(src data.Source) float64 {
	cost, score := 0.06e-6, 10e-9
	if networked(s.Params, src.Items()) {
		cost, score = 1e-6, 1e-6
	}
	if x, ok := perSample[s.Method]; ok {
		cost = x
	}
	users, rows := float64(src.Users()), float64(Rows(src))
	values, passes := param.Values(s.Params), 1.0
	for _, key := range []string{"epochs", "recon"} {
		if n, ok := values[key].(int); ok {
			passes += float64(n - 1)
		}
	}
	train := float64(1+s.Negatives) * rows * s.Cohort.Expected(src.Users()) / users * passes * cost
	if _, learns := method.As[method.Learner](s.Params); !learns && perSample[s.Method] == 0 {
		if d, ok := values["dim"].(int); ok {
			solve := float64(d*d) * (rows + users*float64(d)/3) * perSquare
			train, score = solve, score+solve/users/float64(src.Items())
			if cuts, ok := values["cuts"].(int); ok { // solves from half of a history on average
				train += float64(cuts) * float64(d*d) * (rows/2 + users*float64(d)/3) * perSquare
			}
		}
	}
	all, visit, ok := PassSeconds(s.Params, src, s.Rounds, s.Cohort.Expected(src.Users()))
	if ok {
		train, score = all/float64(max(s.Rounds, 1)), 10e-9+visit/float64(src.Items())
	}
	places := 200 * users
	switch s.Protocol {
	case "deployed", "temporal":
		places += float64(src.Items()) * users
	case "complete": // validation and test are scored separately
		places += 2 * float64(src.Items()) * users
	}
	if s.Protocol == "privrec" { // half of the rows of a fifth of the users, each ranked among all items
		places = rows / 10 * float64(src.Items())
	}
	items := float64(src.Items())
	solve := items * items * (perPair[s.Method] + items*perTriple[s.Method])
	return solve + float64(s.Rounds)*train + (1+float64((s.Rounds-1)/s.EvalEvery))*places*score
}

// networked reports whether the method trains a network.
func networked(m method.Method, items int) bool {
	_, learns := method.As[method.Learner](m)
	_, central := method.As[method.Central](m)
	return (learns || central) && slices.ContainsFunc(m.Slots(items), func(s method.Slot) bool {
		return !s.PerItem &&
			!s.PerUser && s.Rows > 1
	})
}
