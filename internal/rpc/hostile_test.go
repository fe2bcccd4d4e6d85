package rpc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// head is a hand-written request without its body.
func head(q rawRequest, length string) string {
	const form = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nTacit-Auth: %s\r\n%s\r\n\r\n"
	return fmt.Sprintf(form, q.path, q.auth, length)
}

func connection(t *testing.T, s *testServer) net.Conn {
	t.Helper()
	c := must[net.Conn](t)(net.Dial("tcp", s.addr))
	t.Cleanup(func() { c.Close() })
	return c
}

// busy makes calls until stop is closed, and fails if a call fails.
func busy(t *testing.T, s *testServer, stop chan struct{}, clients int) *sync.WaitGroup {
	wg := &sync.WaitGroup{}
	for i := range clients {
		wg.Go(func() {
			c := s.dial(t, keyOf(i+1), nil)
			for n := 0; ; n++ {
				if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
					t.Errorf("client %d, call %d: %v", i, n, err)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	return wg
}

// The server refuses a body that is too long before its first byte is sent.
func TestRefusesALongBodyBeforeReadingIt(t *testing.T) {
	key := keyOf(1)
	s := newFakeCoordinator(key).open(t, Limits{PieceBytes: 1 << 16}, false)
	q := signed(key, pbconnect.FederationReportProcedure, time.Now(), &pb.ReportRequest{})
	for _, length := range []int{1<<16 + overheadBytes + 1, 1 << 40} {
		c := connection(t, s)
		if _, err := io.WriteString(c, head(q, fmt.Sprintf("Content-Length: %d", length))); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || a.Header.Get(codeHeader) != Oversized || !a.Close {
			t.Errorf("%d bytes: %v, %v, want %s and the end of the connection", length, a, err, Oversized)
		}
	}
	// The length that was signed counts, too.
	c := connection(t, s)
	long := announced(key, pbconnect.FederationReportProcedure, time.Now(), 1<<16+overheadBytes+1)
	if _, err := io.WriteString(c, head(long, "Transfer-Encoding: chunked")); err != nil {
		t.Fatal(err)
	}
	if a, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || a.Header.Get(codeHeader) != Oversized {
		t.Errorf("signed: %v, %v, want %s", a, err, Oversized)
	}
	// A body of unknown length is refused once it is longer than the signed one.
	c = connection(t, s)
	go func() {
		_, _ = io.WriteString(c, head(q, "Transfer-Encoding: chunked"))
		for range 1 << 10 {
			if _, err := io.WriteString(c, "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n"); err != nil {
				return
			}
		}
	}()
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || a.Header.Get(codeHeader) != BadSignature {
		t.Errorf("in chunks: %v, %v, want %s", a, err, BadSignature)
	}
	if s.calls.Load() != 0 {
		t.Error("a body that is too long reached a handler")
	}
}

// The server cuts clients that send too slowly or nothing, without effect on others.
func TestCutsSlowClientsAndServesOthers(t *testing.T) {
	keys := 5
	st := newFakeCoordinator()
	for i := range keys {
		st.ids[fixed(keyOf(i+1))] = uint32(i)
	}
	s := st.open(t, Limits{Grace: time.Second, MinRate: 1 << 20, KeyRate: -1}, false)
	stop := make(chan struct{})
	others := busy(t, s, stop, keys-2)
	slow := keyOf(keys)
	var all sync.WaitGroup
	for what, begin := range map[string]string{
		"a body": head(announced(slow, pbconnect.FederationReportProcedure, time.Now(), 60_000),
			"Content-Length: 60000"),
		"a small one": head(announced(slow, checkIn, time.Now().Add(time.Second), 1000), "Content-Length: 1000"),
		"chunks": head(announced(keyOf(keys-1), checkIn, time.Now().Add(time.Second), 1000),
			"Transfer-Encoding: chunked"),
		"a header": "POST /x HTTP/1.1\r\nHost: ",
		"nothing":  "",
	} {
		c := connection(t, s)
		all.Go(func() {
			if err := dribble(c, begin, what == "nothing"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
	close(stop)
	others.Wait()
	if n := s.server.Refused()[TooSlow]; n < 2 {
		t.Errorf("%d slow bodies were counted, want at least 2: %v", n, s.server.Refused())
	}
}

// dribble sends a prefix, and then single bytes until the connection is closed.
func dribble(c net.Conn, begin string, silent bool) error {
	if _, err := io.WriteString(c, begin); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	for sent := 0; ; sent++ {
		select {
		case <-ended:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		if sent > 3000 {
			return fmt.Errorf("still there after %d single bytes", sent)
		}
		if _, err := io.WriteString(c, "1"[:btoi(!silent)]); err != nil {
			return nil
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The same over HTTP/2 with a shared connection: only the slow stream ends.
func TestSlowStreamEndsAlone(t *testing.T) {
	st := newFakeCoordinator(keyOf(1), keyOf(2))
	s := st.open(t, Limits{Grace: time.Second, MinRate: 1 << 20, KeyRate: -1}, true)
	silent := connection(t, s) // does not even start the TLS handshake
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that says nothing is answered")
	}
	shared := must[*http.Transport](t)(NewTransport(s.pin, 1))
	defer shared.CloseIdleConnections()
	other := s.dial(t, keyOf(1), func(o *Options) { o.Transport = shared })
	if _, err := other.meet(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := s.server.Refused()[TooSlow] // a busy machine may be slow by itself
	q := announced(keyOf(2), checkIn, time.Now(), 10)
	body, feed := io.Pipe()
	defer feed.Close()
	r := must[*http.Request](t)(http.NewRequest(http.MethodPost, s.url+q.path, body))
	r.Header.Set("Content-Type", "application/proto")
	r.Header.Set(authHeader, q.auth)
	a, err := shared.RoundTrip(r)
	if err == nil {
		if a.Body.Close(); a.Header.Get(codeHeader) != TooSlow || a.ProtoMajor != 2 {
			t.Errorf("a stream that brings nothing is answered %v, want %s over HTTP/2", a, TooSlow)
		}
	}
	if s.server.Refused()[TooSlow] != before+1 {
		t.Errorf("refused: %v, %v", s.server.Refused(), err)
	}
	if _, err := other.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Error(err)
	}
}

// A client that does not read its response blocks a handler no longer than the minimum speed allows.
func TestCutsAClientThatDoesNotRead(t *testing.T) {
	st := newFakeCoordinator(keyOf(1))
	st.blob, st.piece = make([]byte, 8<<20), 8<<20
	s := st.open(t, Limits{Grace: 300 * time.Millisecond, MinRate: 64 << 20, PieceBytes: 8 << 20}, false)
	q := signed(keyOf(1), pbconnect.FederationFetchProcedure, time.Now(), &pb.FetchRequest{Hash: hashOf(st.blob)})
	c := connection(t, s)
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append([]byte(head(q, fmt.Sprintf("Content-Length: %d", len(q.body)))),
		q.body...)); err != nil {
		t.Fatal(err)
	}
	// The server closes the connection: its write ends, and eventually ours too.
	eventually(t, "the end of the connection", func() bool {
		_, err := io.WriteString(c, "\r\n")
		return err != nil
	})
}

func TestTrustsOnlyThePinnedKey(t *testing.T) {
	dir := t.TempDir()
	_, other, err := MakeTLS(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := MakeTLS(dir, true); err != nil || again != other {
		t.Errorf("the pin is %s, and then %s, %v", other, again, err)
	}
	file := filepath.Join(dir, "tls.pem")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is kept with mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := MakeTLS(dir, true); err == nil {
		t.Error("a key that all may read is used")
	}
	s := newFakeCoordinator(keyOf(1)).open(t, Limits{}, true)
	ctx := context.Background()
	if _, err := s.dial(t, keyOf(1), nil).CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := s.dial(t, keyOf(1), func(o *Options) { o.Pin = other }).CheckIn(ctx,
		&pb.CheckInRequest{}); !errors.Is(err, ErrPin) {
		t.Errorf("another pin: %v", err)
	}
	if _, err := s.dial(t, keyOf(1), func(o *Options) { o.Pin = "" }).CheckIn(ctx, &pb.CheckInRequest{}); err == nil {
		t.Error("without a pin, a self-made certificate is believed")
	}
	if _, err := s.dial(t, keyOf(1), func(o *Options) {
		o.Pin, o.URL, o.Insecure = "", "http"+s.url[5:],
			true
	}).CheckIn(ctx, &pb.CheckInRequest{}); err == nil {
		t.Error("a server with TLS answers without it")
	}
	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
	if c, err := tls.Dial("tcp", s.addr, old); err == nil {
		c.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// Bodies that are announced and never sent take no memory.
func TestMemoryGrowsWithReceivedBytes(t *testing.T) {
	m, from := newMemoryShares(16_000), address("192.0.2.1:1")
	take := func(n int) bool { return m.take(from, n) }
	all, held, err := readBody(strings.NewReader(strings.Repeat("x", 5000)), 6000, take)
	if err != nil || len(all) != 5000 || held < 5000 || m.left() != 16_000-held {
		t.Errorf("%d bytes, %d held, %d left, %v", len(all), held, m.left(), err)
	}
	if _, more, err := readBody(strings.NewReader(strings.Repeat("x", 5000)), 6000, take); !errors.Is(err, errMemory) {
		t.Errorf("%d more, %v", more, err)
	} else {
		m.give(from, more)
	}
	other := address("192.0.2.2:1")
	takeOther := func(n int) bool { return m.take(other, n) }
	if _, more, err := readBody(strings.NewReader("x"), 6000, takeOther); err != nil {
		t.Errorf("another address, while one has its share: %v", err)
	} else {
		m.give(other, more)
	}
	m.give(from, held)
	for _, size := range []int{0, 1, 1024, 5999, 6000} {
		all, held, err := readBody(strings.NewReader(strings.Repeat("x", 6000)), size, take)
		if err != nil || len(all) != min(size+1, 6000) || held > size+1 {
			t.Errorf("%d bytes expected of 6000: %d read with %d held, %v", size, len(all), held, err)
		}
		m.give(from, held)
	}
	if m.left() != 16_000 || len(m.held) != 0 {
		t.Errorf("%d are left of 16000, held by %d addresses", m.left(), len(m.held))
	}
}

// announced is a request that was signed for a body of a given size.
func announced(key ed25519.PrivateKey, path string, at time.Time, size int) rawRequest {
	body := bytes.Repeat([]byte("x"), size)
	return rawRequest{
		path: path, body: body,
		auth: wire.SignRequest(key, federation, path, at.UnixMilli(), [wire.NonceBytes]byte{2}, body),
	}
}

// begin sends the header of a request and the first bytes of its body.
func begin(t *testing.T, s *testServer, q rawRequest, some int) net.Conn {
	t.Helper()
	c := connection(t, s)
	if _, err := io.WriteString(c, head(q, fmt.Sprintf("Content-Length: %d", len(q.body)))+
		string(q.body[:some])); err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is how long a test waits: a busy machine is slow.
const patience = 5 * time.Minute

// eventually waits for the effect of another goroutine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not after %v", what, patience)
}
