package experiment

import (
	"context"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// inPasses is a method that trains in four passes, and records what it is called with.
type inPasses struct {
	method.Method
	Final bool `default:"true" doc:"the last round completes the model"`
}

var (
	_ method.InPasses   = (*inPasses)(nil)
	_ method.FinalRound = (*inPasses)(nil)
	_ method.Wrapper    = (*inPasses)(nil)
)

func (m *inPasses) Passes() int             { return 4 }
func (m *inPasses) ReportsFinalRound() bool { return m.Final }
func (m *inPasses) Unwrap() method.Method   { return m.Method }

// passing returns a registry with methods in passes: one that sets its options, and one that does not.
func passing(t *testing.T) *method.Registry {
	t.Helper()
	r := methods.Default().Clone()
	base, err := r.Lookup("fedmf")
	if err != nil {
		t.Fatal(err)
	}
	build := func() method.Method { return &inPasses{Method: base.Build()} }
	for name, options := range map[string]map[string]string{
		"passing": nil, "passing-slowly": {"cohort": "cycle:10%", "rounds": "40"},
	} {
		if err := r.Add(method.Entry{Name: name, New: build, Options: options}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRoundsFitTheDevices(t *testing.T) {
	registry := passing(t)
	for _, c := range []struct {
		words         string
		users         int
		cohort        string
		rounds, every int
	}{
		{"method=passing", 6040, "cycle:2%", 4 * 50, 200},
		{"method=passing", 943, "cycle:2%", 4 * 52, 208},
		{"method=passing", 20, "cycle:2%", 4, 4},
		{"method=passing final=false", 6040, "cycle:2%", 200, 50},
		{"method=passing cohort=100", 1050, "100", 4 * 11, 44},
		{"method=passing cohort=all", 6040, "all", 4, 4},
		{"method=passing cohort=cycle:100", 1050, "cycle:100", 4 * 11, 44},
		{"method=passing cohort=poisson:0.1", 1000, "poisson:0.1", 40, 40},
		{"method=passing cohort=checkin:50/30", 1000, "checkin:50/30", 120, 120},
		{"method=passing rounds=7", 6040, "cycle:2%", 7, 7},
		{"method=passing rounds=7 cohort=10", 6040, "10", 7, 7},
		{"method=passing eval-every=3", 6040, "cycle:2%", 200, 3},
		{"method=passing new-users=0.2", 1000, "cycle:2%", 4 * 50, 200}, // 800 devices
		{"method=passing-slowly", 6040, "cycle:10%", 40, 40},
		{"method=passing-slowly", 100, "cycle:10%", 28, 28},
		{"method=passing cohort=cycle:1", 1 << 30, "cycle:1", 1_000_000, 1_000_000},
		{"method=fedmf", 6040, "all", 100, 1},
	} {
		s, err := ResolveIn(registry, Pairs("command line", strings.Fields(c.words)...))
		if err != nil {
			t.Fatal(err)
		}
		s.FitTo(users(c.users))
		cohort, _ := s.Cohort.MarshalText()
		if string(cohort) != c.cohort || s.Rounds != c.rounds || s.EvalEvery != c.every {
			t.Errorf("%s on %d users: cohort %s, %d rounds, evaluated every %d; want %s, %d, %d", c.words, c.users,
				cohort, s.Rounds, s.EvalEvery, c.cohort, c.rounds, c.every)
		}
		if s.Options.Check() != nil {
			t.Errorf("%s: %v", c.words, s.Options.Check())
		}
	}
}

// users is a data set of which only the number of users is known.
type users int

func (n users) Users() int                 { return int(n) }
func (n users) Items() int                 { return 100 }
func (n users) Info() *data.Info           { return &data.Info{} }
func (n users) History(int, *data.History) {}

// A change of the cohort fits the rounds again; the written settings are those of the run.
func TestRoundsAreFittedAfterAChange(t *testing.T) {
	s, err := ResolveIn(passing(t), Pairs("command line", "method=passing"))
	if err != nil {
		t.Fatal(err)
	}
	s.FitToDevices(1000)
	for words, want := range map[string]int{"cohort=100": 40, "rounds=9": 9, "lr=0.1": 200} {
		changed, err := s.With(Pairs("search", words))
		if err != nil || changed.Rounds != want {
			t.Errorf("%s: %d rounds, %v; want %d", words, changed.Rounds, err, want)
		}
	}
	if s.Typed("rounds") || s.Typed("cohort") || s.Typed("eval-every") {
		t.Errorf("fitted settings count as settings of the user: %v", s.From)
	}
	if !strings.Contains(string(s.TOML()), "\nrounds = 200\n") {
		t.Error("the written settings do not have the fitted rounds")
	}
	if s.PassNote() != "" {
		t.Errorf("a complete run has the note %q", s.PassNote())
	}
	few, err := s.With(Pairs("command line", "rounds=3"))
	if err != nil || !strings.Contains(few.PassNote(), "in 4 passes over the devices, and the run has 3 rounds") {
		t.Errorf("note %q, %v", few.PassNote(), err)
	}
}

// A run fits its rounds, meets every device once in a pass, and evaluates its last round only.
func TestARunInPasses(t *testing.T) {
	s, err := ResolveIn(passing(t), Pairs("command line", "method=passing", "data=world",
		"world=users=60,items=100,mean-rows=12", "dim=4"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenData(&s.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	devices, rounds, evaluated := 0, 0, 0
	job := &Job{Spec: s, Source: src, Jobs: 2, NoReferences: true, OnEvent: func(e Event) {
		if ended, ok := e.(RoundEnded); ok {
			rounds++
			devices += ended.Devices
			if ended.Valid != nil {
				evaluated++
			}
		}
	}}
	res, err := job.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if rounds != 16 || devices != 4*60 || evaluated != 1 || res.Rounds != 16 || res.SelectedRound != 16 {
		t.Errorf("%d rounds of %d devices in all, %d evaluated; the result has %d and selects %d", rounds, devices,
			evaluated, res.Rounds, res.SelectedRound)
	}
}
