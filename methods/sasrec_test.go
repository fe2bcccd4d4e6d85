package methods_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Attention learns the order of items, in the clear and from sums of integers with dropouts.
func TestSASRecLearnsTheOrder(t *testing.T) {
	for name, change := range map[string]func(*sim.Options){
		"clear":    func(*sim.Options) {},
		"integers": func(o *sim.Options) { o.Sums, o.Dropout = "integer", 0.05 },
	} {
		t.Run(name, func(t *testing.T) {
			r := passesRun(t, "sasrec", chains(t, 60, 100), change, "width=16", "rank=16", "train=7", "lr=0.03",
				"softmax=40", "drop=0")
			if hr := metrics.Of(r.Best.TestFull, metrics.Against).HR10(); hr < 0.9 {
				t.Errorf("full HR@10 is %.3f; the next item is certain", hr)
			}
		})
	}
}

func TestSASRecHeadsHaveEqualWidth(t *testing.T) {
	var m sequence.SASRec
	param.Defaults(&m)
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	if m.Heads = 3; m.Check() == nil {
		t.Error("64 numbers were divided among 3 heads")
	}
}

// Masks change no bit of the sums.
func TestSASRecUnderMasksHasTheBitsOfItsIntegers(t *testing.T) {
	var runs []*sim.Run
	for _, secagg := range []string{"off", "on"} {
		runs = append(runs, passesRun(t, "sasrec", chains(t, 40, 40), func(o *sim.Options) {
			o.Rounds, o.Sums, o.Secagg = 5, "integer", secagg
			if err := o.Cohort.UnmarshalText([]byte("16")); err != nil {
				t.Fatal(err)
			}
		}, "width=4", "rank=4", "train=2", "softmax=20"))
	}
	for i, s := range runs[0].Slots() {
		if s.Scope == method.Shared && !slices.Equal(runs[0].Value(i), runs[1].Value(i)) {
			t.Errorf("slot %s differs under masks", s.Name)
		}
	}
}
