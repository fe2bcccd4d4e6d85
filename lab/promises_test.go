package lab

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/report"
)

func TestEveryPromiseIsARunThatCanBeMade(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Promises() {
		s, err := Resolve(p.settings())
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if seen[p.Name()] || strings.ContainsAny(p.Name(), " :=") {
			t.Errorf("%s is no name of a folder of its own", p.Name())
		}
		seen[p.Name()] = true
		if promised := p.Budget != "none" && !strings.HasPrefix(p.Budget, "laplace"); promised != s.DP.On() {
			t.Errorf("%s has a budget of %s and dp is on: %v", p.Name(), p.Budget, s.DP.On())
		}
	}
}

func TestTheMeasuredRowsArePromises(t *testing.T) {
	rows, err := MeasuredRows()
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, p := range Promises() {
		words[p.Name()] = p.words()
	}
	for _, m := range rows {
		if words[m.Name] != m.Settings {
			t.Errorf("%s was measured with other settings than it has now: run tacit docs privacy", m.Name)
		}
	}
}

func TestThePrivacyPageShowsEachRow(t *testing.T) {
	row := Measured{
		Method: "fedmf", Data: "ml-100k", Budget: "8", HR: 0.5154, Users: 943, Rounds: 20, Seed: 1, Commit: "abc", Settings: "dim=8",
		Privacy: &report.Privacy{Epsilon: 7.99, Adjacency: "zero-out", Sampler: "none", Q: 1, Rounds: 20, Noise: 3.0827, Clip: 1},
	}
	laplace := Measured{Method: "pfedrec", Data: "ml-100k", Budget: "laplace:0.1", HR: 0.5}
	page, err := PromisePage([]Measured{row, laplace}, []Baseline{{Data: "ml-100k", Name: "popularity"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".5154", "7.99", "3.08", "zero-out, no sampling", "abc", "dim=8", "0.00327", "popularity", "| 0.4 | 5 | 500 |", "| laplace:0.1 | inf |", "Tuning is not covered"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
