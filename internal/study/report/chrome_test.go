package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/browsertest"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// open shows a page that is a file and returns the complaints: it must not request anything else.
func open(b *browsertest.Browser, path string, l browsertest.Look) []string {
	b.Show(l)
	b.Open("file://" + path)
	return b.Complaints("file://" + path)
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
	b := browsertest.Chromium(t)
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
		for _, l := range browsertest.Looks {
			for _, bad := range open(b, path, l) {
				t.Errorf("%s, %s: %s", name, l.Name, bad)
			}
			var found []string
			b.Eval(flaws, &found)
			for _, f := range found {
				t.Errorf("%s, %s: %s", name, l.Name, f)
			}
			if *pages != "" {
				b.Screenshot(filepath.Join(*pages, fmt.Sprintf("%s-%s.png", name, l.Name)))
			}
		}
	}
}

func TestPointingAtAMapShowsTheTitle(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := browsertest.Chromium(t)
	run := drawnRun("pfedrec", "deployed")
	const evil = `<img src=x onerror=alert(1)> & "film"`
	for i := range run.Figures.Items.Items {
		run.Figures.Items.Items[i].Title = evil
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(page1(t, "map.html", run)), 0o644); err != nil {
		t.Fatal(err)
	}
	if bad := open(b, path, browsertest.Looks[0]); len(bad) > 0 {
		t.Fatal(bad)
	}
	var tip string
	// scrolling hides a tip, and a busy machine scrolls late
	for end := time.Now().Add(browsertest.Patience); time.Now().Before(end) && tip == ""; {
		var at [2]float64
		b.Eval(`(() => { const s = document.querySelector("g.spot").closest("svg"); s.scrollIntoView();
		  const g = s.querySelector("g.spot"), p = s.createSVGPoint(); p.x = g.dataset.x; p.y = g.dataset.y;
		  const q = p.matrixTransform(s.getScreenCTM()); return [q.x, q.y]; })()`, &at)
		for _, near := range []float64{3, 0} { // a pointer that does not move is not told
			b.Call("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at[0] + near, "y": at[1]}, nil)
		}
		b.Eval(`document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent`, &tip)
		if tip == "" {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if !strings.HasPrefix(tip, evil) {
		t.Errorf("pointing at the test item tells %q, want its title first", tip)
	}
	var images int
	b.Eval(`document.images.length`, &images)
	if images > 0 {
		t.Error("a title became markup")
	}
}
