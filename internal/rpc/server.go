//go:build !js

package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// Limits protect a server from its clients. Zero means the default; a rate below zero means no limit.
type Limits struct {
	PieceBytes int // largest piece of a blob or a report in one call; default 1 MiB
	AdminBytes int // largest call of the admin API; default 64 MiB
	// BodyMemory is the memory for the bodies of enrolled devices that are being read; default 256 MiB. One
	// eighth of it is for calls of at most 4 KiB. One address gets at most half of either part.
	BodyMemory int
	// Unenrolled is the number of concurrent calls without an enrolled key whose bodies are being read;
	// default 1024, and AddressUnenrolled from one address; default 256. If there are more, the oldest ends.
	Unenrolled, AddressUnenrolled int

	// Conns is the number of concurrent connections; default 2048, and at most half of the file descriptors
	// that the process may have, so that the coordinator can open its files.
	Conns        int
	AddressConns int           // concurrent connections from one address; default 256
	KeyRate      float64       // calls per second with one key; default 20, with bursts of 10 s
	AddressRate  float64       // calls per second from one address; default 500, with bursts of 10 s
	Grace        time.Duration // time before MinRate applies to a client; default 10 s
	MinRate      float64       // bytes per second that a client must send or receive; default 16 KiB
	Call         time.Duration // time limit of a handler; default 30 s
}

func (l *Limits) minSpeed() minSpeed { return minSpeed{l.Grace, l.MinRate} }

// overheadBytes is the largest call without a piece, and the overhead of a call with one.
const overheadBytes = 4 << 10

// manifestBytes is more than the largest signed manifest, which a device may show when it checks in.
const manifestBytes = 64 << 10

func setDefault[T int | float64 | time.Duration](x *T, value T) {
	if *x == 0 {
		*x = value
	}
}

// complete sets the defaults and checks the limits.
func (l *Limits) complete() error {
	setDefault(&l.PieceBytes, 1<<20)
	setDefault(&l.AdminBytes, 64<<20)
	setDefault(&l.BodyMemory, 256<<20)
	setDefault(&l.Unenrolled, 1024)
	setDefault(&l.AddressUnenrolled, 256)
	setDefault(&l.Conns, 2048)
	if n := maxDescriptors(); n > 0 {
		l.Conns = min(l.Conns, max(1, n/2))
	}
	setDefault(&l.AddressConns, 256)
	setDefault(&l.KeyRate, 20)
	setDefault(&l.AddressRate, 500)
	setDefault(&l.Grace, 10*time.Second)
	setDefault(&l.MinRate, 16<<10)
	setDefault(&l.Call, 30*time.Second)
	switch {
	case l.PieceBytes < 1024 || l.PieceBytes > maxResponseBytes/2:
		return fmt.Errorf("rpc: pieces of %d bytes: must be 1024 to %d", l.PieceBytes, maxResponseBytes/2)
	case l.BodyMemory < 4*l.PieceBytes:
		return fmt.Errorf("rpc: body memory of %d bytes: must be at least %d, four times the size of a piece",
			l.BodyMemory, 4*l.PieceBytes)
	case l.Unenrolled < 1 || l.AddressUnenrolled < 1 || l.Conns < 1 || l.AddressConns < 1:
		return fmt.Errorf("rpc: limits %+v: numbers of connections and calls must be at least 1", *l)
	case l.Grace < 0 || !(l.MinRate > 0) || l.AdminBytes < 0:
		return fmt.Errorf("rpc: limits %+v: times, rates and sizes must be positive", *l)
	}
	return nil
}

// Config connects a server with a coordinator.
type Config struct {
	Federation pbconnect.FederationHandler
	ID         []byte // federation ID
	// Lookup returns the device ID of a key, or Refuse with UnknownKey or Revoked. Many goroutines
	// call it, before the body of a request is read.
	Lookup func(key [32]byte) (deviceID uint32, err error)
	// Authorize returns the operator whose token it is. Many goroutines call it. Nil refuses all tokens.
	Authorize func(token string) (Operator, bool)
	// Now is the wall clock, which the server reads once, at its start; nil means time.Now. The times of
	// requests must follow a clock that begins there and does not follow later steps of the wall clock. Clients
	// learn it from Hello. The server refuses times up to shortly after Start, or up to the time in ClockFile,
	// so that requests from before a restart cannot be replayed; zero means now.
	Now       func() time.Time
	Start     time.Time
	ClockFile string               // keeps the clock across restarts, even if the wall clock is set back; "" means none
	elapsed   func() time.Duration // of tests; nil means the monotonic clock

	Limits Limits
	Mounts []Mount // handlers of other paths
	// Origins are the origins, such as https://shop.example, whose pages may call the device API besides pages of
	// this server. Requests from pages of any other origin are refused.
	Origins []string
	// Observe, if set, receives the duration of each request and its call: the name of a procedure, admin for
	// mounts, or other.
	Observe func(call string, took time.Duration)
	// Fault, if set, receives panics and handler errors without an error code. Their text is not sent
	// to clients.
	Fault func(procedure string, err error)
}

