package reproduce

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
)

func TestEveryPaperNamesMethodsSettingsAndSetsThatExist(t *testing.T) {
	sets := map[string]bool{}
	for _, k := range data.KnownSets() {
		sets[k.Name] = true
	}
	for _, p := range Papers() {
		if len(p.Quick) == 0 || len(p.Protocols) == 0 || p.Title == "" || p.Note == "" {
			t.Errorf("%s lacks a quick set, protocols, a title or a note", p.Name)
		}
		for _, set := range append(p.Quick, p.Sets...) {
			if !sets[set] {
				t.Errorf("%s lists the unknown data set %s", p.Name, set)
			}
			for _, protocol := range p.Protocols {
				for _, c := range p.rows {
					words := append([]string{
						"data=" + set, "method=" + c.method, "protocol=" + protocol,
						"preset=built-in",
					}, strings.Fields(c.variant)...)
					given, err := experiment.Assignments(words, "test")
					if err == nil {
						_, err = experiment.Resolve(given)
					}
					if err != nil {
						t.Errorf("%s: %v: %v", p.Name, words, err)
					}
				}
			}
		}
	}
	if _, err := PaperNamed("pfedrek"); err == nil || !strings.Contains(err.Error(), `did you mean "pfedrec"`) {
		t.Errorf("a paper with a slip in its name: %v", err)
	}
}

func TestRowsAreRunOnceAndFoundAgain(t *testing.T) {
	dir := t.TempDir()
	done := 0
	cfg := Config{
		Sets: []string{"world"}, Protocols: []string{"paper", "deployed"}, Seeds: 2, Runs: dir, OnEvent: func(e Event) {
			if e, ok := e.(RowDone); ok {
				if done++; e.Done != done || e.Of != 4 {
					t.Errorf("row %d is reported as %d of %d", done, e.Done, e.Of)
				}
			}
		},
		Paper: Paper{rows: []tableRow{
			{table: "a", method: "fedmf", variant: "rounds=1"},
			{table: "b", method: "mf", variant: "rounds=1 lr=0.01"},
		}},
	}
	run := func() string {
		done = 0
		rows, err := Run(t.Context(), experiment.Job{Jobs: 2, NoReferences: true}, cfg)
		if err != nil || len(rows) != 4 || rows[1].Table != "b" || !rows[1].Central || rows[0].Seeds != 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		b, err := os.ReadFile(filepath.Join(rows[0].Folder, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := run()
	if second := run(); second != first {
		t.Error("a stored row is run again: its seconds have changed")
	}
	cfg.Paper.rows[0].variant = "rounds=1 lr=0.3"
	cfg.Paper.rows[0].method = "fedmf"
	if err := os.Rename(filepath.Join(dir, "world", "paper", "fedmf-rounds-1"), filepath.Join(dir, "world", "paper",
		"fedmf-rounds-1-lr-0.3")); err != nil {
		t.Fatal(err)
	}
	if third := run(); third == first {
		t.Error("a run with other settings is taken for the row")
	}
}

// PrivRec keeps the rows of Frappe that repeat a pair; the PFedRec family does not.
func TestAPaperReadsADataSetInItsOwnWay(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("user\titem\tcnt\tdaytime\tweekday\tisweekend\thomework\tcost\tweather\tcountry\tcity\n")
	for u := range 20 {
		for i := range 12 {
			fmt.Fprintf(&b, "%d\t%d\t1\tmorning\tmonday\tworkday\tunknown\tfree\tsunny\tSpain\t0\n", u, i%6)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "frappe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "frappe", "frappe.csv"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"pfedrec": 20 * 6, "privrec": 20 * 12} {
		p, err := PaperNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Paper: p, DataDir: dir, Sets: []string{"frappe"}, Protocols: p.Protocols[:1], Seeds: 5}
		plan, err := c.plan(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := experiment.Rows(plan.Rows[0].source); got != want {
			t.Errorf("%s reads %d rows of Frappe, want %d", name, got, want)
		}
		for _, row := range plan.Rows {
			if name == "privrec" && row.spec.EvalEvery != privrecEvery {
				t.Errorf("%s is evaluated every %d rounds under privrec, want %d", row.method, row.spec.EvalEvery,
					privrecEvery)
			}
			if row.spec.EstimateSeconds(row.source) <= 0 {
				t.Errorf("%s is estimated to take no time", row.method)
			}
		}
	}
}

func TestAVariantIsTestedAgainstItsBase(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cfg := Config{
		Sets: []string{"world"}, Protocols: []string{"deployed", "paper"}, Seeds: 2,
		Paper: Paper{
			data: map[string][]experiment.Setting{"world": {{Key: "world", Value: "users=80,items=300,mean-rows=20"}}},
			rows: []tableRow{
				{table: "a", method: "fedmf", variant: "rounds=2"},
				{table: "a", method: "fedmf+plgc", variant: "rounds=2 ntk=none decor=0", against: "fedmf"},
			},
		},
	}
	rows, err := Run(t.Context(), experiment.Job{Jobs: 2}, cfg)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []int{0, 4, 0, 2} { // deployed has full metrics too
		if got := rows[i].Against; len(got) != want {
			t.Errorf("%s under %s has %d tests against its base, want %d", rows[i].Method, rows[i].Protocol, len(got),
				want)
		}
		for _, c := range rows[i].Against { // without its parts it is the base, to the bit
			if c.Verdict != "no difference shown" || c.Value != c.Base || c.Users != 80 {
				t.Errorf("%s: %+v", rows[i].Method, c)
			}
		}
	}
	var b strings.Builder
	if err := report.ParityText(&b, rows); err != nil || !strings.Contains(b.String(), "Compared with its base") ||
		!strings.Contains(b.String(), "no difference shown") {
		t.Errorf("the tables do not show the tests (%v):\n%s", err, b.String())
	}
}

// A quick reproduction keeps the paper's own method and fits others in, each under all protocols or none.
func TestAQuickReproductionIsShort(t *testing.T) {
	for _, paper := range Papers() {
		if paper.Name != "pfedrec" && paper.Name != "fedrap" && paper.Name != "plgc" {
			continue // on data sets of their own
		}
		c := Config{Paper: paper, Sets: []string{"world"}, Seeds: 1, Quick: true}
		c.Protocols = []string{"paper", "deployed"}
		quick, err := c.plan(1)
		if err != nil {
			t.Fatal(err)
		}
		c.Quick = false
		whole, err := c.plan(1)
		if err != nil {
			t.Fatal(err)
		}
		if quick.LeftOut == 0 || len(quick.Rows)+quick.LeftOut != len(whole.Rows) || len(quick.Rows)%2 != 0 {
			t.Errorf("%s: %d rows and %d left out, of %d", paper.Name, len(quick.Rows), quick.LeftOut, len(whole.Rows))
		}
		if quick.Seconds > quickSeconds && len(quick.Rows) > 2 {
			t.Errorf("%s: %d rows with an estimate of %.0f s exceed %d s", paper.Name, len(quick.Rows), quick.Seconds,
				quickSeconds)
		}
		if paper.Name == "plgc" {
			continue
		}
		if !slices.ContainsFunc(quick.Rows, func(r *Row) bool { return r.method == paper.Name && r.variant == "" }) {
			t.Errorf("%s: the paper's own method is left out", paper.Name)
		}
	}
}
