// Package web serves the device page: a page on which a visitor picks items, and whose browser takes part in the
// federation. The page and the wasm program are files in a folder that `make web` builds (docs/adr/0017-pages.md).
package web

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Path is the path of the device page.
const Path = "/device"

//go:embed missing.html
var missing []byte

// files are the files of the page, by their path in the folder, with their types.
var files = map[string]string{
	"index.html":           html,
	"page.js":              script,
	"view.js":              script,
	"sw.js":                script,
	"style.css":            "text/css; charset=utf-8",
	"icon.svg":             "image/svg+xml",
	"manifest.webmanifest": "application/manifest+json",
	"device/index.js":      script,
	"device/store.js":      script,
	"device/worker.js":     script,
	"device/wasm_exec.js":  script,
	"device/tacit.wasm":    "application/wasm",
}

const (
	html   = "text/html; charset=utf-8"
	script = "text/javascript; charset=utf-8"
)

// policy lets the page run its own scripts and the wasm program, and send requests to this coordinator only. No other
// page of the coordinator allows wasm.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// Handler serves the device page below Path.
type Handler struct{ root *os.Root }

// New returns a handler for the files of a folder, or for a page that says how to get them if dir is empty. It returns
// an error if a file is missing.
func New(dir string) (*Handler, error) {
	if dir == "" {
		return &Handler{}, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
			root.Close()
			return nil, fmt.Errorf("%s has no file %s: build the folder with make web", dir, name)
		}
	}
	return &Handler{root}, nil
}

// Close closes the folder.
func (h *Handler) Close() error {
	if h.root == nil {
		return nil
	}
	return h.root.Close()
}

// ServeHTTP answers GET and HEAD requests.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	head.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == Path {
		http.Redirect(w, r, Path+"/", http.StatusMovedPermanently)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, Path+"/")
	if name == "" {
		name = "index.html"
	}
	kind, known := files[name]
	switch {
	case !below || !known:
		http.Error(w, "unknown file: the device page is at "+Path+"/", http.StatusNotFound)
	case h.root == nil:
		head.Set("Content-Type", html)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(missing) // the client has gone
	default:
		head.Set("Content-Security-Policy", policy)
		head.Set("Content-Type", kind)
		h.serveFile(w, r, name)
	}
}

// encodings are the compressed forms that `make web` writes, with their endings; the smallest first.
var encodings = []struct{ name, end string }{{"br", ".br"}, {"gzip", ".gz"}}

// serveFile sends the smallest form of a file that the browser accepts.
func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Vary", "Accept-Encoding")
	for _, e := range encodings {
		if !accepts(r, e.name) {
			continue
		}
		if file, err := h.root.Open(name + e.end); err == nil {
			w.Header().Set("Content-Encoding", e.name)
			send(w, r, file)
			return
		}
	}
	file, err := h.root.Open(name)
	if err != nil {
		http.Error(w, "the file "+name+" is missing: the operator must build it again with make web",
			http.StatusNotFound)
		return
	}
	send(w, r, file)
}

// send sends a file and closes it. Its tag changes when the file does.
func send(w http.ResponseWriter, r *http.Request, file *os.File) {
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", `"`+strconv.FormatInt(info.Size(), 36)+"-"+
		strconv.FormatInt(info.ModTime().UnixNano(), 36)+`"`)
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// accepts reports whether a browser accepts an encoding.
func accepts(r *http.Request, encoding string) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}
