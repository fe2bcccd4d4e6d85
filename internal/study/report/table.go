package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// Table is a small table for a terminal, Markdown, CSV or LaTeX. A cell is a string, an int, nil, or a float64,
// which is a fraction: .7162 in text, 0.7162 in CSV, and NaN if it was not measured.
type Table struct {
	Title  string
	Header []string
	Align  string // l or r for each column; the last letter applies to the rest
	Rows   [][]any
	Rule   int // rows above a rule; 0, or all of them, for no rule
	Notes  []string
}

// spread is a score in a table: a mean over several runs. The mark follows it, in a column that is room
// letters wide.
type spread struct {
	result.Spread
	mark string
	room int
}

func (s spread) String() string {
	out := "-"
	if s.N > 0 {
		out = format.Fraction(s.Mean)
	}
	if s.N > 1 {
		out += " ± " + format.Fraction(s.SD)
	}
	if s.room > 0 {
		out += fmt.Sprintf(" %-*s", s.room, s.mark)
	}
	return out
}

// lineUp gives the marks of a column the same width, so that its numbers are aligned.
func (t *Table) lineUp() {
	room := map[int]int{}
	for _, r := range t.Rows {
		for c, v := range r {
			if s, ok := v.(spread); ok {
				room[c] = max(room[c], len(s.mark))
			}
		}
	}
	for _, r := range t.Rows {
		for c, v := range r {
			if s, ok := v.(spread); ok {
				s.room = room[c]
				r[c] = s
			}
		}
	}
}

func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return format.Clean(v)
	case float64:
		return format.Fraction(v)
	case spread:
		return v.String()
	}
	return format.Clean(format.Value(v))
}

// lines returns header and rows as strings, all with the same number of cells.
func (t *Table) lines() [][]string {
	n := len(t.Header)
	for _, r := range t.Rows {
		n = max(n, len(r))
	}
	head := make([]string, n)
	for i, h := range t.Header {
		head[i] = format.Clean(h)
	}
	out := [][]string{head}
	for _, r := range t.Rows {
		line := make([]string, n)
		for i, v := range r {
			line[i] = cell(v)
		}
		out = append(out, line)
	}
	return out
}

func (t *Table) right(col int) bool {
	if len(t.Align) == 0 {
		return false
	}
	return t.Align[min(col, len(t.Align)-1)] == 'r'
}

// Text writes the table for a terminal. Columns are as wide as their longest
// cell in runes.
func (t *Table) Text(w io.Writer) error {
	lines := t.lines()
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, s := range l {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(format.Clean(t.Title) + "\n\n")
	}
	for i, l := range lines {
		b.WriteString(t.pad(l, width) + "\n")
		if i == 0 || (i == t.Rule && i < len(lines)-1) {
			rule := make([]string, len(width))
			for j, n := range width {
				rule[j] = strings.Repeat("-", n)
			}
			b.WriteString(strings.Join(rule, "  ") + "\n")
		}
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range t.Notes {
		b.WriteString(format.Wrap(format.Clean(n), 96, "  ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) pad(line []string, width []int) string {
	var b strings.Builder
	for i, s := range line {
		if i > 0 {
			b.WriteString("  ")
		}
		gap := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
		if t.right(i) {
			s = gap + s
		} else {
			s += gap
		}
		b.WriteString(s)
	}
	return strings.TrimRight(b.String(), " ")
}

// Markdown writes the table in GitHub's dialect. Cells are escaped; Title is a
// heading of the third level.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("### " + escapeMD(format.Clean(t.Title)) + "\n\n")
	}
	for i, l := range t.lines() {
		for _, s := range l {
			b.WriteString("| " + escapeMD(strings.TrimRight(s, " ")) + " ")
		}
		b.WriteString("|\n")
		if i > 0 {
			continue
		}
		for j := range l {
			if t.right(j) {
				b.WriteString("|---:")
			} else {
				b.WriteString("|---")
			}
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	for _, n := range t.Notes {
		b.WriteString("- " + escapeMD(format.Clean(n)) + "\n")
	}
	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var mdEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`,
	"`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`)

func escapeMD(s string) string { return mdEscapes.Replace(s) }

// escapeNote is escapeMD that keeps text between single backticks as code.
func escapeNote(s string) string {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 || strings.Contains(s, "``") {
		return escapeMD(s)
	}
	for i := 0; i < len(parts); i += 2 {
		parts[i] = escapeMD(parts[i])
	}
	return strings.Join(parts, "`")
}

// CSV writes header and rows, without title and notes.
func (t *Table) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	for i, l := range t.lines() {
		for j := range l {
			l[j] = t.csvCell(i, j, l[j])
		}
		if err := c.Write(l); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func (t *Table) csvCell(line, col int, s string) string {
	if line == 0 || col >= len(t.Rows[line-1]) {
		return guard(s)
	}
	switch v := t.Rows[line-1][col].(type) {
	case float64:
		return format.PlainFraction(v)
	case spread:
		if v.N == 0 {
			return ""
		}
		return format.PlainFraction(v.Mean)
	case string:
		return guard(s)
	}
	return s
}

// guard prevents spreadsheets from reading a name as a formula.
func guard(s string) string {
	if s == "" || !strings.ContainsRune("=+-@", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// spreads are scores over several runs.
type spreads [4]spread

func spreadsOf(all []result.Scores) spreads {
	var out spreads
	for i := range out {
		xs := make([]float64, len(all))
		for j, s := range all {
			xs[j] = s[i]
		}
		out[i] = spread{Spread: result.SpreadOf(xs)}
	}
	return out
}
