package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// drawnRun is a run with all its figures, of the size of ML-100K's.
func drawnRun(method, protocol string) *result.Run {
	r := resulttest.Run(method, protocol, 1, 100, 943)
	for i := range r.Points {
		if t := r.Points[i].Round; t == 1 || t%10 == 0 {
			r.Points[i].Spectra = madeSpectra(t)
		}
	}
	r.Figures = madeFigures()
	return r
}

func madeSpectra(round int) []result.Spectrum {
	var out []result.Spectrum
	for _, of := range []string{"all", "trained", "unit"} {
		s := result.Spectrum{
			Of: of, Rows: 1600, EffectiveRank: 31 - float64(round)/20, Abundance: 20 - float64(round)/10,
			Participation: 20,
		}
		for k := range 32 {
			s.Singular = append(s.Singular, 90*math.Exp(-float64(k)*float64(round)/400))
		}
		out = append(out, s)
	}
	return out
}

func madeFigures() *result.Figures {
	rng := resulttest.Rand()
	m := &result.ItemMap{Catalogue: 1682, Dim: 32, User: "148"}
	for i := range 1000 {
		own := rng.NormFloat64()
		it := result.MapItem{
			Item: i, Title: fmt.Sprintf("A film with a name of usual length, part %d (1996)", i),
			Rows: 500 - i/2, Global: rng.NormFloat64(), Own: &own,
		}
		switch {
		case i < 60:
			it.Kind = "train"
		case i < 190:
			it.Kind = "negative"
		case i == 200:
			it.Kind = "test"
		case i == 201:
			it.Kind = "valid"
		}
		m.Items = append(m.Items, it)
	}
	for _, table := range []string{"coordinator", "device"} {
		for _, kind := range []string{"pca", "tsne"} {
			p := result.Projection{Table: table, Kind: kind}
			if kind == "pca" {
				p.Shares = &[2]float64{0.12, 0.08}
			}
			for range m.Items {
				p.XY = append(p.XY, [2]float64{10 * rng.NormFloat64(), 7 * rng.NormFloat64()})
			}
			m.Maps = append(m.Maps, p)
		}
	}
	l := &result.Landscape{
		Loss: "bce", Devices: 64, Samples: 14597, Shared: 53824, Norm: 344.6, Centre: 0.2665,
		Ascent: []result.AscentStep{{Rho: 0.01, Rise: 2e-5}, {Rho: 0.05, Rise: 1e-4}, {Rho: 0.1, Rise: 2e-4}},
	}
	for k, mode := range []string{"authors", "filter"} {
		radius := []float64{0.001, 1}[k]
		g := result.Grid{Mode: mode, Most: 0.12, Mean: 0.04}
		for i := range 21 {
			g.Axis = append(g.Axis, radius*float64(i-10)/10)
		}
		for _, b := range g.Axis {
			var row []float64
			for _, a := range g.Axis {
				row = append(row, 0.2665+0.1*(a*a+2*b*b+0.3*a*b))
			}
			g.Loss = append(g.Loss, row)
		}
		l.Grids = append(l.Grids, g)
	}
	p := &result.Popularity{HeadItems: 533, TailShare: 0.07, Coverage: 0.5, Gini: 0.82, GiniData: 0.63, Users: 943}
	for k := range 10 {
		p.Data, p.Recommended = append(p.Data, 0.19-0.02*float64(k)), append(p.Recommended, math.Exp(-float64(k))*0.63)
	}
	for k := range 8 {
		p.Most = append(p.Most,
			result.TopItem{
				Title: fmt.Sprintf("A very popular film indeed, and with a long title, part %d (1997)", k),
				Share: 0.3 - 0.02*float64(k), Rows: 400,
			})
	}
	return &result.Figures{
		Schema: result.Schema, Seconds: 2, Items: m, Landscape: l, Popularity: p,
		Inference: &result.Inference{
			Users: 500, Own: [2]float64{0.57, 0.34}, Base: [2]float64{0.63, 0.38},
			Other: &[2]float64{0.56, 0.29},
		},
	}
}

