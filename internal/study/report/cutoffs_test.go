package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// The chosen list lengths appear in every form of a report, with the values of the result.
func TestListLengthsThatTheUserChose(t *testing.T) {
	deployed := resulttest.Run("fedmf", "deployed", 1, 10, 10)
	sampled := resulttest.Run("fedmf", "paper", 1, 10, 10)
	for _, r := range []*result.Run{deployed, sampled} {
		r.Result.Test.Sampled["hr@5"], r.Result.Test.Sampled["ndcg@5"] = 0.1234, 0.0567
		r.Result.References["ease"].Test.Sampled["hr@20"] = 0.8765
	}
	deployed.Result.Test.Full["ndcg@20"] = 0.0321
	write := func(do func(w io.Writer) error) string {
		t.Helper()
		var b bytes.Buffer
		if err := do(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one := []*result.Run{deployed}
	for name, text := range map[string]string{
		"text":     write(func(w io.Writer) error { return Text(w, deployed.Result, 5, 20) }),
		"markdown": write(func(w io.Writer) error { return Markdown(w, one, 5, 20) }),
		"html":     write(func(w io.Writer) error { return HTML(w, one, 5, 20) }),
		"two runs": write(func(w io.Writer) error { return HTML(w, append(one, sampled), 5, 20) }),
	} {
		for _, want := range []string{"sampled HR@5", "full NDCG@20", ".1234", ".0567", ".0321", ".8765"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
	if text := write(func(w io.Writer) error { return Text(w, sampled.Result, 5, 20) }); !strings.Contains(text,
		"sampled NDCG@20") || strings.Contains(text, "full NDCG@20") {
		t.Errorf("the columns of a protocol without full ranking are wrong:\n%s", text)
	}
	if text := write(func(w io.Writer) error { return Text(w, deployed.Result) }); strings.Contains(text, "HR@5") {
		t.Error("list lengths appear that nobody chose")
	}
	text := write(func(w io.Writer) error { return CSV(w, one, 5, 10, 20) })
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for i, name := range lines[0] {
		if _, twice := seen[name]; twice {
			t.Errorf("column %s appears twice", name)
		}
		seen[name] = lines[1][i]
	}
	if seen["test.sampled.hr@5"] != "0.1234" || seen["test.full.ndcg@20"] != "0.0321" {
		t.Errorf("columns are %v", seen)
	}
}
