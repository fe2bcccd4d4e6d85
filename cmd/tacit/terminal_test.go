package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile is a text that clears a screen, sets a title, reverses what follows and ends with a broken character.
const hostile = "\x1b[2J\x1b]0;title\x07 \u202eevil\u2066 \u009b31m \r\x7f \u2028 \U000e0001 \xff end"

// harmless is a text with other alphabets and a joined emoji.
const harmless = "plain\n\tänderung 日本 \u05e9\u05dc\u05d5\u05dd 👩\u200d🚀"

// dangerous returns the characters of a text that a terminal would act upon.
func dangerous(s string) (out []string) {
	for _, r := range s {
		if isControl(r) {
			out = append(out, fmt.Sprintf("%U", r))
		}
	}
	if !utf8.ValidString(s) {
		out = append(out, "invalid UTF-8")
	}
	return out
}

func TestPrintsNoControlCharacters(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{harmless, harmless},
		{"\x1b[2J", `\u001b[2J`},
		{"a\u202eb\r\n", `a\u202eb\u000d` + "\n"},
		{"\U000e0001", `\udb40\udc01`},
		{"\x9bx\xff", "\ufffdx\ufffd"},
	} {
		if got := escapeControls(c.in); got != c.want {
			t.Errorf("%q is printed as %q, want %q", c.in, got, c.want)
		}
		for size := 1; size < 6; size++ { // in pieces, which may end within a character
			var b bytes.Buffer
			w := &safeWriter{w: &b}
			for rest := []byte(c.in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatalf("%d bytes written, %v", n, err)
				}
			}
			if got := b.String(); got != c.want && utf8.ValidString(c.in) {
				t.Errorf("%q in pieces of %d bytes is printed as %q, want %q", c.in, size, got, c.want)
			}
			if d := dangerous(b.String()); d != nil {
				t.Errorf("%q in pieces of %d bytes is printed with %q", c.in, size, d)
			}
		}
	}
	// JSON keeps its meaning.
	text, _, _ := strings.Cut(hostile, "\xff")
	var b bytes.Buffer
	if err := json.NewEncoder(&safeWriter{w: &b}).Encode(text); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != text || dangerous(b.String()) != nil {
		t.Errorf("%q is printed as %q and read as %q, %v", text, b.String(), back, err)
	}
	for _, format := range []string{"text", "json"} {
		b.Reset()
		l, _, err := (&logFlags{format: format}).logger(&safeWriter{w: &b}, false)
		if err != nil {
			t.Fatal(err)
		}
		l.Log(t.Context(), slog.LevelError, hostile, "error", hostile)
		if d := dangerous(b.String()); d != nil || !strings.Contains(b.String(), "end") {
			t.Errorf("a log as %s has %q: %q", format, d, b.String())
		}
	}
}

// A coordinator's texts cannot control the terminal of operators and owners.
func TestHostileCoordinatorCannotControlTheTerminal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := json.Marshal(hostile)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Tacit-Code", "wrong_version")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"code":"failed_precondition","message":%s,"error":{"code":"not_now","message":%[1]s}}`, text)
	}))
	defer s.Close()
	state, history := filepath.Join(t.TempDir(), "my.state"), filepath.Join(t.TempDir(), "seen.csv")
	if err := os.WriteFile(history, []byte("item\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{"admin", "status", "--coordinator", s.URL, "--insecure", "--token", "x"},
		{"admin", "pause", "--coordinator", s.URL, "--insecure", "--token", "x", "--format", "json"},
		{"device", "--state", state, "--server", s.URL, "--insecure", "--token", "x", "--history", history, "--once"},
	} {
		code, out, errs := tacit(words...)
		if d := dangerous(out + errs); d != nil || code == 0 {
			t.Errorf("%q: exit %d, prints %q in\n%q", words, code, d, out+errs)
		}
	}
}
