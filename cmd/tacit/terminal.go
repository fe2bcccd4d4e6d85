package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// safeWriter is what the program prints on: it writes control characters as JSON does, such as \u001b. Texts of a
// coordinator, of devices or of data files then cannot change a terminal or the order of what it shows, and JSON
// keeps its meaning.
type safeWriter struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // the start of a character whose end comes with the next write
}

// Write prints a text.
func (s *safeWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := p
	if len(s.rest) > 0 {
		all = append(s.rest, p...)
	}
	whole := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if b := all[len(all)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				whole -= i
			}
			break
		}
	}
	s.rest = append([]byte(nil), all[whole:]...)
	if _, err := io.WriteString(s.w, escapeControls(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeControls returns a text without characters that control a terminal: all but line ends and tabs.
func escapeControls(s string) string {
	first := strings.IndexFunc(s, isControl)
	if first < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte becomes utf8.RuneError
		switch {
		case !isControl(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isControl reports whether a character does something to a terminal instead of being shown: control characters,
// marks that reverse the direction of texts, and other invisible ones. Joiners are part of words and emoji.
func isControl(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	case '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// terminalOf returns the terminal behind a writer, or nil. Only the program's own texts may be written to it directly.
func terminalOf(w io.Writer) *os.File {
	if s, ok := w.(*safeWriter); ok {
		w = s.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
