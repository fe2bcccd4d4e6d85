package dashboard

import (
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/browsertest"
)

// pictures, given as -pages DIR, receives pictures of the pages.
var pictures = flag.String("pages", "", "folder for pictures of the pages")

// axe, given as -axe FILE, is the script axe.min.js of the npm package axe-core. make web-check fetches it.
var axe = flag.String("axe", "", "axe.min.js, which checks pages against the rules of accessibility")

// calm is a snapshot as an operator would see it.
func calm() Snapshot {
	s := full()
	s.Name, s.Message = "films", "round 31 of 40"
	s.Run.Round, s.Run.Masked, s.Run.NextRun, s.Open.Number = 30, true, nil, 31
	s.Devices = Devices{
		Planned: 5000, Enrolled: 5120, Active: 4873, Overdue: 247, Left: 31, Revoked: 2, Excluded: 1,
		List:     []Excluded{{ID: 4711, Reason: "its shares contradict each other"}},
		Programs: []Program{{"tacit-android 2.4.1", 3902}, {"tacit-web 2.4.0", 1218}},
	}
	s.Open.Stages = Stages{CheckedIn: 4120, Selected: 500, Reported: 361, Refused: 3}
	s.Traffic = Traffic{
		Received: 1_840_000_000, Sent: 9_100_000_000, CheckIns: 412_008, Rounds: 30, Discarded: 1, Late: 12,
		Refusals: []Refusal{{"unknown_key", 41}, {"stale_time", 7}},
	}
	s.History = nil
	for i := range s.Rounds {
		r := &s.Rounds[i]
		r.Ended = s.Time.Add(time.Duration(i-30) * 10 * time.Minute)
		r.Seconds = 540 + 30*math.Sin(float64(i))
		r.Stages = Stages{CheckedIn: 4100, Selected: 500, Reported: 460 + int(30*math.Sin(float64(3*i)))}
		r.Received, r.Sent = int64(r.Reported)*120_000, int64(r.CheckedIn)*70_000
		r.Version, r.Epsilon = uint64(i+2), .11*float64(i+1)
		if r.Discarded {
			r.Reported = 120
		}
		e := &s.Quality.Evaluations[i]
		e.HR10 = .31*(1-math.Exp(-float64(i)/7)) + .01*math.Sin(float64(5*i)) + .02
		e.PopHR10, e.NoiseFraction, e.Devices = .164, .012, 480
	}
	for i := range 10 {
		s.History = append(s.History, Version{
			Number: uint64(31 - i), Run: 2, Round: 30 - i, Newest: i == 0, RolledBack: i == 4,
			Created: s.Time.Add(-time.Duration(i) * 10 * time.Minute),
		})
	}
	return s
}

// flaws lists what is wider than the screen, and text that is cut off.
const flaws = `(() => {
  const out = [], wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) out.push("the page is " + wide + " px wider than the screen");
  document.querySelectorAll(".card p, .card dd, .card dt, .card h2, button, nav a").forEach(e => {
    if (e.offsetParent && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != "inline") out.push("cut off: " + e.textContent.slice(0, 60));
  });
  return out;
})()`

