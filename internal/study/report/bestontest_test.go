package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// A paper that chose its round on test is met with a line that did the same and says
// so; the method's own line is the last round's.
func TestRoundSelectedOnTestIsALabelledSecondRow(t *testing.T) {
	r := resulttest.Run("fedrecgel", "fedrecgel", 1, 100, 943)
	r.Result.Valid.Sampled, r.Result.SelectedRound = nil, 100
	r.Result.Test = *resulttest.Summary(0.9144, 0.8177, nan, nan)
	r.Result.BestOnTest = &result.BestOnTest{Round: 91, Test: *resulttest.Summary(0.9261, 0.8205, nan, nan)}
	r.Result.Published = &result.Published{HR10: 0.9177, NDCG10: 0.8175, Source: "a sweep", Protocol: "fedrecgel"}
	var text, md, page, table bytes.Buffer
	if err := Text(&text, r.Result); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&md, []*result.Run{r}); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, []*result.Run{r}); err != nil {
		t.Fatal(err)
	}
	if err := CSV(&table, []*result.Run{r}); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"fedrecgel .9144 .8177 its best round on test .9261 .8205 published .9177 .8175",
		"Reported round: 100, the last one, because there is no validation set. Selecting on test, as in the paper, " +
			"gives round 91; those metrics were selected on the test items",
		"our HR@10 differs by +0.84 points and our NDCG@10 by +0.30 points",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("the text does not say %q:\n%s", want, text.String())
		}
	}
	for name, b := range map[string]string{"Markdown": md.String(), "HTML": page.String()} {
		if !strings.Contains(b, "its best round on test") || !strings.Contains(b, ".9261") ||
			!strings.Contains(b, "were selected on the test items") {
			t.Errorf("%s does not show the round selected on test", name)
		}
	}
	if strings.Contains(page.String(), "selected on the dashed line") {
		t.Error("the page says that validation chose a round")
	}
	if !strings.Contains(table.String(), "chosen_on_test.sampled.hr@10") || !strings.Contains(table.String(),
		"0.9261") {
		t.Error("the CSV has no column of the round that was chosen on test")
	}
}

func TestPublishedMetricsAppearOnlyUnderTheirProtocol(t *testing.T) {
	for _, c := range []struct {
		of, under string
		beside    bool
	}{
		{"", "paper", true},
		{"paper", "paper", true},
		{"fedrecgel", "fedrecgel", true},
		{"", "fedrecgel", false},
		{"fedrecgel", "paper", false},
		{"paper", "deployed", false},
	} {
		r := resulttest.Run("pfedrec", c.under, 1, 10, 943)
		r.Result.Published.Protocol = c.of
		var b bytes.Buffer
		if err := Text(&b, r.Result); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "our HR@10 differs by"); got != c.beside {
			t.Errorf("a number published under %q is set beside one under %s: %v", c.of, c.under, got)
		}
	}
}
