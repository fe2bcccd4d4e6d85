package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/browsertest"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// madeBoard is a leaderboard with what one may have: a table with rows of every kind, one
// with a row fewer, and one that cannot be.
func madeBoard() *result.Leaderboard {
	row := func(method string, full float64, reference, central bool, seeds ...uint64) *result.LeaderboardRow {
		e := &result.LeaderboardRow{
			Method: method, Reference: reference, Central: central, Seeds: seeds, Mean: [4]float64{
				full * 4, full * 3,
				full * 2, full,
			}, SD: [4]float64{.01, .01, .004, .003},
			FewRows: [4]float64{.5, .4, .2, full}, Up: full * 1e8, Down: 2e7, Seconds: 3.5, Rounds: 15,
			Settings: "default",
			Commits:  []string{"c0ffee"},
		}
		return e
	}
	best, other := row("tacit", .11, false, false, 1, 2), row("fedmf", .067, false, false, 1, 2)
	best.Best, best.P, other.P = [4]bool{true, true, true, true}, [4]float64{1, 1, 1, 1},
		[4]float64{0.2, 1e-9, 1e-9, 1e-9}
	best.NewUsers = &result.NewUserScores{Share: 0.1, Seeds: 2, Mean: [4]float64{.66, .4, .2, .1}, How: "folded in"}
	mf := row("mf", .07, false, true, 1)
	mf.NewUsers = &result.NewUserScores{Share: 0.1, How: "not served: it has rows of users"}
	entries := []*result.LeaderboardRow{best, mf, other, row("ease", .075, true, true, 1)}
	return &result.Leaderboard{Seeds: 2, About: "Made by hand.", Tables: []*result.LeaderboardTable{
		{
			Dataset: "ml-100k", Protocol: "deployed", Users: 943, Items: 1682, Rows: 100000, Entries: entries,
			Missing: []string{"seeds of fedrap 1+2: not run"},
		},
		{
			Dataset: "frappe", Protocol: "deployed", ReadOptions: "dedup=first", Users: 778, Items: 4082, Rows: 18700,
			Entries: entries[:2],
		},
		{Dataset: "frappe", Protocol: "temporal", Reason: "it has no times"},
	}}
}

func TestLeaderboardMarksBestTiesAndMissingRows(t *testing.T) {
	var b bytes.Buffer
	if err := LeaderboardMarkdown(&b, madeBoard(), "img/board.svg"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"](img/board.svg)", "## ml-100k, protocol deployed", "| tacit | .4400 ± .0100 \\* |", "| mf (centralised) |",
		"| fedmf | .2680 ± .0100 \\~ | .2010 ± .0100 |", "EASE (reference)",
		"Missing: seeds of fedrap 1+2: not run.", "read with dedup=first", "Not run: it has no times.", "11.0 MB",
		"folded in (tacit); not served: it has rows of users (mf)", "| c0ffee |", "Complete: no rows are missing.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := LeaderboardText(&b, madeBoard()); err != nil ||
		!strings.Contains(b.String(), "Not run: it has no times.") {
		t.Errorf("text: %v\n%s", err, b.String())
	}
}

func TestLeaderboardPictureHasEveryRow(t *testing.T) {
	var b bytes.Buffer
	if err := LeaderboardPicture(&b, madeBoard(), "deployed"); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, want := range []string{
		"ml-100k", "frappe", "tacit", "mf (centralised)", "EASE (reference)", ".1100",
		"not run", "11.0 MB",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if err := LeaderboardPicture(io.Discard, madeBoard(), "temporal"); err == nil {
		t.Error("a protocol without rows has a picture")
	}
}

func TestLeaderboardFolderHasAPage(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(madeBoard())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, result.LeaderboardFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := result.Load(dir)
	if err != nil || r.Leaderboard == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	var b bytes.Buffer
	if err := HTML(&b, []*result.Run{r}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>Leaderboard", "ml-100k, protocol deployed", "Full NDCG@10, best first",
		"Not run: it has no times.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if drawn, err := Drawings([]*result.Run{r}); err != nil || len(drawn) != 2 ||
		drawn[0].Name != "leaders-ml-100k-deployed" {
		t.Errorf("%d drawings: %v", len(drawn), err)
	}
	for _, bad := range []string{"{", `{"tables":[null]}`, `{"tables":[{"entries":[null]}]}`} {
		if err := os.WriteFile(filepath.Join(dir, result.LeaderboardFile), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := result.Load(dir); err == nil || !strings.Contains(err.Error(), "tacit docs leaderboard --found") {
			t.Errorf("%s is loaded: %v", bad, err)
		}
	}
}

// At 1300 px every column of a table with the longest cells is in sight, and no method is
// broken into two lines; on a phone the methods stay while the rest is scrolled.
func TestTheLeaderboardFitsAScreen(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := browsertest.Chromium(t)
	board := madeBoard()
	e := *board.Tables[0].Entries[0]
	e.Method, e.Epsilon, e.Seeds, e.Up, e.Down, e.Seconds = "tacit-private", 4.58, []uint64{1, 2, 3, 4, 5}, 11.5e6,
		43.1e6, 182
	e.NewUsers = &result.NewUserScores{Share: 0.1, Seeds: 5, Mean: e.Mean, SD: e.SD, How: "folded in"}
	board.Tables[0].Entries = append([]*result.LeaderboardRow{&e}, board.Tables[0].Entries...)
	path := filepath.Join(t.TempDir(), "board.html")
	if err := os.WriteFile(path, []byte(page1(t, "wide.html", &result.Run{Leaderboard: board})), 0o600); err != nil {
		t.Fatal(err)
	}
	const lines = `[...document.querySelectorAll(".dense tbody th")].map(h => Math.round((h.clientHeight - 10) / 19.5))`
	desk := browsertest.Look{Name: "desk", Width: 1300, Height: 900, Media: "screen", Scheme: "light"}
	for _, l := range []browsertest.Look{desk, browsertest.Looks[2]} {
		if bad := open(b, path, l); len(bad) > 0 {
			t.Errorf("%s: %v", l.Name, bad)
		}
		var hidden []int
		b.Eval(`[...document.querySelectorAll(".dense")].map(d => d.scrollWidth - d.clientWidth)`, &hidden)
		var stays bool
		b.Eval(`(() => { const d = document.querySelector(".dense"), h = d.querySelector("tbody th"), at = h.getBoundingClientRect().left; d.scrollLeft = 200; return h.getBoundingClientRect().left == at; })()`, &stays)
		if len(hidden) == 0 || l.Name == "desk" && slices.Max(hidden) > 0 || !stays {
			t.Errorf("%s: %v px of the tables are out of sight, and that the methods stay is %v", l.Name, hidden, stays)
		}
		var high []int
		if b.Eval(lines, &high); l.Name == "desk" && slices.Max(high) > 1 {
			t.Errorf("methods have up to %d lines", slices.Max(high))
		}
	}
	open(b, path, browsertest.Looks[0])
	var hidden int
	if b.Eval(`(() => { const d = document.querySelector(".words"); return d.scrollWidth - d.clientWidth; })()`,
		&hidden); hidden > 0 {
		t.Errorf("%d px of the settings are out of sight", hidden)
	}
	var titles []string
	b.Eval(`[...document.querySelectorAll(".dense thead")[0].querySelectorAll("th")].map(h => h.title)`, &titles)
	if len(titles) != len(shortNames) || titles[1] != result.MetricNames[0] {
		t.Errorf("columns are called in full %q", titles)
	}
}
