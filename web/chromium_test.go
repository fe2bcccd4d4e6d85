package web_test

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/browsertest"
)

// browser is a Chromium that watches the page, its worker and its service worker.
type browser struct{ *browsertest.Browser }

// chromium starts a browser, or skips the test. Wasm is compiled once, fast: the tests are short.
func chromium(t *testing.T) *browser {
	t.Helper()
	b := &browser{browsertest.Chromium(t, "--js-flags=--liftoff-only")}
	b.WatchWorkers()
	return b
}

// do runs statements in the page.
func (b *browser) do(script string) {
	var done bool
	b.Eval("(async () => {"+script+"; return true; })()", &done)
}

// until waits until an expression is true in the page.
func (b *browser) until(expression string) { b.WaitFor(expression, "Boolean("+expression+")") }

// size sets the width of the window and the colour scheme.
func (b *browser) size(width int, scheme string) {
	b.Show(browsertest.Look{Width: width, Height: 900, Mobile: width < 600, Media: "screen", Scheme: scheme})
}

// checkQuiet reports errors in a console, and requests to other hosts, since the page was opened.
func (b *browser) checkQuiet(t *testing.T, host string) {
	t.Helper()
	for _, c := range b.Complaints(host, "about:") {
		t.Errorf("the browser reports: %s", c)
	}
	if all := b.Complaints(); len(all) < 10 {
		t.Errorf("%d requests were seen, want those of the page and of its workers: %v", len(all), all)
	}
}
