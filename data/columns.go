package data

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// column is one requested column: by name unless it is empty, otherwise by index from 0.
type column struct {
	role, index int
	name        string
}

// parseColumns parses "user,_,item", "user=uid,item=app" or "user=1,item=3"; the first column is 1, as in errors.
func parseColumns(s string) ([]column, *InputError) {
	if s == "" {
		return nil, nil
	}
	var spec []column
	named := strings.Contains(s, "=")
	seen := [allRoles]bool{}
	contexts := 0
	for i, part := range strings.Split(s, ",") {
		word, at, has := strings.Cut(part, "=")
		word, at = strings.TrimSpace(word), strings.TrimSpace(at)
		if !named && (word == "_" || word == "") {
			continue
		}
		c := column{role: roleOf(word), index: i}
		switch {
		case c.role < 0:
			return nil, &InputError{
				Found: word, Expected: oneOf("column role", roleNames[:]),
				Hint: nearest(word, roleNames[:]),
			}
		case seen[c.role] && c.role != contextCol:
			return nil, &InputError{Found: s, Expected: "each column role once"}
		case named && (!has || at == ""):
			return nil, &InputError{Found: part, Expected: "a column after the role, such as user=1 or user=uid"}
		}
		if seen[c.role] = true; c.role == contextCol {
			contexts++
		}
		if contexts > maxContexts {
			return nil, &InputError{Found: s, Expected: fmt.Sprintf("at most %d context columns", maxContexts)}
		}
		if named {
			n, err := strconv.Atoi(at)
			if c.index = n - 1; err != nil {
				c.name = at
			} else if n < 1 || n > 9999 {
				return nil, &InputError{Found: part, Expected: "a column number from 1 to 9999"}
			}
		}
		spec = append(spec, c)
	}
	if !seen[userCol] || !seen[itemCol] {
		return nil, &InputError{Found: s, Expected: "a column for user and one for item"}
	}
	return spec, nil
}

func roleOf(word string) int {
	switch word {
	case "value", "count":
		return ratingCol
	case "timestamp":
		return timeCol
	case "genre", "category", "categories":
		return genresCol
	}
	for r, name := range roleNames {
		if word == name {
			return r
		}
	}
	return -1
}

// describe returns Info.Columns; unit says how times are written unless they are seconds, and made the source of
// times that are in no column.
func (y *layout) describe(unit string, made order) string {
	var b strings.Builder
	for r, c := range y.col {
		if r > timeCol && c < 0 {
			continue
		}
		if r > 0 {
			b.WriteString(", ")
		}
		b.WriteString(roleNames[r] + "=")
		switch {
		case c < 0 && r == timeCol && made != "":
			b.WriteString(string(made))
		case c < 0:
			b.WriteString("none")
		default:
			b.WriteString(y.nameOf(c))
		}
	}
	for _, c := range y.contextCols {
		b.WriteString(", context=" + y.nameOf(c))
	}
	if unit != "" {
		b.WriteString(", " + unit)
	}
	if y.sep == "" {
		return b.String() + "; " + y.kind
	}
	header := "no"
	if y.header {
		header = "yes"
	}
	return b.String() + "; header " + header + "; separator " + y.sep.name()
}

// nameOf names a column for people, with its number.
func (y *layout) nameOf(c int) string {
	if y.names == nil {
		return y.shortName(c)
	}
	return fmt.Sprintf("%s (column %d)", y.shortName(c), c+1)
}

// shortName names a column for people.
func (y *layout) shortName(c int) string {
	if y.names == nil {
		return fmt.Sprintf("column %d", c+1)
	}
	return printable(y.names[c])
}

// printable makes a name from a file short and safe for a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(short([]byte(s)), ""))
}
