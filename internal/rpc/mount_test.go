package rpc

import (
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
