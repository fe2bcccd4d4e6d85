package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestLaTeXEscapesWhatTeXWouldRead(t *testing.T) {
	var b bytes.Buffer
	tab := &Table{
		Title: "50% of a_b & $x", Header: []string{"{run}", `\x`}, Align: "lr",
		Rows: [][]any{{"a#1", "< 0.5 ± 1"}}, Notes: []string{"a~b^c"},
	}
	if err := tab.LaTeX(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\begin{tabular}{lr}`, `\{run\} & \textbackslash{}x \\`, `a\#1 & $<$ 0.5 $\pm$ 1 \\`,
		`50\% of a\_b \& \$x`, `a\textasciitilde{}b\textasciicircum{}c`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %s:\n%s", want, b.String())
		}
	}
}