// Server checks requests and passes them to a coordinator's handlers.
type Server struct {
	config      Config
	limits      Limits
	requests    *requestClock
	next        http.Handler
	errors      *connect.ErrorWriter
	addressRate *rateLimiter[netip.Prefix]
	keyRate     *rateLimiter[[32]byte]
	replay      replayGuard
	wrongTokens *rateLimiter[netip.Prefix]
	inFlight    inFlight
	smallBodies *memoryShares // of enrolled devices
	largeBodies *memoryShares
	unenrolled  *unenrolledCalls
	life        context.Context // ends when a server of HTTP shuts down
	end         context.CancelFunc

	mu      sync.Mutex
	refused map[string]uint64
}

// maxKeys limits the keys and addresses that a rate limiter tracks.
const maxKeys = 1 << 16

// NewServer returns a server, or an error if the config is invalid.
func NewServer(c Config) (*Server, error) {
	if c.Federation == nil || c.Lookup == nil {
		return nil, errors.New("rpc: a server requires Federation and Lookup")
	}
	if len(c.ID) != wire.IDBytes {
		return nil, fmt.Errorf("rpc: federation ID of %d bytes: must be %d", len(c.ID), wire.IDBytes)
	}
	if err := c.Limits.complete(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Start.IsZero() {
		c.Start = c.Now()
	}
	clock, err := newRequestClock(c.Now(), c.Start.Add(maxAhead).UnixMilli(), c.elapsed, c.ClockFile)
	if err != nil {
		return nil, err
	}
	for _, o := range c.Origins {
		if err := CheckOrigin(o); err != nil {
			return nil, err
		}
	}
	l := c.Limits
	s := &Server{
		config: c, limits: l, requests: clock, errors: connect.NewErrorWriter(),
		refused:     map[string]uint64{},
		addressRate: newRateLimiter[netip.Prefix](l.AddressRate, 10*l.AddressRate, maxKeys),
		keyRate:     newRateLimiter[[32]byte](l.KeyRate, 10*l.KeyRate, maxKeys),
		wrongTokens: newRateLimiter[netip.Prefix](wrongTokenRate, wrongTokenBurst, maxKeys),
		replay:      replayGuard{last: map[[32]byte]int64{}},
		inFlight:    inFlight{calls: map[[32]byte]int{}},
		smallBodies: newMemoryShares(max(l.BodyMemory/8, 16*overheadBytes)),
		largeBodies: newMemoryShares(l.BodyMemory - l.BodyMemory/8),
		unenrolled:  newUnenrolled(l.Unenrolled, l.AddressUnenrolled),
	}
	s.life, s.end = context.WithCancel(context.Background())
	options := func(maxBytes int) []connect.HandlerOption {
		return []connect.HandlerOption{
			connect.WithReadMaxBytes(maxBytes), connect.WithCompression("gzip", nil, nil),
			connect.WithRecover(s.panicked), connect.WithInterceptors(&errorFilter{s}),
		}
	}
	mux := http.NewServeMux()
	mux.Handle(pbconnect.NewFederationHandler(&deviceHandler{c.Federation, s}, options(l.PieceBytes+overheadBytes)...))
	s.next = mux
	return s, nil
}

// Handler returns the handler with all checks. Its http.Server must limit the time for headers; the
// server of HTTP does.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// HTTP returns a server for HTTP/1.1 and HTTP/2. Serve it with ServeTLS on s.Listener, or with Serve if
// secure is nil (HTTP/1.1 only). The caller sets ErrorLog.
func (s *Server) HTTP(secure *tls.Config) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure != nil)
	wholePiece := s.limits.minSpeed().timeFor(s.limits.PieceBytes + overheadBytes)
	h := &http.Server{
		Handler: s.Handler(), TLSConfig: secure, Protocols: protocols,
		ReadHeaderTimeout: s.limits.Grace,
		// These two apply to requests that never reach a handler. Handlers move the deadlines as bytes
		// arrive.
		ReadTimeout: wholePiece, WriteTimeout: wholePiece + s.limits.Call,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10, ConnContext: connContext, ConnState: connState,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250, MaxReceiveBufferPerConnection: 1 << 18, MaxReceiveBufferPerStream: 1 << 18,
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			WriteByteTimeout: s.limits.Grace + 20*time.Second,
		},
	}
	h.RegisterOnShutdown(s.end)
	return h
}

// Refused returns the number of refused requests by error code. The key "connections" counts refused
// connections.
func (s *Server) Refused() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

func (s *Server) count(errorCode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[errorCode]++
}

// callOf names the call of a path for measurements.
func (s *Server) callOf(path string) string {
	if s.mountOf(path) != nil {
		return "admin"
	}
	if name, ok := strings.CutPrefix(path, "/"+pbconnect.FederationName+"/"); ok {
		return name
	}
	return "other"
}

