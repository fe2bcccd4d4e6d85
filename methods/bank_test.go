package methods_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// chains is a data set in which item i is followed by i+1 in most cases: popularity knows nothing about the next
// item, and its order everything.
func chains(t *testing.T, items, users int) *data.Split {
	t.Helper()
	s := &data.Set{NumItems: items, Start: []int{0}, Meta: data.Info{Name: "chains", TimeKind: data.OrderOnly}}
	for u := range users {
		for k := range 12 {
			s.Item = append(s.Item, uint32((u*7+k)%items))
			s.Time = append(s.Time, int64(k))
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return testworld.Deployed(t, s)
}

func bankRun(t *testing.T, split *data.Split, change func(*sim.Options), settings ...string) *sim.Run {
	t.Helper()
	return passesRun(t, "bank", split, change, settings...)
}

// passesRun runs bank, or a method like it, to the end.
func passesRun(t *testing.T, name string, split *data.Split, change func(*sim.Options), settings ...string) *sim.Run {
	t.Helper()
	e, err := methods.Default().Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.EvalEvery = 30, 1000
	if err := o.Cohort.UnmarshalText([]byte("50")); err != nil {
		t.Fatal(err)
	}
	change(&o)
	r, err := sim.New(with(t, e.New(), settings...), split, o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := toTheEnd(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// With fewer candidates than items the loss is estimated. The bank learns the order with it, in the clear, with
// devices that drop out, and from sums of integers.
func TestBankLearnsTheOrder(t *testing.T) {
	for name, change := range map[string]func(*sim.Options){
		"clear":    func(*sim.Options) {},
		"dropouts": func(o *sim.Options) { o.Dropout, o.Straggle = 0.2, 0.1 },
		"integers": func(o *sim.Options) { o.Sums = "integer" },
	} {
		t.Run(name, func(t *testing.T) {
			r := bankRun(t, chains(t, 150, 100), change, "width=16", "rank=16", "train=7", "lr=0.04", "softmax=60",
				"drop=0")
			if hr := metrics.Of(r.Best.TestFull, metrics.Against).HR10(); hr < 0.9 {
				t.Errorf("full HR@10 is %.3f; the next item is certain", hr)
			}
		})
	}
}

// Under masks the sums are integers; the model must be nearly that of sums in the clear.
func TestBankUnderMasksIsBankInTheClear(t *testing.T) {
	split := chains(t, 40, 40)
	settings := []string{"width=4", "rank=4", "train=2", "softmax=20"}
	few := func(o *sim.Options) {
		o.Rounds = 5
		if err := o.Cohort.UnmarshalText([]byte("16")); err != nil {
			t.Fatal(err)
		}
	}
	open := bankRun(t, split, few, settings...)
	masked := bankRun(t, split, func(o *sim.Options) {
		few(o)
		o.Secagg = "on"
	}, settings...)
	for i, s := range open.Slots() {
		if s.Name != "name" && s.Name != "read" {
			continue
		}
		off, size := 0.0, 0.0
		for k, x := range open.Value(i) {
			d := float64(masked.Value(i)[k] - x)
			off, size = off+d*d, size+float64(x)*float64(x)
		}
		if !(math.Sqrt(off) < 0.05*math.Sqrt(size)) {
			t.Errorf("slot %q has norm %.3g and is off by %.3g under masks", s.Name, math.Sqrt(size), math.Sqrt(off))
		}
	}
}
