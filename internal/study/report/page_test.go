package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

var nan = math.NaN()

// pages, given as -pages DIR, keeps the pages of the tests for looking at them.
var pages = flag.String("pages", "", "folder for the HTML pages and pictures that tests make")

// folder, given as -folder RUN, is looked at in Chromium instead of made pages.
var folder = flag.String("folder", "", "run folder whose page is looked at")

// scriptEnd matches the page's script, which is not XML.
var scriptEnd = regexp.MustCompile(`(?s)<script>.*?</script>`)

func keep(t *testing.T, name string, b []byte) {
	t.Helper()
	if *pages != "" {
		if err := os.WriteFile(filepath.Join(*pages, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func page1(t *testing.T, name string, runs ...*result.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	keep(t, name, b.Bytes())
	return b.String()
}

// wellFormed fails unless every element is closed in order.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(scriptEnd.ReplaceAllString(page, "")))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	depth := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("page does not parse at byte %d: %v", d.InputOffset(), err)
		}
		switch tok.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if depth != 0 {
		t.Errorf("%d elements are left open", depth)
	}
}

func TestPageIsSelfContained(t *testing.T) {
	for name, runs := range map[string][]*result.Run{
		"one.html":      {resulttest.Run("pfedrec", "paper", 1, 100, 943)},
		"deployed.html": {resulttest.Run("pfedrec", "deployed", 1, 100, 943)},
		"variants.html": append(variants(9), resulttest.Run("pfedrec", "deployed", 1, 100, 943)),
		"many.html": {
			resulttest.Run("pfedrec", "paper", 1, 100, 943), resulttest.Run("pfedrec", "paper", 2, 100, 943),
			resulttest.Run("fedrap", "paper", 1, 100, 943),
			resulttest.Run("pfedrec", "deployed", 1, 100, 943),
		},
	} {
		page := page1(t, name, runs...)
		wellFormed(t, page)
		if n := strings.Count(page, "<script"); n != 1 {
			t.Errorf("%s holds %d scripts, want its own only", name, n)
		}
		for _, bad := range []string{"http://", "https://", "src=", "@import", "url(", "NaN", "Infinity"} {
			if i := strings.Index(page, bad); i >= 0 {
				t.Errorf("%s holds %q: …%s", name, bad, page[max(0, i-60):min(len(page), i+60)])
			}
		}
		for _, want := range []string{
			"memoriser", "popularity", "EASE", "local-only", "reported: round 53", "<svg",
			"protocol deployed",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
}

// variants are runs of a method whose params differ, and whose curves are close.
func variants(n int) []*result.Run {
	var out []*result.Run
	for i := range n {
		r := resulttest.Run("pfedrec", "paper", 1, 100, 943)
		r.Result.Params["dim"] = float64(8 * (i + 1))
		for _, p := range r.Points {
			p.Test.Sampled["hr@10"] *= 1 - 0.01*float64(i)
		}
		out = append(out, r)
	}
	return out
}

func TestPageOfManyUsersIsSmall(t *testing.T) {
	page := page1(t, "big.html", resulttest.Run("pfedrec", "paper", 1, 1000, 6040))
	if len(page) > 300_000 {
		t.Errorf("page has %d bytes, want at most 300000", len(page))
	}
}

func TestHostileNamesAreEscapedOnThePage(t *testing.T) {
	const evil = `"><script>alert('x')</script><b a='`
	r := resulttest.Run("pfedrec", "paper", 1, 10, 50)
	res := r.Result
	res.Method, res.Dataset, res.DataHash, res.Protocol, res.Version, res.Commit = evil, evil, evil, evil, evil, evil
	res.Preset = new(string)
	*res.Preset = evil
	res.Params = map[string]any{evil: evil, "nested": map[string]any{evil: []any{evil}}}
	res.Published.Source = evil
	res.References["ease"] = &result.Reference{Reason: evil, About: evil}
	res.References[evil] = &result.Reference{Test: resulttest.Summary(0.5, 0.5, nan, nan), About: evil}
	res.Privacy = &result.Privacy{Epsilon: evil, Adjacency: evil, Against: evil}
	for i := range r.Users {
		r.Users[i].ID = evil
	}
	other := resulttest.Run("fedrap", "paper", 2, 10, 50)
	page := page1(t, "hostile.html", r, other)
	wellFormed(t, page)
	page = strings.Replace(page, "<script>", "", 1) // its own
	for _, bad := range []string{"<script", "alert('", "<b a="} {
		if strings.Contains(page, bad) {
			t.Errorf("page holds %q unescaped", bad)
		}
	}
}

func TestExtremeValuesStillDraw(t *testing.T) {
	r := resulttest.Run("pfedrec", "paper", 1, 3, 4)
	big, small := 1e308, -1e308
	r.Points[0].Loss, r.Points[1].Loss = &big, &small
	r.Points[2].Round = 1 << 62
	r.Users[0].TestRank, r.Users[0].Rows = 1<<31-1, 1<<31-1
	r.Result.Seconds.Total, r.Result.Bytes.Up = 1e300, -1e300
	page := page1(t, "extreme.html", r)
	wellFormed(t, page)
	for _, bad := range []string{"NaN", "+Inf", "-Inf"} {
		if strings.Contains(page, bad) {
			t.Errorf("page holds %q", bad)
		}
	}
	empty := &result.Run{Result: &result.Result{Method: "m", Dataset: "d", Protocol: "p"}}
	wellFormed(t, page1(t, "empty.html", empty))
	if err := HTML(io.Discard, nil); err == nil {
		t.Error("a page without a run was written, want an error")
	}
}

func TestFifthsKeepEqualUsersTogether(t *testing.T) {
	var users []result.User
	for i := range 100 {
		users = append(users, result.User{Rows: 10 + i/50, TestRank: 1 + i%20})
	}
	got := fifths(users)
	if len(got) != 2 || got[0].n != 50 || got[1].n != 50 {
		t.Errorf("fifths of two kinds of users are %v, want two of 50", got)
	}
	n := 0
	for _, q := range fifths(resulttest.Users(943, 0.7, resulttest.Rand())) {
		n += q.n
	}
	if n != 943 {
		t.Errorf("fifths hold %d users, want 943", n)
	}
}
