package report

import (
	"bytes"
	"encoding/csv"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares what write writes with testdata/name.
func golden(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s differs; if the change is intended, run go test ./internal/study/report -update\ngot:\n%s", path,
			b.String())
	}
	return b.String()
}

func TestTextOfARun(t *testing.T) {
	leaky := resulttest.Run("pfedrec", "paper", 1, 100, 10).Result
	golden(t, "paper.txt", func(w io.Writer) error { return Text(w, leaky) })

	honest := resulttest.Run("pfedrec", "deployed", 1, 100, 10).Result
	honest.References["ease"] = &result.Reference{Reason: "9,724 items are more than 6,000"}
	delete(honest.References, "local")
	honest.Dropped, honest.Late = 12, 3
	honest.Privacy = &result.Privacy{
		Epsilon: "inf", Delta: 1e-6, Adjacency: "user", Sampler: "poisson", Q: 0.1, Rounds: 100,
		Mechanism: "gauss", Accountant: "rdp",
	}
	golden(t, "deployed.txt", func(w io.Writer) error { return Text(w, honest) })

	kept := resulttest.Run("fedmf", "deployed", 1, 100, 10).Result
	kept.SelectedRound, kept.Published, kept.References = 41, nil, nil
	kept.Privacy = promised()
	golden(t, "private.txt", func(w io.Writer) error { return Text(w, kept) })
	golden(t, "private.md", func(w io.Writer) error { return Markdown(w, []*result.Run{{Result: kept}}) })

	far := resulttest.Run("pfedrec", "paper", 1, 100, 10).Result
	far.Test = *resulttest.Summary(0.62, 0.43, nan, nan)
	far.LeakMeasured, far.References = nil, nil
	got := golden(t, "far.txt", func(w io.Writer) error { return Text(w, far) })
	if want := "not reproduced: off by -9.62 points HR@10"; !strings.Contains(strings.Join(strings.Fields(got), " "),
		want) {
		t.Errorf("text lacks %q", want)
	}
}

func TestTextOfSeveralSeeds(t *testing.T) {
	var results []*result.Result
	for _, r := range resulttest.Seeds("pfedrec", "paper", 3) {
		results = append(results, r.Result)
	}
	golden(t, "seeds.txt", func(w io.Writer) error { return SeedsText(w, result.CombineSeeds(results)) })
}

// several has two methods, two protocols, a param that differs, and one run
// that is there twice.
func several() []*result.Run {
	runs := append(resulttest.Seeds("pfedrec", "paper", 3), resulttest.Seeds("fedrap", "paper", 1)...)
	global := resulttest.Run("pfedrec", "paper", 1, 100, 10)
	global.Result.Params["infer"] = "global"
	longer := resulttest.Run("pfedrec", "deployed", 1, 200, 10)
	return append(runs, global, resulttest.Run("pfedrec", "deployed", 1, 100, 10), longer, runs[0])
}

func TestMarkdownHasATablePerProtocol(t *testing.T) {
	got := golden(t, "several.md", func(w io.Writer) error { return Markdown(w, several()) })
	for _, part := range strings.Split(got, "### ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		if strings.Contains(title, "deployed") && strings.Contains(rest, "| published") {
			t.Errorf("the table %q has a published number", title)
		}
	}
}

func TestCSVHasALinePerRun(t *testing.T) {
	got := golden(t, "several.csv", func(w io.Writer) error { return CSV(w, several()) })
	lines, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + len(several()); len(lines) != want {
		t.Errorf("CSV has %d lines, want %d", len(lines), want)
	}
}

func TestRunsOfOtherDataShareNoTable(t *testing.T) {
	a, b := resulttest.Run("pfedrec", "paper", 1, 10, 10), resulttest.Run("pfedrec", "paper", 2, 10, 10)
	b.Result.DataHash = "sha256:ffff"
	if got := groups([]*result.Run{a, b}); len(got) != 2 || got[0].title() == got[1].title() {
		t.Errorf("runs on two versions of a data set are in %d tables, want 2 with different titles", len(got))
	}
}

func TestVersionsAreNotAveraged(t *testing.T) {
	a, b := resulttest.Run("pfedrec", "paper", 1, 10, 10), resulttest.Run("pfedrec", "paper", 2, 10, 10)
	b.Result.Version = "v0.2.0"
	g := groups([]*result.Run{a, b})[0]
	if len(g.rows) != 2 || !strings.Contains(g.rows[1].label, "version=v0.2.0") {
		t.Errorf("runs of two versions are in %d rows, want 2 that name the version", len(g.rows))
	}
}

func TestTableAlignsByRunes(t *testing.T) {
	tab := &Table{Header: []string{"naïve", "x"}, Align: "lr", Rows: [][]any{
		{"日本語のデータ", 0.5},
		{"a", math.NaN()},
		{"short"},
	}}
	var b strings.Builder
	if err := tab.Text(&b); err != nil {
		t.Fatal(err)
	}
	want := "naïve        x\n-------  -----\n日本語のデータ  .5000\na            -\nshort\n"
	if b.String() != want {
		t.Errorf("table is\n%swant\n%s", b.String(), want)
	}
}

func TestHostileCellsStayCells(t *testing.T) {
	tab := &Table{Title: "t\x1b[31m", Header: []string{"a|b"}, Rows: [][]any{
		{"x|y\n# <b>`*_[z](q)\x1b]0;"},
		{"=1+1"},
		{"-1"},
	}}
	var text, md, c strings.Builder
	for _, err := range []error{tab.Text(&text), tab.Markdown(&md), tab.CSV(&c)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{text.String(), md.String(), c.String()} {
		if strings.ContainsRune(s, 0x1b) {
			t.Errorf("an escape sequence went through: %q", s)
		}
	}
	if want := `| x\|y # &lt;b&gt;` + "\\`" + `\*\_\[z\](q)`; !strings.Contains(md.String(), want) {
		t.Errorf("Markdown is %q, want it to hold %q", md.String(), want)
	}
	if want := "'=1+1\n-1\n"; !strings.HasSuffix(c.String(), want) {
		t.Errorf("CSV is %q, want it to end with %q", c.String(), want)
	}
}

func TestParityPage(t *testing.T) {
	refs := resulttest.Run("pfedrec", "paper", 1, 10, 10).Result.References
	honest := resulttest.Run("pfedrec", "deployed", 1, 10, 10).Result.References
	pub := &result.Published{HR10: 0.7162, NDCG10: 0.4344, Source: "Zhang et al., IJCAI 2023, Table 2"}
	base := result.ParityRow{
		Method: "pfedrec", Dataset: "ml-100k", Protocol: "paper", Leaks: true, Seeds: 5, HR: 0.7147, HRSD: 0.0061,
		NDCG: 0.4346, NDCGSD: 0.0043,
		FullHR: nan, FullNDCG: nan, Published: pub, RoundMS: 4.04, Commit: "0123456789abcdef", References: refs,
	}
	global := base
	global.Variant, global.HR, global.NDCG = "infer=global", 0.6541, 0.3902
	global.Published = nil
	off := base
	off.Dataset, off.HR = "filmtrust", 0.6801
	deployed := base
	deployed.Protocol, deployed.Leaks, deployed.HR, deployed.NDCG = "deployed", false, 0.5630, 0.3261
	deployed.FullHR, deployed.FullNDCG, deployed.References = 0.0912, 0.0451, honest
	golden(t, "parity.md", func(w io.Writer) error {
		return Parity(w, "Parity", []result.ParityRow{base, global, deployed, off},
			"FedRAP: the paper's table was not found.", "Made by `tacit docs_x`, not by <b>.", "one ` alone")
	})
}
