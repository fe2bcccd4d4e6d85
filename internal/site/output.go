package site

import (
	"fmt"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Pages is the number of pages of the documentation.
func (s *Site) Pages() int { return s.pages }

// Write writes the site into a folder and replaces the files of an earlier one. It returns the number of bytes.
func (s *Site) Write(dir string) (int, error) {
	total := 0
	for _, name := range sortedKeys(s.files) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return total, fmt.Errorf("the site cannot be written: %w", err)
		}
		if err := os.WriteFile(file, s.files[name], 0o644); err != nil {
			return total, fmt.Errorf("the site cannot be written: %w", err)
		}
		total += len(s.files[name])
	}
	return total, nil
}

// ServeHTTP answers with a file of the site.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", Policy+"; frame-ancestors 'none'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are supported", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if name == "" || strings.HasSuffix(r.URL.Path, "/") {
		name = path.Join(name, "index.html")
	}
	b, code := s.files[name], http.StatusOK
	if b == nil {
		b, code, name = s.missing, http.StatusNotFound, "missing.html"
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".svg" { // drawings hold their own style
		kind = "image/svg+xml"
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(code)
	if r.Method == http.MethodGet {
		_, _ = w.Write(b) // the client may be gone
	}
}