// Every page fits desktop, phone and print, in light and dark, with hostile and with ordinary texts, and complains
// about nothing.
func TestPagesInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := browsertest.Chromium(t)
	script := ""
	if *axe != "" {
		text, err := os.ReadFile(*axe)
		if err != nil {
			t.Fatal(err)
		}
		script = string(text)
	} else {
		t.Log("SKIPPED: the rules of accessibility require axe-core; make web-check fetches it, or -args -axe FILE")
	}
	s := newSite(t, true)
	web := httptest.NewServer(s.d)
	t.Cleanup(func() {
		s.d.Close() // ends the streams, which the server would wait for
		web.Close()
	})
	b.Show(browsertest.Looks[0])
	b.Open(web.URL + "/dashboard/sign-in")
	check(t, b, web.URL, "sign-in", script)
	b.Eval(`document.getElementById("token").value = "secret", document.querySelector("form.stack").submit(), true`,
		new(bool))
	b.WaitFor("the overview", `!!document.getElementById("b-pause")`)
	all := *pictures != "" || *axe != "" // otherwise few, to save time
	for _, ordinary := range []bool{false, true}[:1+btoi(all)] {
		if ordinary {
			s.set(func(x *Snapshot) { *x = calm() })
			s.plain.Store(true)
			time.Sleep(s.d.opt.Interval)
			s.d.maps = mapCache{}
		}
		for _, l := range browsertest.Looks {
			if !ordinary && l.Name != "phone" && (all || l.Name != "dark") {
				continue
			}
			if l.Name == "light" || l.Name == "dark" {
				l.Width = 1300
			}
			b.Show(l)
			for _, path := range []string{"", "catalogue", "devices", "log", "rollback?version=16"} {
				if ordinary && strings.HasPrefix(path, "rollback") {
					path = "rollback?version=29"
				}
				name, _, _ := strings.Cut(path, "?")
				if name != "" && l.Name != "phone" && (!all || name != "catalogue" && *pictures == "") {
					continue // tables and forms, which do not depend on the look
				}
				b.Open(web.URL + "/dashboard/" + path)
				if path == "" {
					b.WaitFor("live updates", `document.body.dataset.live == "on"`)
				}
				check(t, b, web.URL, fmt.Sprintf("%s, %s, ordinary %v", name, l.Name, ordinary), script)
				if *pictures != "" && ordinary {
					b.Screenshot(filepath.Join(*pictures, fmt.Sprintf("dashboard-%s-%s.png", name, l.Name)))
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// check lists what is wrong with the page that is open.
func check(t *testing.T, b *browsertest.Browser, url, name, axe string) {
	t.Helper()
	var found []string
	b.Eval(flaws, &found)
	found = append(found, b.Complaints(url+"/dashboard/")...)
	if axe != "" {
		var violations []string
		b.Eval(axe+`;axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v =>
		  v.nodes.slice(0, 3).map(n => v.id + ": " + n.html.slice(0, 160) + " " + (n.failureSummary || "").slice(0, 300))))`,
			&violations)
		found = append(found, violations...)
	}
	for _, f := range found {
		t.Errorf("%s: %s", name, f)
	}
	var images int
	if b.Eval(`[...document.images].filter(i => !i.src.endsWith("icon.svg")).length`, &images); images > 0 {
		t.Errorf("%s: a text became markup", name)
	}
}

// Cards change as the coordinator does, and what the reader has in hand stays.
func TestCardsFollowTheCoordinator(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := browsertest.Chromium(t)
	s := newSite(t, true)
	s.set(func(x *Snapshot) { *x = calm() })
	web := httptest.NewServer(s.d)
	t.Cleanup(func() {
		s.d.Close() // ends the streams, which the server would wait for
		web.Close()
	})
	b.Open(web.URL + "/dashboard/")
	b.WaitFor("live updates", `document.body.dataset.live == "on"`)
	b.Eval(`document.getElementById("d-accuracy").open = true`, new(bool))
	b.Eval(`document.querySelector("#d-accuracy summary").id = "x", true`, new(bool))
	s.set(func(x *Snapshot) {
		x.State, x.Run.Round = "budget-spent", 31
		x.Quality.Missed = "too few devices"
		full := *x.Privacy.Budget * 1.0001
		x.Privacy.Epsilon = &full
	})
	b.WaitFor("the new state", `document.querySelector("#state .what").textContent == "Budget spent"`)
	b.WaitFor("the new gauge", `!!document.querySelector("#privacy .arc.full")`)
	b.WaitFor("the new card", `document.querySelector("#accuracy").textContent.includes("too few devices")`)
	var open bool
	if b.Eval(`document.getElementById("d-accuracy").open`, &open); !open {
		t.Error("an update closed what the reader had opened")
	}
	var dash string
	b.Eval(`document.querySelector("#privacy .arc.full").getAttribute("stroke-dasharray")`, &dash)
	if !strings.HasPrefix(dash, "100.00 ") {
		t.Errorf("the gauge shows %s of 100 although the budget is spent", dash)
	}
}
