// Package browsertest drives a Chromium in tests, under the DevTools protocol: it opens pages, runs scripts in them,
// takes pictures, and lists what went wrong. Without Chromium, tests that need one are skipped.
package browsertest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Browser is a Chromium under the DevTools protocol, over a pipe: NUL ends each
// message, and nothing listens on a port.
type Browser struct {
	t       testing.TB
	out     io.Writer
	in      chan message
	id      int
	session string
	events  []message
	workers bool // workers report as the page does
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct{ Message string }
}

// Patience is how long a browser is waited for: a busy machine is slow.
const Patience = 3 * time.Minute

// Chromium starts a browser with further flags, or skips the test.
func Chromium(t testing.TB, flags ...string) *Browser {
	t.Helper()
	path := installed()
	if path == "" {
		t.Skip("SKIPPED: this test requires Chromium (Debian: apt-get install chromium)")
	}
	toRead, toWrite := pipe(t)
	fromRead, fromWrite := pipe(t)
	profile, err := os.MkdirTemp("", "tacit-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--hide-scrollbars", "--disable-extensions", "--disable-background-networking", "--user-data-dir="+profile)
	if os.Geteuid() == 0 {
		c.Args = append(c.Args, "--no-sandbox")
	}
	c.Args = append(c.Args, flags...)
	c.ExtraFiles = []*os.File{toRead, fromWrite}
	if err := c.Start(); err != nil {
		t.Skipf("SKIPPED: %s does not start: %v", path, err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &Browser{t: t, out: toWrite, in: make(chan message, 10_000)}
	go func() {
		defer close(b.in)
		r := bufio.NewReaderSize(fromRead, 1<<20)
		for {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				b.in <- m
			}
		}
	}()
	t.Cleanup(func() { b.quit(c, profile) })
	var target struct{ TargetID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b
}

// quit ends the browser and removes its profile.
func (b *Browser) quit(c *exec.Cmd, profile string) {
	b.send("Browser.close", nil)
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		c.Process.Kill()
		<-done
	}
	// The browser's children may still write to the profile, so a failed removal is not an error.
	for end := time.Now().Add(Patience); os.RemoveAll(profile) != nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// installed is the path of a Chromium, or empty.
func installed() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func (b *Browser) send(method string, params any) {
	if strings.HasPrefix(method, "Browser.") {
		b.sendTo("", method, params)
	} else {
		b.sendTo(b.session, method, params)
	}
}

// sendTo sends a call to the page or a worker; an empty session is the browser.
func (b *Browser) sendTo(session, method string, params any) {
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.out.Write(append(text, 0))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		b.t.Log(err)
	}
}

// next waits for a message that fits; events on the way are kept.
func (b *Browser) next(what string, fits func(message) bool) message {
	b.t.Helper()
	for timeout := time.After(Patience); ; {
		select {
		case m, open := <-b.in:
			if !open {
				b.t.Fatalf("Chromium went away while %s was awaited", what)
			}
			if m.Method != "" {
				b.events = append(b.events, m)
				b.watchWorker(m)
			}
			if fits(m) {
				return m
			}
		case <-timeout:
			b.t.Fatalf("no answer of Chromium to %s in %v", what, Patience)
		}
	}
}

// WatchWorkers makes the workers of pages, and service workers, report as pages do.
func (b *Browser) WatchWorkers() {
	b.t.Helper()
	b.workers = true
	b.Call("Target.setAutoAttach", autoAttach, nil)
}

// autoAttach makes new workers wait until they are watched.
var autoAttach = map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}

// watchWorker watches a worker when it starts.
func (b *Browser) watchWorker(m message) {
	var p struct{ SessionID string }
	if !b.workers || m.Method != "Target.attachedToTarget" || json.Unmarshal(m.Params, &p) != nil ||
		p.SessionID == b.session {
		return
	}
	for _, domain := range []string{"Runtime", "Log", "Network"} {
		b.sendTo(p.SessionID, domain+".enable", nil)
	}
	b.sendTo(p.SessionID, "Target.setAutoAttach", autoAttach)
	b.sendTo(p.SessionID, "Runtime.runIfWaitingForDebugger", nil)
}

// Call makes a call of the protocol and decodes its result, unless that is nil.
func (b *Browser) Call(method string, params, result any) {
	b.t.Helper()
	b.send(method, params)
	id := b.id
	m := b.next(method, func(m message) bool { return m.ID == id })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Eval runs a script in the page and decodes what it gives.
func (b *Browser) Eval(script string, to any) {
	b.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("script: %s", out.ExceptionDetails)
	}
	if err := json.Unmarshal(out.Result.Value, to); err != nil {
		b.t.Fatalf("script gives %s: %v", out.Result.Value, err)
	}
}

// Look is a way to see a page.
type Look struct {
	Name          string
	Width, Height int
	Mobile        bool
	Media, Scheme string
}

// Looks are those that pages are tested with.
var Looks = []Look{
	{"light", 1240, 900, false, "screen", "light"},
	{"dark", 1240, 900, false, "screen", "dark"},
	{"phone", 390, 844, true, "screen", "light"},
	{"print", 794, 1123, false, "print", "light"},
}

// Show sets how pages are seen.
func (b *Browser) Show(l Look) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.Width, "height": l.Height,
		"deviceScaleFactor": 1, "mobile": l.Mobile,
	}, nil)
	b.Call("Emulation.setEmulatedMedia", map[string]any{
		"media":    l.Media,
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": l.Scheme}},
	}, nil)
}

// Open opens a page and waits until it is loaded. Complaints that follow are those since then.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.events = nil
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	for !b.loaded(url) {
		b.next("the page", func(m message) bool { return m.Method != "" })
	}
	var settled bool
	b.Eval("document.readyState == 'complete'", &settled)
}

// Complaints lists console messages, exceptions, violations of the policy, and requests of URLs that begin with none
// of the given texts, since the last Open.
func (b *Browser) Complaints(allowed ...string) (out []string) {
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			out = append(out, fmt.Sprintf("%s: %.400s", e.Method, e.Params))
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			known := func(start string) bool { return strings.HasPrefix(r.Request.URL, start) }
			if json.Unmarshal(e.Params, &r) == nil && !slices.ContainsFunc(append(allowed, "data:"), known) {
				out = append(out, fmt.Sprintf("request of %.200s", r.Request.URL))
			}
		}
	}
	return out
}

// WaitFor runs a script in the page until it gives true.
func (b *Browser) WaitFor(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var ok bool
		if b.Eval(script, &ok); ok {
			return
		}
	}
	b.t.Fatalf("%s: it did not happen in %v", what, Patience)
}

// loaded reports whether a page is there. The empty page that a browser begins with may
// tell of its own end late, when another one was asked for.
func (b *Browser) loaded(url string) bool {
	url, _, _ = strings.Cut(url, "#") // the events leave the fragment out
	there := false
	for _, e := range b.events {
		switch e.Method {
		case "Page.frameNavigated":
			var p struct{ Frame struct{ URL string } }
			there = json.Unmarshal(e.Params, &p) == nil && p.Frame.URL == url
		case "Page.loadEventFired":
			if there {
				return true
			}
		}
	}
	return false
}

// Screenshot writes a picture of the whole page.
func (b *Browser) Screenshot(file string) {
	b.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	b.Call("Page.getLayoutMetrics", nil, &size)
	var shot struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{
			"x": 0, "y": 0, "width": size.CSSContentSize.Width,
			"height": min(size.CSSContentSize.Height, 16000), "scale": 1,
		},
	}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
