package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

func hashOf(b []byte) []byte { h := sha256.Sum256(b); return h[:] }

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestAllCallsOfADevice(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := newFakeCoordinator().open(t, Limits{PieceBytes: 1 << 14}, secure)
		s.blob, s.piece = noise(100_000), 1<<14
		key, ctx := keyOf(9), context.Background()
		public := fixed(key)
		c := s.dial(t, key, nil)
		if _, err := c.CheckIn(ctx, &pb.CheckInRequest{}); Code(err) != UnknownKey {
			t.Errorf("before it has enrolled: %v", err)
		}
		if _, err := c.Enrol(ctx, &pb.EnrolRequest{Token: "token", Key: public[:]}); err != nil {
			t.Fatal(err)
		}
		if a, err := c.CheckIn(ctx, &pb.CheckInRequest{}); err != nil || a.GetWait() == nil {
			t.Errorf("%v, %v", a, err)
		}
		got := []byte{}
		for len(got) < len(s.blob) {
			p := must[*pb.FetchResponse](t)(c.Fetch(ctx, &pb.FetchRequest{
				Hash:   hashOf(s.blob),
				Offset: uint64(len(got)),
			}))
			got = append(got, p.Data...)
		}
		if !bytes.Equal(got, s.blob) {
			t.Errorf("a blob of %d bytes is another one", len(got))
		}
		if _, err := c.Fetch(ctx, &pb.FetchRequest{Hash: hashOf([]byte("other"))}); Code(err) != NoSuchBlob {
			t.Errorf("a blob that is not there: %v", err)
		}
		for _, n := range []int{0, 1, 1 << 14, 100_001} {
			report := noise(n)
			q := &pb.ReportRequest{Round: 3, Digest: hashOf(report), Bytes: uint64(n)}
			a := &pb.ReportResponse{State: pb.ReportState_MORE}
			for a.State == pb.ReportState_MORE {
				q.Offset, q.Data = a.Next, report[a.Next:min(int(a.Next)+1<<14, n)]
				a = must[*pb.ReportResponse](t)(c.Report(ctx, q))
			}
			if got, err := s.parts[0].Bytes(); err != nil || !bytes.Equal(got, report) ||
				a.State != pb.ReportState_COUNTED {
				t.Errorf("a report of %d bytes has come as %d, %v, %v", n, len(got), a.State, err)
			}
		}
		if a, err := c.Mask(ctx, &pb.MaskRequest{Step: 2, Bytes: 5, Message: noise(5)}); err != nil ||
			a.State != pb.MaskResponse_ACCEPTED {
			t.Errorf("%v, %v", a, err)
		}
		if n := s.server.Refused()[StaleTime] + s.server.Refused()[Replayed]; n != 0 {
			t.Errorf("%d times were refused", n)
		}
	}
}

// A wrong clock costs one more try.
func TestClientsLearnTheClock(t *testing.T) {
	key, ctx := keyOf(1), context.Background()
	for _, off := range []time.Duration{-5 * time.Hour, 400 * 24 * time.Hour, -time.Second} {
		s := newFakeCoordinator(key).open(t, Limits{}, false)
		c := s.dial(t, key, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(off) } })
		if _, err := c.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Errorf("off by %v: %v", off, err)
		}
		if n := s.server.Refused()[StaleTime]; n != 0 {
			t.Errorf("off by %v: refused %d times, though Hello told the clock", off, n)
		}
		s.offset.Add(time.Hour.Milliseconds())
		if _, err := c.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Errorf("after the coordinator's clock was set: %v", err)
		}
		if n := s.server.Refused()[StaleTime]; n != 1 {
			t.Errorf("refused %d times, want 1", n)
		}
	}
	// A second client with the same key, whose times were later.
	s := newFakeCoordinator(key).open(t, Limits{}, false)
	fast := s.dial(t, key, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(5 * time.Second) } })
	slow := s.dial(t, key, nil)
	for range 3 {
		if _, err := fast.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Error(err)
		}
		fast.signer.last += 4000
		if _, err := fast.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := slow.CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Errorf("after later times of the same key: %v", err)
		}
	}
}

