package rpc

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// A device that stops may interrupt its request in the body or while the handler works. The request does not
// count as malformed.
func TestTruncatedRequestIsNotMalformed(t *testing.T) {
	key := keyOf(1)
	for _, secure := range []bool{false, true} { // HTTP/1.1 and HTTP/2
		st := newFakeCoordinator(key)
		began := make(chan struct{}, 1)
		st.check = func(ctx context.Context) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		s := st.open(t, Limits{}, secure)
		q := announced(key, checkIn, time.Now().Add(-time.Second), 4000)
		if secure {
			cutBody(t, s, q)
		} else {
			begin(t, s, q, 9).Close()
		}
		eventually(t, "a body that was cut off", func() bool { return s.server.Refused()[CutOff] == 1 })
		c := s.dial(t, key, nil)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-began; cancel() }()
		if _, err := c.CheckIn(ctx, &pb.CheckInRequest{}); err == nil {
			t.Error("a call that was cancelled is answered")
		}
		eventually(t, "a call that was cancelled", func() bool { return s.server.Refused()[CutOff] == 2 })
		if r := s.server.Refused(); len(r) != 1 {
			t.Errorf("refused as %v, want only %s", r, CutOff)
		}
	}
	s := newFakeCoordinator(key).open(t, Limits{}, false)
	c := connection(t, s)
	if _, err := io.WriteString(c, head(announced(key, checkIn, time.Now(), 10),
		"Transfer-Encoding: chunked")+"no length\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a body of another form", func() bool { return s.server.Refused()[Malformed] == 1 })
}

// cutBody sends a part of a body over HTTP/2 and resets the stream.
func cutBody(t *testing.T, s *testServer, q rawRequest) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body, in := io.Pipe()
	r := must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodPost, s.url+q.path, body))
	r.Header.Set("Content-Type", "application/proto")
	r.Header.Set(authHeader, q.auth)
	c := http.Client{Transport: must[*http.Transport](t)(NewTransport(s.pin, 1))}
	defer c.CloseIdleConnections()
	done := make(chan error, 1)
	go func() {
		a, err := c.Do(r)
		if err == nil {
			a.Body.Close()
		}
		done <- err
	}()
	if _, err := in.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a call in flight", func() bool {
		s.server.inFlight.mu.Lock()
		defer s.server.inFlight.mu.Unlock()
		return s.server.inFlight.calls[fixed(keyOf(1))] == 1
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("a call that was cut off is answered")
	}
}
