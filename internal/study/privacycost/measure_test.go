package privacycost

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/result"
)

func TestEveryRunResolves(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Runs() {
		s, err := experiment.Resolve(p.settings())
		if err != nil {
			t.Errorf("%s: %v", p.Name(), err)
			continue
		}
		if seen[p.Name()] || strings.ContainsAny(p.Name(), " :=") {
			t.Errorf("%s is not a unique folder name", p.Name())
		}
		seen[p.Name()] = true
		if guaranteed := p.Budget != "none" && !strings.HasPrefix(p.Budget, "laplace"); guaranteed != s.DP.On() {
			t.Errorf("%s has a budget of %s and dp is on: %v", p.Name(), p.Budget, s.DP.On())
		}
	}
}

func TestTheMeasuredRowsHaveCurrentSettings(t *testing.T) {
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, p := range Runs() {
		words[p.Name()] = p.words()
	}
	for _, m := range rows {
		if m.HR == 0 || m.FullHR == 0 || m.Selected == 0 {
			t.Errorf("%s lacks a number: %+v", m.Name, m)
		}
		if words[m.Name] != m.Settings {
			t.Errorf("%s was measured with other settings than it has now: run tacit docs privacy", m.Name)
		}
	}
}

func TestRowsWithUnknownFieldsAreRejected(t *testing.T) {
	if _, err := ReadRows([]byte(`[{"name": "a", "FullHR": 0.5}]`)); err == nil {
		t.Error("a number was lost")
	}
}

func TestThePrivacyPageShowsEachRow(t *testing.T) {
	row := Row{
		Method: "fedmf", Data: "ml-100k", Budget: "8", HR: 0.5154, Users: 943, Rounds: 20, Seed: 1, Commit: "abc",
		Settings: "dim=8",
		Privacy: &result.Privacy{
			Epsilon: 7.99, Adjacency: "zero-out", Sampler: "none", Q: 1, Rounds: 20,
			Noise: 3.0827, Clip: 1,
		},
	}
	laplace := Row{Method: "pfedrec", Data: "ml-100k", Budget: "laplace:0.1", HR: 0.5}
	page, err := Page([]Row{row, laplace}, []Baseline{{Data: "ml-100k", Name: "popularity"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".5154", "7.99", "3.08", "zero-out, no sampling", "abc", "dim=8", "0.00327",
		"popularity", "| 0.4 | 5 | 500 |", "| laplace:0.1 | inf |", "Tuning is not covered",
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestRowsThatAreNotMeasuredAgainStay(t *testing.T) {
	kept, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	gone := Row{Name: "gone", Data: "ml-1m"}
	events := map[Event]bool{}
	c := Config{
		Folder: "runs", StoredOnly: true, Sets: []string{"ml-100k"}, Old: append(kept, gone),
		OnEvent: func(e Event) { events[e] = true },
	}
	rows, err := c.merge(map[string]Row{
		"fedmf-ml-100k-8": {Name: "fedmf-ml-100k-8", Data: "ml-100k", HR: 0.75},
	})
	if err != nil || len(rows) != len(kept) {
		t.Fatalf("%d rows of %d: %v", len(rows), len(kept), err)
	}
	for i, m := range rows {
		if want := kept[i].HR; m.Name != kept[i].Name || m.HR != want && (m.Name != "fedmf-ml-100k-8" || m.HR != 0.75) {
			t.Errorf("row %d is %s with %g, want %s with %g", i, m.Name, m.HR, kept[i].Name, want)
		}
	}
	if !events[RowKept{"fedmf-ml-100k-20"}] || !events[RowDropped{"gone"}] || events[RowKept{"fedmf-ml-1m-8"}] {
		t.Errorf("events are %v", events)
	}
	if _, err := c.merge(nil); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("nothing is found, and the error is %v", err)
	}
	c.Sets = []string{"ml-2m"}
	if _, err := c.merge(nil); err == nil || !strings.Contains(err.Error(), "no runs on ml-2m") {
		t.Errorf("an unknown set, and the error is %v", err)
	}
}
