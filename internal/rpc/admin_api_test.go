package rpc

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAdminAPIRequiresTheToken(t *testing.T) {
	s := newFakeCoordinator().open(t, Limits{AdminBytes: 1 << 16}, true)
	s.blob = bytes.Repeat([]byte{1}, 1000)
	ctx := context.Background()
	dial := func(token string) *AdminClient {
		return must[*AdminClient](t)(DialAdmin(Options{URL: s.url, Pin: s.pin, Token: token}))
	}
	for _, token := range []string{"", "operato", "operator2"} {
		if err := dial(token).Get(ctx, "echo", nil); Code(err) != BadToken {
			t.Errorf("token %q: %v", token, err)
		}
	}
	c := dial("operator")
	in, out := map[string]string{"a": "b"}, map[string]string{}
	if err := c.Post(ctx, "echo", in, &out); err != nil || out["a"] != "b" {
		t.Errorf("%v, %v", out, err)
	}
	var b bytes.Buffer
	if n, err := c.Stream(ctx, "blob", &b); err != nil || n != 3000 || b.Len() != 3000 {
		t.Errorf("a stream of %d bytes, %v; want 3000", n, err)
	}
	err := c.Post(ctx, "nothing", nil, &out)
	if Code(err) != NotFound || s.server.Refused()[NotFound] != 1 || err.Error() != "unknown call" {
		t.Errorf("an unknown call: %v, counted %v", err, s.server.Refused())
	}
	err = c.Post(ctx, "echo", map[string]string{"a": strings.Repeat("x", 1<<17)}, &out)
	if Code(err) != Oversized {
		t.Errorf("a call over the limit: %v", err)
	}
	if err := c.Get(ctx, "fault", &out); Code(err) != Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("the text of a fault is sent: %v", err)
	}
	if len(s.faults) != 1 || s.faults[0] != "GET "+AdminPrefix+"fault a secret of the disk" {
		t.Errorf("faults are %q", s.faults)
	}
}

// Programs without our client get errors as JSON, with an HTTP status.
func TestAdminErrorsAreJSON(t *testing.T) {
	s := newFakeCoordinator().open(t, Limits{}, false)
	a, err := http.Get(s.url + AdminPrefix + "status")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	want := `{"error":{"code":"bad_token","message":"the admin API requires`
	if err != nil || a.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(string(b), want) ||
		a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s: %s, %v", a.StatusCode, a.Header.Get("Content-Type"), b, err)
	}
}
