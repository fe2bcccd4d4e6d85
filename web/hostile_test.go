package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A wasm device bounds and checks what a hostile coordinator answers, as a native one does.
func TestHostileCoordinatorUnderNode(t *testing.T) {
	long(t)
	dir := dist(t)
	var followed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(other.Close)
	for _, c := range []struct {
		name, code, text string
		answer           http.HandlerFunc
	}{
		{"an endless answer", "unavailable", "exceeds", func(w http.ResponseWriter, _ *http.Request) {
			part := make([]byte, 1<<20)
			for range 64 {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}},
		{"a malformed message", "internal", "malformed", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte{0xff, 0xff, 0xff})
		}},
		{"an empty message", "failed", "", func(http.ResponseWriter, *http.Request) {}},
		{"a redirect", "unavailable", "does not answer", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}},
		{"a page as an error", "unavailable", "HTTP status 500", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>", http.StatusInternalServerError)
		}},
		{"a long error", "bad_token", "xxx", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Tacit-Code", "bad_token")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"unauthenticated","message":"` + strings.Repeat("x", 100_000) + `"}`))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			out := underNode(t, dir, map[string]any{"url": s.URL, "token": "x"})
			if out.Failure == nil || out.Failure.Code != c.code || !strings.Contains(out.Failure.Message, c.text) ||
				len(out.Failure.Message) > 2000 || out.About.Enrolled {
				t.Errorf("failure %.300v, want code %s and %q", out.Failure, c.code, c.text)
			}
		})
	}
	t.Cleanup(func() {
		if followed.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// A device whose clock is wrong adopts the coordinator's.
func TestWrongClockUnderNode(t *testing.T) {
	long(t)
	dir := dist(t)
	f := serve(t, settings("fedmf", 1, 1), "")
	for _, off := range []time.Duration{-48 * time.Hour, 48 * time.Hour} {
		out := underNode(t, dir, map[string]any{
			"url": f.url, "token": f.token, "clock": off.Milliseconds(), "events": history, "steps": 3,
		})
		if out.Failure != nil || !out.About.Enrolled {
			t.Errorf("a clock that is %v ahead: %+v", off, out.Failure)
		}
	}
}
