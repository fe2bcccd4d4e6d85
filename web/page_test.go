package web_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// pictures is a folder for pictures of the page: go test ./web -run Chromium -args -dist DIST -pictures DIR
var pictures = flag.String("pictures", "", "folder for pictures of the page")

func (b *browser) picture(name string) {
	if *pictures == "" {
		return
	}
	for _, width := range []int{390, 1300} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(width, scheme)
			b.Screenshot(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)))
		}
	}
	b.size(1300, "light")
}

// longTasks makes the page record tasks of more than 50 ms on its main thread.
const longTasks = `(() => { window.long = []; new PerformanceObserver(l => window.long.push(
	...l.getEntries().map(e => Math.round(e.startTime) + "+" + Math.round(e.duration)))).observe({type: "longtask", buffered: true}); })()`

const pick = `document.querySelectorAll("#found button")[%d].click()`

// A browser loads the page, recommends, changes its recommendations with each pick, contributes to a masked round,
// survives a reload, works without the coordinator, and forgets.
func TestDevicePageInChromium(t *testing.T) {
	dir := dist(t)
	s := settings("ials", 14, 1000)
	s.Masked = true
	f := serve(t, s, dir)
	f.join(t, 13)
	b := chromium(t)
	b.size(1300, "light")
	b.Open(f.url + "/device/#token=" + f.token)
	b.until(`document.querySelectorAll("#recommended li").length == 10`)
	var first float64
	b.Eval("performance.getEntriesByName('tacit:recommended')[0]?.startTime", &first)
	t.Logf("the first recommendations are there after %.0f ms", first)
	b.do(longTasks)
	var address string
	if b.Eval("location.href", &address); strings.Contains(address, f.token) {
		t.Errorf("the address bar still has the token: %s", address)
	}

	var before, after, third string
	list := `document.querySelector("#recommended").innerText`
	b.Eval(list, &before)
	for i, n := range []int{2, 5} {
		b.do(fmt.Sprintf(pick, n))
		b.until(fmt.Sprintf(`document.querySelectorAll("#picks li").length == %d`, i+1))
	}
	// The list is personal when the model has seen a round.
	b.until(`[...document.querySelectorAll("#reports tr")].some(r => r.innerText.includes("counted") &&
		r.innerText.includes("masked"))`)
	b.until(`document.querySelector("#recommended").dataset.basis == "personal"`)
	if b.Eval(list, &after); after == before {
		t.Error("the recommendations are those of before the picks")
	}
	b.do(fmt.Sprintf(pick, 7))
	b.until(`document.querySelectorAll("#picks li").length == 3`)
	b.until(list + " != " + fmt.Sprintf("%q", after))
	b.Eval(list, &third)
	b.do(`document.querySelector("#search").value = "lantern"; document.querySelector("#search")
		.dispatchEvent(new Event("input"))`)
	b.until(`[...document.querySelectorAll("#found button")].every(e => e.innerText.startsWith("Lantern")) &&
		document.querySelectorAll("#found button").length > 3`)
	b.do(`document.querySelector("details").open = true`)
	var requests, problem string
	if b.Eval(`document.querySelector("#requests").innerText`, &requests); !strings.Contains(requests, "Mask") {
		t.Errorf("the requests of the page: %s", requests)
	}
	if b.Eval(`document.querySelector("#problem:not([hidden])")?.innerText ?? ""`, &problem); problem != "" {
		t.Errorf("the page shows a problem: %s", problem)
	}
	var injected int
	b.Eval(`document.querySelectorAll("img, [onerror]").length`, &injected)
	var shown bool
	b.do(`document.querySelector("#search").value = "onerror"; document.querySelector("#search")
		.dispatchEvent(new Event("input"))`)
	b.until(`document.querySelector("#found").innerText.includes("<img src=x onerror=")`)
	if b.Eval(`document.querySelectorAll("img").length == 0`, &shown); !shown || injected > 0 {
		t.Error("a title became an element of the page")
	}
	var long []string // logged only: a busy machine makes any task long
	b.Eval("window.long", &long)
	t.Logf("tasks of more than 50 ms on the main thread (start+duration in ms): %v", long)
	b.checkWide(t)
	b.picture("picked")
	b.checkStored(t)
	b.axe(t)

	b.do(`await navigator.serviceWorker.ready`)
	b.Call("Page.reload", nil, nil)
	b.until(`document.querySelectorAll("#picks li").length == 3`)
	b.until(`document.querySelectorAll("#recommended li").length == 10`)
	b.checkQuiet(t, f.url)

	f.stop() // the page now opens from the service worker, and recommends with the stored model
	b.Call("Page.reload", nil, nil)
	b.until(`document.querySelectorAll("#picks li").length == 3`)
	b.until(`document.querySelectorAll("#recommended li").length == 10`)
	b.picture("offline")

	b.do(`document.querySelector("#forget").click(); document.querySelector("#sure [value=yes]").click()`)
	b.until(`document.documentElement.dataset.state == "forgotten"`)
	var left []string
	b.Eval(`indexedDB.databases().then(all => all.map(d => d.name))`, &left)
	if len(left) > 0 {
		t.Errorf("after forget there are databases: %v", left)
	}
	b.picture("forgotten")
}

// checkWide reports a page that is wider than the screen.
func (b *browser) checkWide(t *testing.T) {
	t.Helper()
	for _, width := range []int{320, 390, 1300} {
		b.size(width, "light")
		var over int
		b.Eval("document.documentElement.scrollWidth - document.documentElement.clientWidth", &over)
		if over > 0 {
			t.Errorf("at %d px the page is %d px wider than the screen", width, over)
		}
	}
	b.size(1300, "light")
}

// checkStored looks into the database: the record is encrypted, and the key cannot be exported.
func (b *browser) checkStored(t *testing.T) {
	t.Helper()
	var stored struct {
		Extractable bool
		Exported    bool
		Clear       bool
		Bytes       int
	}
	b.Eval(`(async () => {
		const wait = r => new Promise((ok, no) => { r.onsuccess = () => ok(r.result); r.onerror = () => no(r.error); });
		const db = await wait(indexedDB.open("tacit-device:default"));
		const get = (table, id) => wait(db.transaction(table).objectStore(table).get(id));
		const key = await get("keys", "state"), record = await get("records", "state");
		db.close();
		const exported = await crypto.subtle.exportKey("raw", key).then(() => true, () => false);
		const text = new TextDecoder("latin1").decode(record.data);
		return {Extractable: key.extractable, Exported: exported, Bytes: text.length,
			Clear: text.includes("history") || text.includes("events")};
	})()`, &stored)
	if stored.Extractable || stored.Exported || stored.Clear || stored.Bytes < 100 {
		t.Errorf("the stored state: %+v", stored)
	}
}