func TestRefusesIncompatibleVersions(t *testing.T) {
	key, ctx := keyOf(1), context.Background()
	s := newFakeCoordinator(key).open(t, Limits{}, false)
	for _, v := range [][2]uint32{{0, 0}, {wire.NewestVersion + 1, wire.NewestVersion + 5}, {5, 1}} {
		_, err := s.dial(t, key, nil).Hello(ctx, &pb.HelloRequest{Oldest: v[0], Newest: v[1]})
		if Code(err) != WrongVersion || !strings.Contains(err.Error(), "update") {
			t.Errorf("versions %v: %v", v, err)
		}
	}
	if h, err := s.dial(t, key, nil).Hello(ctx, &pb.HelloRequest{Oldest: 1, Newest: 1000}); err != nil ||
		h.Version != wire.NewestVersion {
		t.Errorf("a device that speaks more: %v, %v", h, err)
	}
	// A coordinator that does not check the version.
	old := &fakeServer{hello: &pb.HelloResponse{
		Version: 77, Federation: federation, Key: make([]byte, 32),
		Limits: &pb.Limits{PieceBytes: 1024, BodyBytes: 2048},
	}}
	c := old.dial(t)
	if _, err := c.CheckIn(ctx, &pb.CheckInRequest{}); Code(err) != WrongVersion {
		t.Errorf("version 77: %v", err)
	}
	for what, change := range map[string]func(*pb.HelloResponse){
		"id": func(h *pb.HelloResponse) { h.Federation = nil }, "key": func(h *pb.HelloResponse) { h.Key = nil },
		"limits": func(h *pb.HelloResponse) { h.Limits = nil },
		"name":   func(h *pb.HelloResponse) { h.Name = "\x1b[2J" },
	} {
		old.hello.Version = wire.NewestVersion
		bad := &fakeServer{hello: proto.CloneOf(old.hello)}
		if change(bad.hello); func() bool { _, err := bad.dial(t).meet(ctx); return err == nil }() {
			t.Errorf("%s: a Hello is believed", what)
		}
	}
	if _, err := s.dial(t, key, func(o *Options) { o.Federation = make([]byte, wire.IDBytes) }).meet(ctx); err == nil {
		t.Error("another federation is taken for this one")
	}
}

// fakeServer gives answers that no coordinator should give.
type fakeServer struct {
	pbconnect.UnimplementedFederationHandler
	hello *pb.HelloResponse
	fetch func(*pb.FetchRequest) (*pb.FetchResponse, error)
}

func (f *fakeServer) Hello(context.Context, *pb.HelloRequest) (*pb.HelloResponse, error) {
	if f.hello == nil {
		return &pb.HelloResponse{
			Version: wire.NewestVersion, Federation: federation, Key: make([]byte, 32),
			Limits: &pb.Limits{PieceBytes: 1024, BodyBytes: 2048},
		}, nil
	}
	return f.hello, nil
}

func (f *fakeServer) Fetch(_ context.Context, q *pb.FetchRequest) (*pb.FetchResponse, error) {
	return f.fetch(q)
}

func (f *fakeServer) dial(t *testing.T) *Client {
	_, h := pbconnect.NewFederationHandler(f)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return must[*Client](t)(Dial(Options{
		URL: s.URL, Insecure: true, Key: keyOf(1), Tries: 2,
		RetryDelay: time.Millisecond,
	}))
}

func TestClientRefusesATooLongResponse(t *testing.T) {
	f := &fakeServer{fetch: func(*pb.FetchRequest) (*pb.FetchResponse, error) {
		return &pb.FetchResponse{Data: make([]byte, maxResponseBytes+1)}, nil
	}}
	if _, err := f.dial(t).Fetch(context.Background(), &pb.FetchRequest{}); err == nil {
		t.Error("an answer over the client's limit is read")
	}
}

