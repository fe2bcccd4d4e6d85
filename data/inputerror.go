package data

import (
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/param"
)

// InputError reports malformed input: a file or an option. Line is 0 if no single line is at fault.
type InputError struct {
	File     string
	Line     int
	Found    string // as in the input, shortened
	Expected string
	Hint     string // what to do or type next; may be empty
}

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, " line %d", e.Line)
	}
	fmt.Fprintf(&b, ": found %q, expected %s", e.Found, e.Expected)
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

// oneOf is what an error expects if a word is not among names.
func oneOf(what string, names []string) string {
	return "a " + what + " among " + strings.Join(names, ", ")
}

// nearest is the hint for a word that is not among names; empty if no name is similar.
func nearest(word string, names []string) string {
	if n := param.Nearest(word, names); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return ""
}
