package rpc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
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

func must[T any](t testing.TB) func(T, error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func keyOf(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%032d", i))
}

func fixed(key ed25519.PrivateKey) (out [32]byte) {
	copy(out[:], key.Public().(ed25519.PublicKey))
	return out
}

// fakeCoordinator is a small coordinator: enrolment, one blob, reports in pieces.
type fakeCoordinator struct {
	mu      sync.Mutex
	ids     map[[32]byte]uint32
	revoked map[[32]byte]bool
	blob    []byte
	piece   int
	parts   map[uint32]*wire.Assembly
	calls   atomic.Int64 // calls that reached a handler
	check   func(context.Context) error
	offset  atomic.Int64 // ms by which its clock is off
	frozen  time.Time    // if set, its clock stands still
	faults  []string
}

var federation = bytes.Repeat([]byte{3}, wire.IDBytes)

func newFakeCoordinator(keys ...ed25519.PrivateKey) *fakeCoordinator {
	s := &fakeCoordinator{
		ids: map[[32]byte]uint32{}, revoked: map[[32]byte]bool{}, parts: map[uint32]*wire.Assembly{},
		piece: 1 << 20,
	}
	for i, k := range keys {
		s.ids[fixed(k)] = uint32(i)
	}
	return s
}

func (s *fakeCoordinator) lookup(key [32]byte) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked[key] {
		return 0, Refuse(Revoked, connect.CodePermissionDenied, "the key was revoked")
	}
	id, ok := s.ids[key]
	if !ok {
		return 0, Refuse(UnknownKey, connect.CodeUnauthenticated, "no such key")
	}
	return id, nil
}

func (s *fakeCoordinator) now() time.Time {
	if !s.frozen.IsZero() {
		return s.frozen
	}
	return time.Now().Add(time.Duration(s.offset.Load()) * time.Millisecond)
}

func (s *fakeCoordinator) Hello(context.Context, *pb.HelloRequest) (*pb.HelloResponse, error) {
	return &pb.HelloResponse{Name: "stage", Key: make([]byte, 32)}, nil
}

