package experiment

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/report"
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
		if m.HR == 0 || m.FullHR == 0 || m.Selected == 0 {
			t.Errorf("%s lacks a number: %+v", m.Name, m)
		}
		if words[m.Name] != m.Settings {
			t.Errorf("%s was measured with other settings than it has now: run tacit docs privacy", m.Name)
		}
	}
}

func TestRowsWithNamesThatNobodyReadsAreRefused(t *testing.T) {
	if _, err := ReadRows([]byte(`[{"name": "a", "FullHR": 0.5}]`)); err == nil {
		t.Error("a number was lost")
	}
}

func TestThePrivacyPageShowsEachRow(t *testing.T) {
	row := Measured{
		Method: "fedmf", Data: "ml-100k", Budget: "8", HR: 0.5154, Users: 943, Rounds: 20, Seed: 1, Commit: "abc",
		Settings: "dim=8",
		Privacy: &report.Privacy{
			Epsilon: 7.99, Adjacency: "zero-out", Sampler: "none", Q: 1, Rounds: 20,
			Noise: 3.0827, Clip: 1,
		},
	}
	laplace := Measured{Method: "pfedrec", Data: "ml-100k", Budget: "laplace:0.1", HR: 0.5}
	page, err := PromisePage([]Measured{row, laplace}, []Baseline{{Data: "ml-100k", Name: "popularity"}})
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

func TestRowsThatAreNotMeasuredAnewStay(t *testing.T) {
	kept, err := MeasuredRows()
	if err != nil {
		t.Fatal(err)
	}
	gone := Measured{Name: "gone", Data: "ml-1m"}
	var said []string
	c := MeasureConfig{
		Runs: "runs", Found: true, Sets: []string{"ml-100k"}, Kept: append(kept, gone),
		Tell: func(Measured) {}, Skipped: func(what string) { said = append(said, what) },
	}
	rows, err := c.merge(func(p Promise) (Measured, error) {
		if p.Name() != "fedmf-ml-100k-8" {
			return Measured{}, errNotFound
		}
		return Measured{Name: p.Name(), Data: p.Data, HR: 0.75}, nil
	})
	if err != nil || len(rows) != len(kept) {
		t.Fatalf("%d rows of %d: %v", len(rows), len(kept), err)
	}
	for i, m := range rows {
		if want := kept[i].HR; m.Name != kept[i].Name || m.HR != want && (m.Name != "fedmf-ml-100k-8" || m.HR != 0.75) {
			t.Errorf("row %d is %s with %g, want %s with %g", i, m.Name, m.HR, kept[i].Name, want)
		}
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "fedmf-ml-100k-20 is not among the runs") ||
		!strings.Contains(all, "row of gone goes") || strings.Contains(all, "fedmf-ml-1m-8") {
		t.Errorf("it says\n%s", all)
	}
	none := func(Promise) (Measured, error) { return Measured{}, errNotFound }
	if _, err := c.merge(none); err == nil || !strings.Contains(err.Error(), "none of the runs") {
		t.Errorf("nothing is found, and the error is %v", err)
	}
	c.Sets = []string{"ml-2m"}
	if _, err := c.merge(none); err == nil || !strings.Contains(err.Error(), "no promise on ml-2m") {
		t.Errorf("an unknown set, and the error is %v", err)
	}
}
