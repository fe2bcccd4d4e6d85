package data

import (
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/param"
)

// BadInput says what is wrong with what a user handed in. Line is 0 when no
// single line is to blame.
type BadInput struct {
	File  string
	Line  int
	Found string // as it stands in the input, shortened
	Want  string
	Hint  string // what to do or type next; may be empty
}

func (e *BadInput) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "data: %s", e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, " line %d", e.Line)
	}
	fmt.Fprintf(&b, ": found %q, want %s", e.Found, e.Want)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// short keeps an error on one line of a terminal.
func short(b []byte) string {
	const most = 60
	if len(b) <= most {
		return string(b)
	}
	return string(b[:most]) + "..."
}

// oneOf is what an error wants when a word is not among names.
func oneOf(what string, names []string) string {
	return "a " + what + " among " + strings.Join(names, ", ")
}

// nearest is the hint for a word that is not among names; empty when none is near.
func nearest(word string, names []string) string {
	if n := param.Nearest(word, names); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return ""
}
