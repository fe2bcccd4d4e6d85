package rpc

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
)

// Pages of the server itself and of allowed origins may call the device API, and no others.
func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	s := newFakeCoordinator()
	c := s.config(Limits{AddressRate: -1, Grace: patience, Call: patience})
	c.Origins = []string{"https://shop.example"}
	server := s.start(t, c, false)
	ask := func(method, origin string) *http.Response {
		q, err := http.NewRequest(method, server.url+pbconnect.FederationHelloProcedure, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			q.Header.Set("Origin", origin)
		}
		q.Header.Set("Content-Type", "application/proto")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a
	}
	for _, x := range []struct {
		origin  string
		refused bool
		allowed string
	}{
		{"", false, ""},
		{server.url, false, ""},
		{"https://shop.example", false, "https://shop.example"},
		{"https://shop.example.evil.example", true, ""},
		{"http://shop.example", true, ""},
		{"null", true, ""},
		{"*", true, ""},
	} {
		a := ask("POST", x.origin)
		refused := a.StatusCode == http.StatusForbidden && a.Header.Get(codeHeader) == Forbidden
		if refused != x.refused || a.Header.Get("Access-Control-Allow-Origin") != x.allowed {
			t.Errorf("POST from %q: status %d, %v", x.origin, a.StatusCode, a.Header)
		}
		if x.origin == "" {
			continue
		}
		a = ask("OPTIONS", x.origin)
		if ok := a.StatusCode == http.StatusNoContent; ok == x.refused ||
			a.Header.Get("Access-Control-Allow-Origin") != x.allowed {
			t.Errorf("preflight from %q: status %d, %v", x.origin, a.StatusCode, a.Header)
		}
	}
	a := ask("OPTIONS", "https://shop.example")
	if h := a.Header.Get("Access-Control-Allow-Headers"); !strings.Contains(h, authHeader) ||
		a.Header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(a.Header.Get("Vary"), "Origin") {
		t.Errorf("preflight: %v", a.Header)
	}
	for _, bad := range []string{"*", "shop.example", "https://shop.example/", "https://u@shop.example", "ftp://x", ""} {
		c.Origins = []string{bad}
		if _, err := NewServer(c); err == nil {
			t.Errorf("origin %q is accepted", bad)
		}
	}
}
