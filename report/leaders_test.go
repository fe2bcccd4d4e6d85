package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// madeBoard is a leaderboard with what one may have: a table with rows of every kind, one
// with a row fewer, and one that cannot be.
func madeBoard() *Leaderboard {
	row := func(method string, full float64, reference, central bool, seeds ...uint64) *Standing {
		e := &Standing{
			Method: method, Reference: reference, Central: central, Seeds: seeds, Mean: [4]float64{full * 4, full * 3, full * 2, full}, SD: [4]float64{.01, .01, .004, .003},
			Few: [4]float64{.5, .4, .2, full}, Up: full * 1e8, Down: 2e7, Seconds: 3.5, Rounds: 15, From: "default", Commits: []string{"c0ffee"},
		}
		return e
	}
	best, other := row("tacit", .11, false, false, 1, 2), row("fedmf", .067, false, false, 1, 2)
	best.Best, best.P, other.P = [4]bool{true, true, true, true}, [4]float64{1, 1, 1, 1}, [4]float64{0.2, 1e-9, 1e-9, 1e-9}
	best.New = &Newcomers{Share: 0.1, Seeds: 2, Mean: [4]float64{.66, .4, .2, .1}, How: "folded in"}
	mf := row("mf", .07, false, true, 1)
	mf.New = &Newcomers{Share: 0.1, How: "not served: it has rows of users"}
	entries := []*Standing{best, mf, other, row("ease", .075, true, true, 1)}
	return &Leaderboard{Seeds: 2, About: "Made by hand.", Tables: []*Standings{
		{Dataset: "ml-100k", Protocol: "deployed", Users: 943, Items: 1682, Rows: 100000, Entries: entries, Missing: []string{"seeds of fedrap 1+2: not run"}},
		{Dataset: "frappe", Protocol: "deployed", Read: "dedup=first", Users: 778, Items: 4082, Rows: 18700, Entries: entries[:2]},
		{Dataset: "frappe", Protocol: "temporal", Reason: "it has no times"},
	}}
}

func TestTheLeaderboardSaysWhatLeadsWhatTiesAndWhatIsMissing(t *testing.T) {
	var b bytes.Buffer
	if err := Leaders(&b, madeBoard(), "img/board.svg"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"](img/board.svg)", "## ml-100k, protocol deployed", "| tacit | .4400 ± .0100 \\* |", "| mf (one place) |", "| fedmf | .2680 ± .0100 \\~ | .2010 ± .0100 |", "EASE (reference)",
		"Missing: seeds of fedrap 1+2: not run.", "read with dedup=first", "Not run: it has no times.", "11.0 MB", "folded in (tacit); not served: it has rows of users (mf)", "| c0ffee |", "Nothing is missing.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := LeadersText(&b, madeBoard()); err != nil || !strings.Contains(b.String(), "Not run: it has no times.") {
		t.Errorf("text: %v\n%s", err, b.String())
	}
}

func TestTheLeaderboardsPictureHasEveryRowAndSaysWhatWasNotRun(t *testing.T) {
	var b bytes.Buffer
	if err := LeadersPicture(&b, madeBoard(), "deployed"); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, want := range []string{"ml-100k", "frappe", "tacit", "mf (one place)", "EASE (reference)", ".1100", "not run", "11.0 MB"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if err := LeadersPicture(io.Discard, madeBoard(), "temporal"); err == nil {
		t.Error("a protocol without rows has a picture")
	}
}

func TestAFolderOfCellsHasAPage(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(madeBoard())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, LeadersFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Load(dir)
	if err != nil || r.Board == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	var b bytes.Buffer
	if err := HTML(&b, []*Run{r}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>Leaderboard", "ml-100k, protocol deployed", "Full NDCG@10, the best first", "Not run: it has no times."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if drawn, err := Drawings([]*Run{r}); err != nil || len(drawn) != 2 || drawn[0].Name != "leaders-ml-100k-deployed" {
		t.Errorf("%d drawings: %v", len(drawn), err)
	}
	for _, bad := range []string{"{", `{"tables":[null]}`, `{"tables":[{"entries":[null]}]}`} {
		if err := os.WriteFile(filepath.Join(dir, LeadersFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "tacit docs leaderboard --found") {
			t.Errorf("%s is loaded: %v", bad, err)
		}
	}
}
