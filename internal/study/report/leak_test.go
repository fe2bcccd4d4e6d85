package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// leakRows are what Leak draws of a method on a data set.
func leakRows(method, dataset string) []result.ParityRow {
	var out []result.ParityRow
	for i, protocol := range []string{"paper", "deployed"} {
		refs := resulttest.Run("pfedrec", protocol, 1, 10, 10).Result.References
		own := result.ParityRow{
			Method: method, Dataset: dataset, Protocol: protocol, Leaks: i == 0, Seeds: 5,
			HR: 0.7147 - 0.15*float64(i), References: refs,
		}
		global := own
		global.Variant, global.HR = "infer=global", 0.6541-0.15*float64(i)
		out = append(out, own, global)
	}
	return out
}

func TestLeakDrawsBothProtocols(t *testing.T) {
	var b bytes.Buffer
	if err := LeakPicture(&b, leakRows("pfedrec", "ml-100k"), "ml-100k"); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, want := range []string{
		"paper: held-out", "deployed: what", ".7147", ".5647", "pfedrec", "popularity", "memoriser, no model", ".9989",
		".1034", "EASE, centralised", "HR@10 on ml-100k",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("picture lacks %q", want)
		}
	}
}

func TestLeakEscapesHostileNames(t *testing.T) {
	const evil = `"><script>alert('x')</script><b a='`
	var b bytes.Buffer
	if err := LeakPicture(&b, leakRows(evil, evil), evil); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	for _, bad := range []string{"<script", "alert('", "<b a="} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("picture holds %q unescaped", bad)
		}
	}
}

func TestLeakFailsWithoutRowsOfBothProtocols(t *testing.T) {
	rows := leakRows("pfedrec", "ml-100k")
	for _, c := range [][]result.ParityRow{nil, rows[:2], rows[2:], {rows[0], rows[0]}, leakRows("pfedrec", "ml-1m")} {
		if err := LeakPicture(io.Discard, c, "ml-100k"); err == nil {
			t.Errorf("%d rows gave a picture, want an error", len(c))
		}
	}
}
