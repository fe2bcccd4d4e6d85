package data

import (
	"fmt"
	"strings"
)

// isTime reports whether a field is a date, or a number as large as Unix times since 1973.
func isTime(b []byte) bool {
	v, ok := number(b)
	return ok && v >= 1e8 || isDate(b)
}

// maxNamed is the largest number of unused columns that are named.
const maxNamed = 8

// unused says which columns have no role, and suggests a role for those that look like one that is missing.
func (y *layout) unused(rows [][][]byte) []string {
	var names, hints []string
	more, suggested := 0, [roles]bool{}
	for c := range rows[0] {
		if y.used(c) {
			continue
		}
		name := fmt.Sprint(c + 1)
		if y.names != nil {
			name = printable(y.names[c])
		}
		if len(names) < maxNamed {
			names = append(names, name)
		} else {
			more++
		}
		if r := y.suggest(c, rows); r >= 0 && !suggested[r] && y.selectable(c) {
			suggested[r] = true
			hints = append(hints, roleNames[r]+"="+name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	note := "unused columns: " + strings.Join(names, ", ")
	if more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	if len(hints) > 0 {
		note += fmt.Sprintf("; did you mean %s? add --columns %s,%s", strings.Join(hints, ", "), y.setting(),
			strings.Join(hints, ","))
	}
	return []string{note}
}

func (y *layout) used(c int) bool {
	for r, at := range y.col {
		if at == c || r == timeCol && at >= 0 && c >= at && c < at+y.dates.columns() {
			return true
		}
	}
	for _, at := range y.contextCols {
		if at == c {
			return true
		}
	}
	return false
}

// selectable reports whether --columns can name the column.
func (y *layout) selectable(c int) bool {
	return y.names == nil || y.names[c] == printable(y.names[c]) && y.names[c] != "" &&
		!strings.ContainsAny(y.names[c], ",= '\"")
}

// suggest returns the missing role that a column probably has, or -1.
func (y *layout) suggest(c int, rows [][][]byte) int {
	name := ""
	if y.names != nil {
		name = strings.ToLower(y.names[c])
	}
	switch {
	case y.col[timeCol] < 0 && y.holds(c, rows, isTime):
		return timeCol
	case y.col[genresCol] < 0 && (strings.Contains(name, "genre") || strings.Contains(name, "categor")):
		return genresCol
	case y.col[titleCol] < 0 && (strings.Contains(name, "title") || strings.HasSuffix(name, "name") &&
		!strings.Contains(name, "user")):
		return titleCol
	case y.col[ratingCol] < 0 && (strings.Contains(name, "rating") || strings.Contains(name, "score")):
		return ratingCol
	}
	return -1
}

// holds reports whether a column passes a test in all first rows.
func (y *layout) holds(c int, rows [][][]byte, test func([]byte) bool) bool {
	if y.header {
		rows = rows[1:]
	}
	for _, f := range rows {
		if c >= len(f) || !test(f[c]) {
			return false
		}
	}
	return len(rows) > 0
}

// setting is the value of --columns that selects the same columns.
func (y *layout) setting() string {
	var out []string
	add := func(role, c int) {
		at := fmt.Sprint(c + 1)
		if y.names != nil && y.selectable(c) {
			at = y.names[c]
		}
		out = append(out, roleNames[role]+"="+at)
	}
	for r, c := range y.col {
		if c >= 0 {
			add(r, c)
		}
	}
	for _, c := range y.contextCols {
		add(contextCol, c)
	}
	return strings.Join(out, ",")
}
