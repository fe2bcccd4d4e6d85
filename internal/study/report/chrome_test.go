package report

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// browser is a Chromium under the DevTools protocol, over a pipe: NUL ends each
// message, and nothing listens on a port.
type browser struct {
	t       *testing.T
	out     io.Writer
	in      chan message
	id      int
	session string
	events  []message
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct{ Message string }
}

// patience is how long a browser is waited for: a busy machine is slow.
const patience = 3 * time.Minute

// chromium starts a browser, or skips the test.
func chromium(t *testing.T) *browser {
	t.Helper()
	path := installed()
	if path == "" {
		t.Skip("NOT RUN: the pages are looked at in Chromium, and none was found (Debian: apt-get install chromium)")
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
	c.ExtraFiles = []*os.File{toRead, fromWrite}
	if err := c.Start(); err != nil {
		t.Skipf("NOT RUN: %s does not start: %v", path, err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &browser{t: t, out: toWrite, in: make(chan message, 10_000)}
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
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// quit ends the browser and removes its profile.
func (b *browser) quit(c *exec.Cmd, profile string) {
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
	for end := time.Now().Add(patience); os.RemoveAll(profile) != nil && time.Now().Before(end); {
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

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func (b *browser) send(method string, params any) {
	b.id++
	m := map[string]any{"id": b.id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") {
		m["sessionId"] = b.session
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
func (b *browser) next(what string, fits func(message) bool) message {
	b.t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case m, open := <-b.in:
			if !open {
				b.t.Fatalf("Chromium went away while %s was awaited", what)
			}
			if m.Method != "" {
				b.events = append(b.events, m)
			}
			if fits(m) {
				return m
			}
		case <-timeout:
			b.t.Fatalf("no answer of Chromium to %s in %v", what, patience)
		}
	}
}

func (b *browser) call(method string, params, result any) {
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

// eval runs a script in the page and decodes what it gives.
func (b *browser) eval(script string, to any) {
	b.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("script: %s", out.ExceptionDetails)
	}
	if err := json.Unmarshal(out.Result.Value, to); err != nil {
		b.t.Fatalf("script gives %s: %v", out.Result.Value, err)
	}
}

// look is a way to see a page.
type look struct {
	name          string
	width, height int
	mobile        bool
	media, scheme string
}

var looks = []look{
	{"light", 1240, 900, false, "screen", "light"},
	{"dark", 1240, 900, false, "screen", "dark"},
	{"phone", 390, 844, true, "screen", "light"},
	{"print", 794, 1123, false, "print", "light"},
}

// open shows a page and returns the complaints there were: console errors,
// exceptions, violations of the policy, requests.
func (b *browser) open(path string, l look) []string {
	b.t.Helper()
	b.events = nil
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.width, "height": l.height,
		"deviceScaleFactor": 1, "mobile": l.mobile,
	}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{
		"media":    l.media,
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": l.scheme}},
	}, nil)
	url := "file://" + path
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for !b.loaded(url) {
		b.next("the page", func(m message) bool { return m.Method != "" })
	}
	var settled bool
	b.eval("document.readyState == 'complete'", &settled)
	var out []string
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			out = append(out, e.Method+": "+format.Clip(string(e.Params), 400))
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			if json.Unmarshal(e.Params, &r) == nil && r.Request.URL != url && !strings.HasPrefix(r.Request.URL,
				"data:") {
				out = append(out, "request of "+format.Clip(r.Request.URL, 200))
			}
		}
	}
	return out
}

// loaded reports whether a page is there. The empty page that a browser begins with may
// tell of its own end late, when another one was asked for.
func (b *browser) loaded(url string) bool {
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

func (b *browser) screenshot(file string) {
	b.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	b.call("Page.getLayoutMetrics", nil, &size)
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{
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

// flaws lists texts of drawings that overlap or stick out of their figure, and
// whether the page is wider than the screen.
const flaws = `(() => {
  const out = [];
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) out.push("the page is " + wide + " px wider than the screen");
  document.querySelectorAll("figure").forEach(f => {
    const name = f.querySelector("h4").textContent, frame = f.getBoundingClientRect();
    const boxes = [...f.querySelectorAll("svg text")].filter(t => t.textContent).map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([text, r], i) => {
      if (r.left < frame.left || r.right > frame.right + 1 || r.top < frame.top) out.push(name + ": " + text + " sticks out");
      boxes.slice(i + 1).forEach(([other, s]) => {
        const w = Math.min(r.right, s.right) - Math.max(r.left, s.left), h = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
        if (w > 2 && h > 4) out.push(name + ": " + text + " and " + other + " overlap");
      });
    });
  });
  return out.slice(0, 20);
})()`

func TestPagesInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := chromium(t)
	dir := t.TempDir()
	pagesOf := map[string][]*result.Run{
		"one":    {drawnRun("pfedrec", "deployed")},
		"many":   append(variants(3), drawnRun("pfedrec", "deployed"), drawnRun("fedmf", "deployed")),
		"search": {{Search: madeSearch()}},
		"board":  {{Leaderboard: madeBoard()}},
		"bare":   {{Result: &result.Result{Method: "m", Dataset: "d", Protocol: "p"}}},
	}
	if *folder != "" {
		r, err := result.Load(*folder)
		if err != nil {
			t.Fatal(err)
		}
		pagesOf = map[string][]*result.Run{"run": {r}}
	}
	for name, runs := range pagesOf {
		path := filepath.Join(dir, name+".html")
		if err := os.WriteFile(path, []byte(page1(t, name+"-chromium.html", runs...)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, l := range looks {
			for _, bad := range b.open(path, l) {
				t.Errorf("%s, %s: %s", name, l.name, bad)
			}
			var found []string
			b.eval(flaws, &found)
			for _, f := range found {
				t.Errorf("%s, %s: %s", name, l.name, f)
			}
			if *pages != "" {
				b.screenshot(filepath.Join(*pages, fmt.Sprintf("%s-%s.png", name, l.name)))
			}
		}
	}
}

func TestPointingAtAMapShowsTheTitle(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := chromium(t)
	run := drawnRun("pfedrec", "deployed")
	const evil = `<img src=x onerror=alert(1)> & "film"`
	for i := range run.Figures.Items.Items {
		run.Figures.Items.Items[i].Title = evil
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page1(t, "map.html", run)), 0o644); err != nil {
		t.Fatal(err)
	}
	if bad := b.open(path, looks[0]); len(bad) > 0 {
		t.Fatal(bad)
	}
	var tip string
	// scrolling hides a tip, and a busy machine scrolls late
	for end := time.Now().Add(patience); time.Now().Before(end) && tip == ""; {
		var at [2]float64
		b.eval(`(() => { const s = document.querySelector("g.spot").closest("svg"); s.scrollIntoView();
		  const g = s.querySelector("g.spot"), p = s.createSVGPoint(); p.x = g.dataset.x; p.y = g.dataset.y;
		  const q = p.matrixTransform(s.getScreenCTM()); return [q.x, q.y]; })()`, &at)
		for _, near := range []float64{3, 0} { // a pointer that does not move is not told
			b.call("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at[0] + near, "y": at[1]}, nil)
		}
		b.eval(`document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent`, &tip)
		if tip == "" {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if !strings.HasPrefix(tip, evil) {
		t.Errorf("pointing at the test item tells %q, want its title first", tip)
	}
	var images int
	b.eval(`document.images.length`, &images)
	if images > 0 {
		t.Error("a title became markup")
	}
}
