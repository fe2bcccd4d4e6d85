package learn_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

func TestSchedulesRoundTripAsText(t *testing.T) {
	for text, want := range map[string]learn.Schedule{
		"0.1":                 {V: 0.1},
		"-3":                  {V: -3},
		"1e-05":               {V: 1e-5},
		"0":                   {},
		"tanh:0.1,10":         {Kind: "tanh", V: 0.1, A: 10},
		"decay:0.5,0.97,0.95": {Kind: "decay", V: 0.5, A: 0.97, B: 0.95},
		"sin:0.1,10":          {Kind: "sin", V: 0.1, A: 10},
		"square:0.1,5":        {Kind: "square", V: 0.1, A: 5},
		"frac:2":              {Kind: "frac", V: 2},
	} {
		var s learn.Schedule
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s is read as %+v, %v, want %+v", text, s, err, want)
		}
		if got, err := s.MarshalText(); string(got) != text || err != nil {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
	var s learn.Schedule
	if err := s.UnmarshalText([]byte("decay: 0.5 , 0.97,0.95")); err != nil || s.A != 0.97 {
		t.Errorf("with blanks it is %+v, %v, want them to be skipped", s, err)
	}
}

func TestInvalidSchedulesAreRejectedWithReason(t *testing.T) {
	const forms = "must be a number, tanh:V,K, sin:V,K, square:V,K, frac:V or decay:V,PER_ROUND,PER_BATCH"
	for text, want := range map[string]string{
		"":                 `"" is not a finite number`,
		"fast":             `"fast" is not a finite number`,
		"nan":              `"nan" is not a finite number`,
		"inf":              `"inf" is not a finite number`,
		"1e39":             `"1e39" is not a finite number`,
		"tanh:0.1,x":       `"x" is not a finite number`,
		"0.1,2":            forms,
		":1":               forms,
		"tanh:1":           forms,
		"tanh:1,2,3":       forms,
		"decay:1,2":        forms,
		"cosine:1,2":       forms,
		"Tanh:1,2":         forms,
		"tanh:1,0":         "the K of tanh:V,K must be above 0 and below 1000000",
		"tanh:1,-2":        "the K of tanh:V,K must be above 0 and below 1000000",
		"decay:1,nan,0.95": `"nan" is not a finite number`,
		"square:1,2.5":     "the K of square:V,K must be a whole number of rounds",
		"sin:1,0":          "the K of sin:V,K must be above 0 and below 1000000",
		"frac:1,2":         forms,
	} {
		s := learn.Const(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q\ngot  %v\nwant %s", text, err, want)
		}
		if s != learn.Const(7) {
			t.Errorf("%q is rejected but changes the schedule to %+v", text, s)
		}
	}
}

func TestScheduleValues(t *testing.T) {
	w := &method.Work{}
	for _, w.Round = range []int{0, 1, 2, 7, 30, 99, 1000} {
		for _, w.Step = range []int{0, 1, 5, 40} {
			round, step := float64(w.Round), float64(w.Step)
			for _, c := range []struct {
				s    learn.Schedule
				want float64
			}{
				{learn.Const(0.3), 0.3},
				{learn.Schedule{Kind: "tanh", V: 0.5, A: 10}, 0.5 * math.Tanh(round/10)},
				{learn.Schedule{Kind: "decay", V: 200, A: 0.97, B: 0.95}, 200 * math.Pow(0.97, round) * math.Pow(0.95,
					step)},
				{learn.Schedule{Kind: "decay", V: 2, A: 1, B: 1}, 2},
			} {
				// The error of tanh is 2.4e-7 absolute; that of a power is a few relative
				// rounding errors.
				if got := float64(c.s.At(w)); math.Abs(got-c.want) > 2e-7+2e-5*math.Abs(c.want) {
					t.Errorf("%+v in round %d, batch %d is %g, want %g", c.s, w.Round, w.Step, got, c.want)
				}
			}
		}
	}
	w.Round = 0
	if got := (learn.Schedule{Kind: "tanh", V: 1, A: 10}).At(w); got != 0 {
		t.Errorf("tanh starts at %g, want exactly 0", got)
	}
}

func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"0.1", "tanh:0.1,10", "decay:0.5,0.97,0.95", ":", "tanh:,", "1e-45"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, back learn.Schedule
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		b, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := back.UnmarshalText(b); err != nil || back != s {
			t.Errorf("%q is %+v, written as %s and read as %+v, %v", text, s, b, back, err)
		}
	})
}

// The schedules of the FedRAP authors' code take effect from the second round on.
func TestSchedulesMatchFedRAPCode(t *testing.T) {
	for text, want := range map[string]func(a float64) float64{
		"sin:2,10": func(a float64) float64 { return (math.Sin(a/10) + 1) / 2 * 2 },
		"frac:2":   func(a float64) float64 { return 2 / (a + 1) },
		"square:2,5": func(a float64) float64 {
			if int(a)/5%2 == 0 {
				return 2
			}
			return 0
		},
	} {
		var s learn.Schedule
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := s.At(&method.Work{}); got != 0 {
			t.Errorf("%s is %g in the first round, want 0", text, got)
		}
		for round := 1; round < 200; round++ {
			got, want := float64(s.At(&method.Work{Round: round})), want(float64(round-1))
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s is %g in round %d, want %g", text, got, round, want)
			}
		}
	}
}