func madeSearch() *result.Search {
	s := &result.Search{
		Method: "fedmf", Dataset: "ml-100k", Protocol: "deployed", Objective: "hr@10", Metric: "sampled",
		Space: map[string]string{"lr": "1e-3..1,log", "dim": "16|32|64", "mean": "cohort|row"},
	}
	rng := resulttest.Rand()
	for i := range 60 {
		v := 0.3 + 0.3*rng.Float64()
		s.Trials = append(s.Trials, result.Trial{
			Trial: i, Rounds: map[bool]int{false: 33, true: 100}[i%3 == 0],
			Status: "ok", Value: &v, Params: map[string]any{
				"lr": math.Pow(10, -3*rng.Float64()), "dim": float64([]int{16, 32, 64}[i%3]),
				"mean": []string{"cohort", "row"}[i%2],
			},
		})
	}
	return s
}

func TestAPageWithAllFiguresIsUnderAMegabyte(t *testing.T) {
	page := page1(t, "drawn.html", drawnRun("pfedrec", "deployed"))
	wellFormed(t, page)
	if len(page) > 1_000_000 {
		t.Errorf("the page has %d bytes, want under a megabyte", len(page))
	}
	for _, want := range []string{
		"Personal and shared item rows", "Map of the items", "t-SNE of the device", "Effective rank over rounds",
		"Information abundance", "Filter-normalised, from above",
		"in relief", "as SAM takes", "worst-served tenth", "coverage@10", "Accuracy against bytes",
		"95% bootstrap interval", "Content-Security-Policy",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestMissingFigureSaysWhy(t *testing.T) {
	r := drawnRun("fcf", "deployed")
	r.Figures.Landscape, r.Figures.Missing = nil, map[string]string{"landscape": "the method <b>solves</b> its problem"}
	page := page1(t, "missing.html", r)
	if !strings.Contains(page, "Not drawn: the method &lt;b&gt;solves&lt;/b&gt; its problem.") {
		t.Error("the page does not say why there is no landscape")
	}
}

func TestDrawingsAreSelfContained(t *testing.T) {
	const evil = `"><script>alert('x')</script>`
	one := drawnRun("pfedrec", "deployed")
	one.Figures.Items.Items[3].Title = evil
	one.Figures.Popularity.Most[0].Title = "=cmd()" + evil
	for name, runs := range map[string][]*result.Run{
		"one": {one}, "many": append(variants(3), one), "search": {{Search: madeSearch()}},
	} {
		all, err := Drawings(runs)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, d := range all {
			if seen[d.Name] || d.Name != format.FileName(d.Name) {
				t.Errorf("%s: %q is not a file name, or is taken", name, d.Name)
			}
			seen[d.Name] = true
			if *pages != "" {
				keep(t, name+"-"+d.Name+".svg", d.SVG)
			}
			dec := xml.NewDecoder(bytes.NewReader(d.SVG))
			for {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%s: %s.svg is no XML: %v", name, d.Name, err)
					break
				}
			}
			text := string(d.SVG)
			if !strings.HasPrefix(text, "<svg ") || !strings.Contains(text, `xmlns="http://www.w3.org/2000/svg"`) ||
				strings.Contains(text, "<script") || strings.Contains(text, "NaN") {
				t.Errorf("%s: %s.svg does not stand alone: %s", name, d.Name, format.Clip(text, 200))
			}
			recs, err := csv.NewReader(bytes.NewReader(d.CSV)).ReadAll()
			if err != nil || len(recs) < 2 {
				t.Errorf("%s: %s.csv has %d lines, error %v; want a header and data", name, d.Name, len(recs), err)
			}
		}
		if len(all) < 3 {
			t.Errorf("%s: %d drawings, want some", name, len(all))
		}
	}
	if _, err := Drawings(nil); err == nil {
		t.Error("nothing was drawn, want an error")
	}
}

func TestASettingThatDiffersHasACurve(t *testing.T) {
	runs := variants(4)
	page := page1(t, "curve.html", runs...)
	for _, want := range []string{"HR@10 of pfedrec by dim", "NDCG@10 of pfedrec by dim"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "by rounds") {
		t.Error("a setting that does not differ has a curve")
	}
}

func TestSignificanceIsMarkedAgainstTheFirstRow(t *testing.T) {
	a, b, c := resulttest.Run("fedmf", "paper", 1, 20, 943), resulttest.Run("pfedrec", "paper", 1, 20, 943),
		resulttest.Run("fedrap", "paper", 1, 20,
			943)
	for i := range b.Users {
		b.Users[i], c.Users[i] = a.Users[i], a.Users[i]
		b.Users[i].TestRank = max(1, a.Users[i].TestRank/3) // better for everyone
	}
	g := groups([]*result.Run{a, b, c})[0]
	tab := overview(g)
	addSignificance(g, tab)
	cells := func(i int) string { return fmt.Sprint(tab.Rows[i][len(tab.Rows[i])-2:]...) }
	if cells(0) != "basebase" || !strings.Contains(cells(1), "***") || strings.Contains(cells(2), "*") {
		t.Errorf("marks are %q, %q, %q; want base, three stars, and none for equal ranks", cells(0), cells(1), cells(2))
	}
}

func TestASearchFolderIsLoaded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tuned.json": `{"method":"fedmf","dataset":"d","protocol":"deployed","objective":"hr@10","metric":"sampled","space":{"lr":"1..2"},"trials":2}`,
		"trials.jsonl": `{"trial":0,"rounds":3,"status":"ok","params":{"lr":1},"value":0.5}` + "\n" +
			`{"trial":1,"rounds":3,"status":"diverged","params":{"lr":2},"value":null}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := result.Load(dir)
	if err != nil || r.Search == nil || len(r.Search.Trials) != 2 {
		t.Fatalf("the search is %+v, error %v; want two trials", r, err)
	}
	page1(t, "tiny-search.html", r)
	if _, err := result.Compare([]*result.Run{r, r}); err == nil {
		t.Error("a search was compared as a run")
	}
}

func TestTheNumbersUnderFiguresAsText(t *testing.T) {
	f := madeFigures()
	golden(t, "sharpness.txt", sharpness(f.Landscape).Text)
	golden(t, "popularity.txt", popularityTable(f.Popularity).Text)
	golden(t, "served.txt", servedTable(resulttest.Users(943, 0.5, resulttest.Rand())).Text)
	svg, _ := inferenceBars(f.Inference)
	golden(t, "inference.svg", func(w io.Writer) error {
		_, err := io.WriteString(w, strings.ReplaceAll(string(svg), "><", ">\n<")+"\n")
		return err
	})
}

// Settings do not fit into a legend: rows have letters there, in the table and in the
// notes, and a file of a figure has the whole label.
func TestRowsWithLongSettingsHaveLetters(t *testing.T) {
	runs := variants(3)
	for _, r := range runs {
		r.Result.Params["decay"], r.Result.Params["learning-rate"] = 0.00012345, r.Result.Params["dim"]
	}
	g := groups(runs)[0]
	g.letter()
	seen := map[string]bool{}
	for i, r := range g.rows {
		mark := string(rune('A' + i))
		if r.name() != mark || r.legend() != mark+": pfedrec" || !strings.HasPrefix(r.label, mark+": pfedrec dim=") ||
			strings.HasSuffix(r.label, "…") {
			t.Errorf("row %d is called %q in notes, %q in legends, %q in tables", i, r.name(), r.legend(), r.label)
		}
		seen[r.legend()] = true
	}
	if len(seen) != 3 {
		t.Errorf("legends are %v, want three", seen)
	}
	data := g.lines(func(*result.Run) chart.Series { return chart.Series{X: []float64{1}, Y: []float64{1}} })
	if p := (chart.Plot{Lines: data}); plotTable(&p, "x", "y").Rows[2][0] != g.rows[2].label {
		t.Errorf("the file of a figure calls a row %v", plotTable(&p, "x", "y").Rows[2][0])
	}
	g = groups([]*result.Run{variants(1)[0], resulttest.Run("fedmf", "paper", 1, 100, 943)})[0]
	if g.letter(); g.rows[0].legend() != "pfedrec" || g.rows[1].name() != "fedmf" {
		t.Errorf("short labels are %q and %q", g.rows[0].legend(), g.rows[1].name())
	}
}

func TestADisagreementOfMeanAndRanksIsMarkedMixed(t *testing.T) {
	if got := stars(result.Comparison{Verdict: result.Mixed, PHolm: 1e-9}); got != " mixed" {
		t.Errorf("the mark is %q", got)
	}
}