func (s *fakeCoordinator) Enrol(ctx context.Context, q *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	s.calls.Add(1)
	if q.Token != "token" {
		return nil, Refuse(BadToken, connect.CodePermissionDenied, "no such token")
	}
	who, _ := CallerFrom(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[who.Key] = uint32(len(s.ids))
	return &pb.EnrolResponse{DeviceId: s.ids[who.Key]}, nil
}

func (s *fakeCoordinator) CheckIn(ctx context.Context, _ *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	s.calls.Add(1)
	if s.check != nil {
		if err := s.check(ctx); err != nil {
			return nil, err
		}
	}
	who, ok := CallerFrom(ctx)
	if !ok {
		panic("a call without a caller")
	}
	return &pb.CheckInResponse{Action: &pb.CheckInResponse_Wait{Wait: &pb.Wait{AfterMs: who.DeviceID}}}, nil
}

func (s *fakeCoordinator) Fetch(_ context.Context, q *pb.FetchRequest) (*pb.FetchResponse, error) {
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(q.Hash, wire.HashBlob(s.blob).Hash) || q.Offset > uint64(len(s.blob)) {
		return nil, Refuse(NoSuchBlob, connect.CodeNotFound, "no such blob")
	}
	rest := s.blob[q.Offset:]
	return &pb.FetchResponse{Data: rest[:min(len(rest), s.piece)]}, nil
}

func (s *fakeCoordinator) Report(ctx context.Context, q *pb.ReportRequest) (*pb.ReportResponse, error) {
	s.calls.Add(1)
	who, _ := CallerFrom(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	blob := &pb.Blob{Hash: q.Digest, Bytes: q.Bytes}
	a := s.parts[who.DeviceID]
	if a == nil || !a.Is(blob) {
		var err error
		if a, err = wire.Assemble(blob, 1<<26); err != nil {
			return nil, Refuse(Malformed, connect.CodeInvalidArgument, "%v", err)
		}
		s.parts[who.DeviceID] = a
	}
	if err := a.Add(q.Offset, q.Data); err != nil {
		return nil, Refuse(Malformed, connect.CodeInvalidArgument, "%v", err)
	}
	if !a.Done() {
		return &pb.ReportResponse{State: pb.ReportState_MORE, Next: a.Next()}, nil
	}
	if _, err := a.Bytes(); err != nil {
		return nil, Refuse(BadDigest, connect.CodeInvalidArgument, "%v", err)
	}
	return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
}

func (s *fakeCoordinator) Mask(_ context.Context, q *pb.MaskRequest) (*pb.MaskResponse, error) {
	s.calls.Add(1)
	if end := q.Offset + uint64(len(q.Message)); end < q.Bytes {
		return &pb.MaskResponse{State: pb.MaskResponse_PART, Next: end}, nil
	}
	return &pb.MaskResponse{State: pb.MaskResponse_ACCEPTED}, nil
}

func (s *fakeCoordinator) Leave(context.Context, *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	s.calls.Add(1)
	panic("leaving is not for this stage")
}

// admin is an admin API: it echoes the body of POST echo, and fails in other ways for other paths.
func (s *fakeCoordinator) admin(w http.ResponseWriter, r *http.Request) error {
	if OperatorFrom(r.Context()).Name != "test" {
		return fmt.Errorf("the operator is not in the context")
	}
	switch strings.TrimPrefix(r.URL.Path, AdminPrefix) {
	case "echo":
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return &BodyError{err}
		}
		_, _ = w.Write(b)
		return nil
	case "blob":
		for range 3 {
			_, _ = w.Write(s.blob)
		}
		return nil
	case "fault":
		return fmt.Errorf("a secret of the disk")
	}
	return Refuse(NotFound, connect.CodeNotFound, "unknown call")
}

// testServer is a fakeCoordinator behind a server on a socket.
type testServer struct {
	*fakeCoordinator
	server *Server
	url    string
	pin    string
	http   *http.Server
	addr   string
}

func (s *fakeCoordinator) config(limits Limits) Config {
	start := s.now()
	return Config{
		Federation: s, ID: federation, Lookup: s.lookup, Mounts: []Mount{{Prefix: AdminPrefix, Handler: s.admin}},
		Authorize: func(token string) (Operator, bool) { return Operator{Name: "test"}, token == "operator" },
		Now:       s.now,
		Start:     time.Now().Add(-time.Hour), Limits: limits,
		elapsed: func() time.Duration { return s.now().Sub(start) },
		Fault: func(procedure string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.faults = append(s.faults, procedure+" "+err.Error())
		},
	}
}

func (s *fakeCoordinator) open(t testing.TB, limits Limits, secure bool) *testServer {
	t.Helper()
	limits.AddressRate = -1
	limits.Grace, limits.Call = cmp.Or(limits.Grace, patience), cmp.Or(limits.Call, patience) // the machine may be slow
	return s.serve(t, limits, secure)
}

// serve is open with exactly these limits.
func (s *fakeCoordinator) serve(t testing.TB, limits Limits, secure bool) *testServer {
	t.Helper()
	return s.start(t, s.config(limits), secure)
}

// start is serve with a config.
func (s *fakeCoordinator) start(t testing.TB, c Config, secure bool) *testServer {
	t.Helper()
	if !secure {
		return s.startTLS(t, c, nil)
	}
	config, pin, err := MakeTLS(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	out := s.startTLS(t, c, config)
	out.pin = pin
	return out
}

// startTLS is start with a TLS config, or none.
func (s *fakeCoordinator) startTLS(t testing.TB, c Config, config *tls.Config) *testServer {
	t.Helper()
	out := &testServer{fakeCoordinator: s, server: must[*Server](t)(NewServer(c))}
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	out.addr = l.Addr().String()
	out.url = "http://" + out.addr
	if config != nil {
		out.url = "https://" + out.addr
	}
	out.http = out.server.HTTP(config)
	out.http.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if config != nil {
			_ = out.http.ServeTLS(out.server.Listener(l), "", "")
		} else {
			_ = out.http.Serve(out.server.Listener(l))
		}
	}()
	t.Cleanup(func() { out.http.Close(); <-done })
	return out
}

func (s *testServer) dial(t testing.TB, key ed25519.PrivateKey, change func(*Options)) *Client {
	t.Helper()
	o := Options{URL: s.url, Pin: s.pin, Insecure: s.pin == "", Key: key, RetryDelay: time.Millisecond}
	if change != nil {
		change(&o)
	}
	c := must[*Client](t)(Dial(o))
	t.Cleanup(c.options.Transport.CloseIdleConnections)
	return c
}

// rawRequest is a request whose parts a test can choose.
type rawRequest struct {
	path, auth string
	header     map[string]string
	body       []byte
}

const checkIn = pbconnect.FederationCheckInProcedure

func signed(key ed25519.PrivateKey, path string, at time.Time, m proto.Message) rawRequest {
	body, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return rawRequest{path: path, auth: wire.SignRequest(key, federation, path, at.UnixMilli(),
		[wire.NonceBytes]byte{1},
		body), body: body}
}

func (s *testServer) post(t testing.TB, q rawRequest) (word string, status int) {
	t.Helper()
	r := must[*http.Request](t)(http.NewRequest(http.MethodPost, s.url+q.path, bytes.NewReader(q.body)))
	r.Header.Set("Content-Type", "application/proto")
	r.Header.Set(authHeader, q.auth)
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	c := http.Client{Transport: must[*http.Transport](t)(NewTransport(s.pin, 1))}
	defer c.CloseIdleConnections()
	a, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.Header.Get(codeHeader), a.StatusCode
}
