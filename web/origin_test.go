package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// embedder is a web app of another origin that uses the package with the coordinator of its query.
const embedder = `import { Device } from "./device/index.js";
const q = new URLSearchParams(location.search);
const device = await Device.open({ url: q.get("url"), token: q.get("token"), holdOut: false });
device.addEventListener("step", async (e) => {
  if (e.detail.code) { document.title = "failed: " + e.detail.code; return; }
  const list = await device.recommend(3);
  document.title = "recommended " + list.items.length;
});
device.addEventListener("stop", (e) => { document.title = "stopped: " + e.detail.code; });
await device.start();
`

// A web app of another origin is a device if the coordinator allows its origin, and is refused otherwise.
func TestWebAppOfAnotherOriginInChromium(t *testing.T) {
	long(t)
	dir := dist(t)
	mux := http.NewServeMux()
	mux.Handle("/device/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/app.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(embedder))
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><script type="module" src="/app.js"></script>`))
	})
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	b := chromium(t)
	allowed := serve(t, settings("ials", 1, 1), "", app.URL)
	b.Open(app.URL + "/?url=" + allowed.url + "&token=" + allowed.token)
	b.until(`document.title == "recommended 3"`)
	refusing := serve(t, settings("ials", 1, 1), "", "https://shop.example")
	b.Open(app.URL + "/?url=" + refusing.url + "&token=" + refusing.token)
	b.until(`document.title == "failed: unavailable" || document.title.startsWith("stopped")`)
	if n := refusing.c.Status().Enrolled; n != 0 {
		t.Errorf("%d devices of a refused origin enrolled", n)
	}
}
