package privacycost

import (
	"fmt"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/privacy"
)

func TestTheNearestRowIsOfTheMethodAndTheTrust(t *testing.T) {
	for _, c := range []struct {
		method  string
		against privacy.Trust
		want    string // the method of the row; empty for none
	}{
		{"fedmf", privacy.Central, "fedmf"},
		{"pfedrec", privacy.Local, "pfedrec"},
		{"dp-privrec", privacy.Central, "privrec"},
		{"fedmf", privacy.Local, ""},
		{"fedmf", privacy.Distributed, ""},
		{"fedncf", privacy.Central, ""},
		{"", privacy.Distributed, ""},
	} {
		p := PlanConfig{Users: 943, Policy: privacy.Policy{Epsilon: 8, Trust: c.against}}
		if c.method != "" {
			p.Spec = &experiment.Spec{Settings: experiment.Settings{Method: c.method, Data: "ml-100k"}}
		}
		got, err := p.nearest()
		switch {
		case err != nil:
			t.Fatal(err)
		case c.want == "" && got != nil:
			t.Errorf("%s against %s: the row is %s", c.method, c.against, got.Row.Name)
		case c.want != "" && (got == nil || got.Row.Method != c.want || got.Row.Data != "ml-100k" ||
			got.Row.Privacy.Against != string(c.against)):
			t.Errorf("%s against %s: the row is %+v", c.method, c.against, got)
		}
	}
}

func TestAShareHasFourDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0.3: "0.3", 100. / 943: "0.106", 0.1234567: "0.1235",
		0.000123456: "0.0001235", 1. / 3: "0.3333", 0.07: "0.07",
	} {
		if got := fmt.Sprint(short(x)); got != want {
			t.Errorf("%g is cut to %s, want %s", x, got, want)
		}
	}
}