// serveHTTP checks a request and passes it to the API that its path names.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if s.config.Observe != nil {
		start := time.Now()
		defer func() {
			if w.Header().Get("Content-Type") != "text/event-stream" { // it lasts as long as a page is open
				s.config.Observe(s.callOf(r.URL.Path), time.Since(start))
			}
		}()
	}
	a := &response{ResponseWriter: w, server: s, ctl: http.NewResponseController(w)}
	_ = a.ctl.SetWriteDeadline(time.Time{}) // response sets it before each write
	defer func() {
		switch what := recover(); {
		case what == nil:
		case what == http.ErrAbortHandler:
			panic(what)
		default:
			s.refuse(a, r, s.fault(r.URL.Path, Panicked, fmt.Errorf("panic: %v", what)))
		}
	}()
	if wait := s.addressRate.allow(address(r.RemoteAddr), time.Now()); wait > 0 {
		err := slowDown(wait, "too many calls from this address")
		if s.mountOf(r.URL.Path) != nil {
			s.refuseJSON(a, r, err)
		} else {
			s.refuse(a, r, err)
		}
		return
	}
	if m := s.mountOf(r.URL.Path); m != nil {
		s.serveMount(a, r, m)
		return
	}
	err := s.checkOrigin(a, r)
	switch {
	case err != nil:
	case r.Method == http.MethodOptions && r.Header.Get("Origin") != "":
		answerPreflight(a)
	case r.Method != http.MethodPost:
		s.refuseJSON(a, r, Refuse(NoSuchPath, connect.CodeNotFound, "this is a Tacit coordinator; devices call "+
			"it with POST"))
	case strings.HasPrefix(r.URL.Path, "/"+pbconnect.FederationName+"/"):
		err = s.serveDevice(a, r)
	default:
		err = Refuse(NoSuchPath, connect.CodeUnimplemented, "unknown path %.80q", r.URL.Path)
	}
	if err != nil {
		s.refuse(a, r, err)
	}
}

// refuse answers with an error. It allows one second for the rest of a short body, so that the
// connection can be reused.
func (s *Server) refuse(a *response, r *http.Request, err error) {
	if a.wrote {
		return
	}
	s.prepareRefusal(a, r)
	// A streaming call receives its error at the end, with status 200. Requests that do not use
	// Connect receive the error as a unary Connect call would.
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
		s.count(Code(err))
	} else {
		r.Header.Set("Content-Type", "application/proto")
	}
	_ = s.errors.Write(a, r, err)
}

// prepareRefusal limits what the server still reads from a client that it refuses.
func (s *Server) prepareRefusal(a *response, r *http.Request) {
	_ = a.ctl.SetReadDeadline(time.Now().Add(time.Second))
	if r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > 64<<10) {
		a.Header().Set("Connection", "close")
	}
}

func slowDown(wait time.Duration, reason string) error {
	err := Refuse(SlowDown, connect.CodeUnavailable, "%s: try again in %.1f s", reason, wait.Seconds())
	var ce *connect.Error
	if errors.As(err, &ce) {
		ce.Meta().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
	}
	return err
}

// checkSize checks the declared size of a body.
func checkSize(r *http.Request, limit int) error {
	if r.ContentLength > int64(limit) {
		return Refuse(Oversized, connect.CodeResourceExhausted, "body of %d bytes: must be at most %d", r.ContentLength,
			limit)
	}
	return nil
}

func (s *Server) panicked(_ context.Context, spec connect.Spec, _ http.Header, what any) error {
	return s.fault(spec.Procedure, Panicked, fmt.Errorf("panic: %v", what))
}

// fault passes an internal error to the coordinator and returns an error for the client without its
// text.
func (s *Server) fault(procedure, errorCode string, err error) error {
	if s.config.Fault != nil {
		s.config.Fault(procedure, err)
	}
	return Refuse(errorCode, connect.CodeInternal, "internal error of the coordinator; its log has the details")
}

// errorFilter is an interceptor that keeps the text of internal errors from clients, and counts the
// errors of streams.
type errorFilter struct{ server *Server }

func (f *errorFilter) hide(ctx context.Context, procedure string, err error) error {
	if ce := new(connect.Error); err == nil || errors.As(err, &ce) && ce.Meta().Get(codeHeader) != "" {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if errors.Is(ctx.Err(), context.Canceled) {
			return Refuse(CutOff, connect.CodeUnavailable, "the client closed the connection")
		}
		return Refuse(SlowDown, connect.CodeUnavailable, "the coordinator did not answer in time: try again")
	}
	return f.server.fault(procedure, Internal, err)
}

// WrapUnary filters the errors of unary handlers.
func (f *errorFilter) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		a, err := next(ctx, q)
		return a, f.hide(ctx, q.Spec().Procedure, err)
	}
}

// WrapStreamingClient does nothing.
func (f *errorFilter) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler filters and counts the errors of streaming handlers.
func (f *errorFilter) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) error {
		err := f.hide(ctx, c.Spec().Procedure, next(ctx, c))
		if err != nil {
			f.server.count(Code(err))
		}
		return err
	}
}