// A client waits for a coordinator that is briefly unavailable, but never longer than the context of the call.
func TestRetriesUntilTheCoordinatorIsBack(t *testing.T) {
	st := newFakeCoordinator(keyOf(1))
	h := must[*Server](t)(NewServer(st.config(Limits{}))).Handler()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch i := n.Add(1); {
		case i%4 == 1:
			panic(http.ErrAbortHandler)
		case i%4 == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case i%4 == 3: // truncated response
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		default:
			h.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = nil
	defer s.Close()
	c := must[*Client](t)(Dial(Options{URL: s.URL, Insecure: true, Key: keyOf(1), RetryDelay: time.Millisecond}))
	for range 3 {
		if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
			t.Error(err)
		}
	}
	if st.calls.Load() != 3 || n.Load() != 16 {
		t.Errorf("%d calls of %d were answered, want 3 of 16", st.calls.Load(), n.Load())
	}

	const nobody = "http://127.0.0.1:1" // a port that is not given to whoever asks for a free one
	away := must[*Client](t)(Dial(Options{
		URL: nobody, Insecure: true, Key: keyOf(1), Tries: 3,
		RetryDelay: time.Millisecond,
	}))
	if _, err := away.meet(context.Background()); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("nobody is there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	forever := must[*Client](t)(Dial(Options{
		URL: nobody, Insecure: true, Key: keyOf(1), Tries: 1 << 30,
		RetryDelay: time.Hour,
	}))
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := forever.meet(ctx); err == nil {
		t.Error("no error without a server")
	}
	if _, err := must[*Client](t)(Dial(Options{URL: s.URL, Insecure: true})).Leave(context.Background(),
		&pb.LeaveRequest{}); err == nil {
		t.Error("a call without a key is made")
	}
}

// Thousands of devices in one process share connections.
func TestManyClientsShareFewConnections(t *testing.T) {
	const clients = 100
	st := newFakeCoordinator()
	for i := range clients {
		st.ids[fixed(keyOf(i))] = uint32(i)
	}
	for _, secure := range []bool{false, true} {
		s := st.open(t, Limits{AddressConns: 24}, secure)
		shared := must[*http.Transport](t)(NewTransport(s.pin, 8))
		var wg sync.WaitGroup
		var wrong atomic.Int32
		for i := range clients {
			c := s.dial(t, keyOf(i), func(o *Options) { o.Transport = shared })
			wg.Go(func() {
				for range 3 {
					a, err := c.CheckIn(context.Background(), &pb.CheckInRequest{})
					if err != nil || a.GetWait().GetAfterMs() != uint32(i) {
						wrong.Add(1)
						t.Logf("client %d: %v, %v", i, a, err)
					}
				}
			})
		}
		wg.Wait()
		shared.CloseIdleConnections()
		if wrong.Load() != 0 || s.server.Refused()["connections"] != 0 {
			t.Errorf("secure %v: %d calls went wrong; refused %v", secure, wrong.Load(), s.server.Refused())
		}
	}
}

// A client that many goroutines use makes its calls one after the other, so that no time is stale.
func TestOneClientIsSafeForManyGoroutines(t *testing.T) {
	s := newFakeCoordinator(keyOf(1)).open(t, Limits{KeyRate: -1}, true)
	c := s.dial(t, keyOf(1), nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.server.Refused()[Replayed]; n != 0 {
		t.Errorf("%d calls were late", n)
	}
}

func TestCodeNamesErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("x"), "unknown"},
		{connect.NewError(connect.CodeUnavailable, nil), "unavailable"},
		{errors.Join(errors.New("x"), Refuse(Quota, connect.CodeResourceExhausted, "full")), Quota},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

// The text of an error is for people: no code of Connect, no URL.
func TestErrorsOfCallsArePlain(t *testing.T) {
	ctx := context.Background()
	st := newFakeCoordinator(keyOf(1))
	s := st.open(t, Limits{}, true)
	_, err := s.dial(t, keyOf(2), nil).CheckIn(ctx, &pb.CheckInRequest{})
	if Code(err) != UnknownKey || strings.Contains(err.Error(), ":") {
		t.Errorf("%s: %v", Code(err), err)
	}
	other, err := Dial(Options{URL: s.url, Pin: pinHead + strings.Repeat("A", 43), Key: keyOf(1), Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.CheckIn(ctx, &pb.CheckInRequest{})
	if !errors.Is(err, ErrPin) || !strings.HasPrefix(err.Error(), ErrPin.Error()) {
		t.Errorf("another pin: %v", err)
	}
}
