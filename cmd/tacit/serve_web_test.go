package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestServeRejectsWrongPagesAndOrigins(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ flag, value, want string }{
		{"--web", filepath.Join(dir, "missing"), "make web"},
		{"--web", dir, "build the folder with make web"},
		{"--allow-origin", "*", "must be scheme, host and port"},
		{"--allow-origin", "https://shop.example/page", "must be scheme, host and port"},
	} {
		state := filepath.Join(dir, "state")
		code, out, errs := tacit("serve", "--state", state, "--listen", "127.0.0.1:0", c.flag, c.value)
		if code != 2 || !strings.Contains(errs, c.want) || !strings.Contains(errs, c.flag) {
			t.Errorf("%s %s: exit %d: %s%s", c.flag, c.value, code, out, errs)
		}
	}
}
