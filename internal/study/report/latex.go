package report

import (
	"io"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// LaTeX writes the table with booktabs rules; a caption holds title and notes.
func (t *Table) LaTeX(w io.Writer) error {
	var b strings.Builder
	lines := t.lines()
	b.WriteString("\\begin{table}\n\\centering\n\\begin{tabular}{")
	for col := range lines[0] {
		if t.right(col) {
			b.WriteByte('r')
		} else {
			b.WriteByte('l')
		}
	}
	b.WriteString("}\n\\toprule\n")
	for i, l := range lines {
		for j := range l {
			l[j] = escapeTeX(l[j])
		}
		b.WriteString(strings.Join(l, " & ") + " \\\\\n")
		if i == 0 || i == t.Rule && i < len(lines)-1 {
			b.WriteString("\\midrule\n")
		}
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n\\caption{" +
		escapeTeX(format.Clean(strings.Join(append([]string{t.Title}, t.Notes...), ". "))) + "}\n\\end{table}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var texEscapes = strings.NewReplacer(
	`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "%", `\%`, "&", `\&`, "#", `\#`, "$", `\$`, "_", `\_`, "~",
	`\textasciitilde{}`, "^", `\textasciicircum{}`,
	"<", `$<$`, ">", `$>$`, "±", `$\pm$`, "×", `$\times$`, "…", `\ldots{}`,
)

func escapeTeX(s string) string { return texEscapes.Replace(s) }
