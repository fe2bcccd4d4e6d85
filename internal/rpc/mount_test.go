package rpc

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answer is what a mounted handler or the server says.
type answer struct {
	status     int
	code, body string
}

// call sends a request to a handler.
func call(h http.Handler, method, path, token, body string) answer {
	r := httptest.NewRequest(method, "https://x"+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header().Get(codeHeader), w.Body.String()}
}

// mounted is a server with a handler that echoes the requests of the operator.
func mounted(t *testing.T) (*Server, http.Handler) {
	echo := func(w http.ResponseWriter, r *http.Request) error {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return &BodyError{err}
		}
		_, err = io.WriteString(w, r.Method+" "+string(b))
		return err
	}
	c := newFakeCoordinator().config(Limits{AdminBytes: 1 << 16})
	c.Mounts = []Mount{{Prefix: "/admin/v1/", Handler: echo}}
	s := must[*Server](t)(NewServer(c))
	return s, s.Handler()
}

func TestMountsOtherHandlers(t *testing.T) {
	s, h := mounted(t)
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		{"GET", "/admin/v1/status", "operator", "", 200, "GET "},
		{"POST", "/admin/v1/pause", "operator", "x", 200, "POST x"},
		{"DELETE", "/admin/v1/tokens/1", "operator", "", 200, "DELETE "},
		{"GET", "/admin/v1/status", "", "", 401, BadToken},
		{"GET", "/admin/v1/status", "operato", "", 401, BadToken},
		{"POST", "/admin/v1/items", "operator", strings.Repeat("x", 1<<16+1), 413, Oversized},
		{"GET", "/", "", "", 404, NoSuchPath},
		{"GET", "/admin/v2/status", "operator", "", 404, NoSuchPath},
		{"POST", "/elsewhere", "", "", 501, NoSuchPath},
	} {
		got := call(h, c.method, c.path, c.token, c.body)
		if got.status != c.status || c.status == 200 && got.body != c.want || c.status != 200 && got.code != c.want {
			t.Errorf("%s %s: %d %q %.80q, want %d %q", c.method, c.path, got.status, got.code, got.body, c.status,
				c.want)
		}
		var e errorBody
		isJSON := json.Unmarshal([]byte(got.body), &e) == nil && e.Error.Message != ""
		if c.status >= 400 && c.status < 500 && !isJSON {
			t.Errorf("%s %s: the error is %q, want JSON with a message", c.method, c.path, got.body)
		}
	}
	if n := s.Refused(); n[Malformed] != 0 || n[NoSuchPath] != 3 || n[BadToken] != 2 {
		t.Errorf("refused: %v, want 3 unknown paths, 2 wrong tokens and nothing malformed", n)
	}
}

// An address that guesses tokens is refused, even with the right one, and others are not.
func TestLimitsGuessesOfTheOperatorsToken(t *testing.T) {
	s, h := mounted(t)
	for i := range wrongTokenBurst {
		if got := call(h, "GET", "/admin/v1/x", "guess", ""); got.code != BadToken {
			t.Fatalf("guess %d: %+v, want %s", i, got, BadToken)
		}
	}
	for _, token := range []string{"guess", "operator"} {
		if got := call(h, "GET", "/admin/v1/x", token, ""); got.code != SlowDown {
			t.Errorf("token %q after %d guesses: %+v, want %s", token, wrongTokenBurst, got, SlowDown)
		}
	}
	other := httptest.NewRequest("GET", "https://x/admin/v1/x", nil)
	other.RemoteAddr = "192.0.2.77:1"
	other.Header.Set("Authorization", "Bearer operator")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, other); w.Code != 200 {
		t.Errorf("another address: %d %s", w.Code, w.Body)
	}
	from := address(net.JoinHostPort("192.0.2.1", "1"))
	if wait := s.wrongTokens.peek(from, time.Now().Add(time.Hour)); wait != 0 {
		t.Errorf("an hour later the address has to wait for %v", wait)
	}
}

// A handler that checks itself who calls gets requests without a token; guesses count as those at other mounts.
func TestOpenMountsCheckThemselves(t *testing.T) {
	c := newFakeCoordinator().config(Limits{})
	c.Mounts = []Mount{
		{Prefix: "/admin/v1/", Handler: func(http.ResponseWriter, *http.Request) error { return nil }},
		{Prefix: "/pages", Open: true, Handler: func(w http.ResponseWriter, r *http.Request) error {
			o, err := CheckToken(r, r.URL.Query().Get("token"))
			if err == nil {
				_, err = io.WriteString(w, o.Name)
			}
			return err
		}},
	}
	s := must[*Server](t)(NewServer(c))
	h := s.Handler()
	if got := call(h, "GET", "/pages/x?token=operator", "", ""); got.status != 200 {
		t.Errorf("the right token: %+v", got)
	}
	if got := call(h, "POST", "/pages/x", "", strings.Repeat("x", openBytes+1)); got.code != Oversized {
		t.Errorf("a long body: %+v, want %s", got, Oversized)
	}
	for range wrongTokenBurst {
		if got := call(h, "GET", "/pages/x?token=guess", "", ""); got.code != BadToken {
			t.Fatalf("a guess: %+v", got)
		}
	}
	if got := call(h, "GET", "/admin/v1/x", "operator", ""); got.code != SlowDown {
		t.Errorf("the admin API after guesses at the pages: %+v, want %s", got, SlowDown)
	}
	if _, err := CheckToken(httptest.NewRequest("GET", "/", nil), "operator"); err == nil {
		t.Error("a request that no server received has a valid token")
	}
}

// A stream of an open mount does not delay a shutdown.
func TestStreamsEndAtAShutdown(t *testing.T) {
	c := newFakeCoordinator().config(Limits{})
	begun := make(chan struct{})
	c.Mounts = []Mount{{Prefix: "/pages", Open: true, Handler: func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		return nil
	}}}
	s := must[*Server](t)(NewServer(c))
	h := s.HTTP(nil)
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = h.Serve(s.Listener(l)) }()
	a, err := http.Get("http://" + l.Addr().String() + "/pages")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Errorf("the stream delays the shutdown: %v", err)
	}
}
