package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes a folder with every file, and a secret beside it.
func folder(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "dist")
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name := range files {
		write(name, "content of "+name)
	}
	write("device/tacit.wasm.gz", "gzip")
	write("device/tacit.wasm.br", "brotli")
	write("../secret", "secret")
	write("notes.txt", "not part of the page")
	return dir
}

func TestServesTheFilesOfThePage(t *testing.T) {
	dir := folder(t)
	h, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, c := range []struct {
		method, path, accept string
		status               int
		body, kind, encoding string
	}{
		{"GET", "/device/", "", 200, "content of index.html", html, ""},
		{"HEAD", "/device/", "", 200, "", html, ""},
		{"GET", "/device", "", 301, "", "", ""},
		{"GET", "/device/page.js", "gzip", 200, "content of page.js", script, ""},
		{"GET", "/device/device/tacit.wasm", "", 200, "content of device/tacit.wasm", "application/wasm", ""},
		{"GET", "/device/device/tacit.wasm", "gzip, deflate, br", 200, "brotli", "application/wasm", "br"},
		{"GET", "/device/device/tacit.wasm", "gzip, br;q=0", 200, "gzip", "application/wasm", "gzip"},
		{"GET", "/device/notes.txt", "", 404, "unknown file", "", ""},
		{"GET", "/device/device/tacit.wasm.gz", "", 404, "unknown file", "", ""},
		{"GET", "/device/../secret", "", 404, "unknown file", "", ""},
		{"GET", "/devices", "", 404, "unknown file", "", ""},
		{"POST", "/device/", "", 405, "use GET", "", ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.URL.Path = c.path
		r.Header.Set("Accept-Encoding", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		a := w.Result()
		if a.StatusCode != c.status || !strings.HasPrefix(w.Body.String(), c.body) ||
			c.kind != "" && a.Header.Get("Content-Type") != c.kind || a.Header.Get("Content-Encoding") != c.encoding {
			t.Errorf("%s %s (%s): %d %q %v", c.method, c.path, c.accept, a.StatusCode, w.Body, a.Header)
		}
		csp := a.Header.Get("Content-Security-Policy")
		if strings.Contains(csp, "unsafe-inline") || strings.Contains(csp, "unsafe-eval' ") ||
			!strings.Contains(csp, "default-src 'none'") || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
			(c.status == 200) != strings.Contains(csp, "wasm-unsafe-eval") {
			t.Errorf("%s %s: headers %v", c.method, c.path, a.Header)
		}
	}
	r := httptest.NewRequest("GET", "/device/page.js", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	r.Header.Set("If-None-Match", w.Result().Header.Get("Etag"))
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusNotModified {
		t.Errorf("a file that the browser has is sent again: %d", w.Code)
	}
	if err := os.Remove(filepath.Join(dir, "page.js")); err != nil {
		t.Fatal(err)
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "make web") {
		t.Errorf("a file that was removed: %d %s", w.Code, w.Body)
	}
	if _, err := New(dir); err == nil || !strings.Contains(err.Error(), "page.js") {
		t.Errorf("a folder without a file is opened: %v", err)
	}
}

func TestWithoutAFolderThePageSaysHowToGetIt(t *testing.T) {
	h, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/device/", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "make web") ||
		strings.Contains(w.Header().Get("Content-Security-Policy"), "wasm") {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a folder that does not exist is opened")
	}
}

// Everything in web/page is served, and the service worker keeps all of it.
func TestEveryFileOfThePageIsServedAndKept(t *testing.T) {
	worker, err := os.ReadFile("page/sw.js")
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if name != "sw.js" && name != "index.html" && !strings.Contains(string(worker), `"`+name+`"`) {
			t.Errorf("the service worker does not keep %s", name)
		}
	}
	all, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if _, ok := files[e.Name()]; !ok {
			t.Errorf("web/page/%s is not served", e.Name())
		}
	}
	page, err := os.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{" style=", "<style", " onclick", "javascript:", "http://", "https://"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("index.html has %q, which its policy forbids", bad)
		}
	}
}
