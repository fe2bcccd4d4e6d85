package web_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a Chromium under the DevTools protocol, over a pipe. It watches the page, its worker and its service
// worker.
type browser struct {
	t       *testing.T
	out     io.Writer
	session string // of the page

	mu       sync.Mutex
	id       int
	waiting  map[int]chan message
	problems []string // errors in a console, exceptions, violations of the policy
	requests []string // addresses
	closed   chan struct{}
}

type message struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	SessionID string          `json:"sessionId"`
	Error     *struct{ Message string }
}

// chromium starts a browser, or skips the test.
func chromium(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		t.Skip("NOT RUN: the device page runs in Chromium, which is not installed (Debian: apt-get install chromium)")
	}
	profile, err := os.MkdirTemp("", "tacit-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions", "--disable-background-networking",
		"--js-flags=--liftoff-only", // wasm is compiled once, fast: the test is short
		"--user-data-dir="+profile)
	if os.Geteuid() == 0 {
		c.Args = append(c.Args, "--no-sandbox")
	}
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromRead, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.ExtraFiles = []*os.File{toRead, fromWrite}
	if err := c.Start(); err != nil {
		t.Skipf("NOT RUN: %s does not start: %v", path, err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &browser{t: t, out: toWrite, waiting: map[int]chan message{}, closed: make(chan struct{})}
	go b.read(fromRead)
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			c.Process.Kill()
			<-done
		}
		toWrite.Close()
		<-b.closed
		for end := time.Now().Add(patience); os.RemoveAll(profile) != nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond) // its children may still write
		}
	})
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	b.watch(b.session)
	b.call(b.session, "Page.enable", nil, nil)
	return b
}

// watch makes a target report its errors and requests, and those of its workers.
func (b *browser) watch(session string) {
	for _, domain := range []string{"Runtime", "Log", "Network"} {
		b.send(session, domain+".enable", nil)
	}
	b.send(session, "Target.setAutoAttach", map[string]any{
		"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
	})
	b.send(session, "Runtime.runIfWaitingForDebugger", nil)
}

// read reads messages until the browser ends.
func (b *browser) read(from io.Reader) {
	defer close(b.closed)
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		if m.Method != "" {
			b.note(m)
			continue
		}
		b.mu.Lock()
		to := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if to != nil {
			to <- m
		}
	}
}

// note keeps errors and requests, and watches new workers.
func (b *browser) note(m message) {
	var p struct {
		SessionID        string
		Type             string
		Request          struct{ URL string }
		Entry            struct{ Level, Text, URL string }
		Args             []struct{ Value any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	problem := ""
	switch {
	case m.Method == "Target.attachedToTarget":
		b.watch(p.SessionID)
	case m.Method == "Network.requestWillBeSent":
		b.mu.Lock()
		b.requests = append(b.requests, p.Request.URL)
		b.mu.Unlock()
	case m.Method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "warning" || p.Type == "assert"):
		problem = fmt.Sprint("console: ", p.Args)
	case m.Method == "Runtime.exceptionThrown":
		problem = p.ExceptionDetails.Text + " " + p.ExceptionDetails.Exception.Description
	case m.Method == "Log.entryAdded" && (p.Entry.Level == "error" || p.Entry.Level == "warning"):
		problem = "log: " + p.Entry.Text + " " + p.Entry.URL
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

// send sends a command and returns where its answer arrives.
func (b *browser) send(session, method string, params any) chan message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Error(err)
	}
	to := make(chan message, 1)
	b.waiting[b.id] = to
	_, _ = b.out.Write(append(text, 0)) // a browser that has gone does not answer
	return to
}

func (b *browser) call(session, method string, params, result any) {
	b.t.Helper()
	select {
	case m := <-b.send(session, method, params):
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-b.closed:
		b.t.Fatalf("Chromium ended before it answered %s", method)
	case <-time.After(patience):
		b.t.Fatalf("no answer of Chromium to %s in %v", method, patience)
	}
}

// open shows an address.
func (b *browser) open(address string) {
	b.t.Helper()
	b.call(b.session, "Page.navigate", map[string]any{"url": address}, nil)
}

// eval runs a script in the page, waits for its promise and decodes the value into to, which may be nil.
func (b *browser) eval(script string, to any) {
	b.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call(b.session, "Runtime.evaluate", map[string]any{
		"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true,
	}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("script %.200s: %s", script, out.ExceptionDetails)
	}
	if to != nil {
		if err := json.Unmarshal(out.Result.Value, to); err != nil {
			b.t.Fatalf("script %.200s gives %s: %v", script, out.Result.Value, err)
		}
	}
}

// until waits until a script is true.
func (b *browser) until(script string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		var yes bool
		b.eval("Boolean("+script+")", &yes)
		if yes {
			return
		}
		if time.Now().After(end) {
			var text string
			b.eval("document.body.innerText", &text)
			b.t.Fatalf("not true in %v: %s\nproblems: %v\nthe page:\n%s", patience, script, b.problems, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// size sets the size of the window, in the light or dark scheme.
func (b *browser) size(width int, scheme string) {
	b.t.Helper()
	b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
	}, nil)
	b.call(b.session, "Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// screenshot writes a picture of the whole page.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	b.call(b.session, "Page.getLayoutMetrics", nil, &size)
	var shot struct{ Data string }
	b.call(b.session, "Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true, "clip": map[string]any{
			"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": size.CSSContentSize.Height, "scale": 1,
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

// checkQuiet reports errors in a console and requests to other hosts.
func (b *browser) checkQuiet(host string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the browser reports: %.500s", p)
	}
	if len(b.requests) == 0 {
		b.t.Error("no request was seen")
	}
	for _, r := range b.requests {
		u, err := url.Parse(r)
		if err != nil || "http://"+u.Host != host && !strings.HasPrefix(r, "about:") {
			b.t.Errorf("a request to another host: %s", r)
		}
	}
}
