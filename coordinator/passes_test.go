package coordinator

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// inPasses is a method that trains in four passes.
type inPasses struct{ method.Method }

func (m *inPasses) Passes() int           { return 4 }
func (m *inPasses) Unwrap() method.Method { return m.Method }

// A run that names no rounds has as many as its passes over the devices need.
func TestRoundsFitTheDevices(t *testing.T) {
	registry := methods.Default().Clone()
	base, err := registry.Lookup("fedmf")
	if err == nil {
		err = registry.Add(method.Entry{
			Name: "passing", New: func() method.Method { return &inPasses{base.New()} },
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join(t.TempDir(), "state"), nil, func(o *Options) { o.Methods = registry })
	for i, c := range []struct {
		settings string
		cohort   string
		rounds   int
	}{
		{`"method":"passing","devices":100,"params":{"dim":"4"}`, "cycle:2%", 4 * 7},
		{`"devices":200`, "cycle:2%", 4 * 14},
		{`"cohort":"50"`, "50", 4 * 4},
		{`"rounds":9`, "50", 9},
		{`"devices":300`, "50", 9}, // the operator chose the rounds
		{`"method":"fedmf"`, "50", 9},
		{`"method":"passing","cohort":"all"`, "all", 4},
	} {
		if i > 0 {
			if status, text := r.raw("POST", "runs/end", "operator", "application/json", ""); status != 200 {
				t.Fatalf("%d %s", status, text)
			}
		}
		body := fmt.Sprintf(`{"settings":{"name":"films",%s},"items":[{"id":"a","title":"A"},{"id":"b"}]}`, c.settings)
		if status, text := r.raw("POST", "runs", "operator", "application/json", body); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		s := r.c.settings()
		if cohort, _ := s.Cohort.MarshalText(); string(cohort) != c.cohort || s.Rounds != c.rounds {
			t.Errorf("%s: cohort %s, %d rounds; want %s, %d", c.settings, cohort, s.Rounds, c.cohort, c.rounds)
		}
	}
}
