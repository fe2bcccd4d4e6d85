package experiment

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
)

// Methods in passes took 19 to 25 s of one core on the synthetic world. The estimate is within a factor of 2.
func TestTheCostOfPassesIsEstimated(t *testing.T) {
	cfg, err := data.ParseWorld("")
	if err != nil {
		t.Fatal(err)
	}
	src, err := data.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, took := range map[string]float64{"bank": 23, "sasrec": 19, "tacit": 20} {
		given, err := Assignments(strings.Fields("method="+name+" data=world preset=built-in"), "test")
		if err != nil {
			t.Fatal(err)
		}
		spec, err := Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		spec.FitToDevices(src.Users())
		if s := spec.EstimateSeconds(src); s < took/2 || s > 2*took {
			t.Errorf("%s is estimated to take %.1f s; it took %g s", name, s, took)
		}
	}
}
