package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// Limits are what a server takes from its clients. Zero means the default; a rate
// below zero means no limit.
type Limits struct {
	PieceBytes int // of a blob or a report in one call; default 1 MiB
	AdminBytes int // of an operator's call; default 64 MiB
	// of all bodies that are being read, of keys with a seat; default 256 MiB. Others have a sixteenth of it besides
	BodyMemory   int
	Conns        int           // connections at a time; default 2048
	AddressConns int           // connections from one address; default 256
	KeyRate      float64       // calls a second with one key; default 20, with bursts of ten seconds' worth
	AddressRate  float64       // calls a second from one address; default 500
	Grace        time.Duration // that a client may need for no bytes at all; default 10 s
	MinRate      float64       // bytes a second that a client must take or send after that; default 16 KiB
	Call         time.Duration // that a handler has for a device; default 30 s
}

func (l *Limits) minSpeed() minSpeed { return minSpeed{l.Grace, l.MinRate} }

// unenrolledMemory is the memory of bodies that no enrolled key has brought.
func (l *Limits) unenrolledMemory() int { return max(l.BodyMemory/16, 4*overheadBytes) }

// overheadBytes is the most bytes of a call that brings no piece, and what is around one.
const overheadBytes = 4 << 10

func or[T int | float64 | time.Duration](x *T, otherwise T) {
	if *x == 0 {
		*x = otherwise
	}
}

func (l *Limits) complete() error {
	or(&l.PieceBytes, 1<<20)
	or(&l.AdminBytes, 64<<20)
	or(&l.BodyMemory, 256<<20)
	or(&l.Conns, 2048)
	or(&l.AddressConns, 256)
	or(&l.KeyRate, 20)
	or(&l.AddressRate, 500)
	or(&l.Grace, 10*time.Second)
	or(&l.MinRate, 16<<10)
	or(&l.Call, 30*time.Second)
	if l.PieceBytes < 1024 || l.PieceBytes > maxResponseBytes/2 || l.Grace < 0 || !(l.MinRate > 0) ||
		l.AdminBytes < 0 ||
		l.BodyMemory < l.PieceBytes {
		return fmt.Errorf("rpc: limits %+v: want pieces of 1024 to %d bytes, memory for one of them, and a grace "+
			"and a rate above 0", *l, maxResponseBytes/2)
	}
	return nil
}

// Config is what a server needs of a coordinator.
type Config struct {
	Federation pbconnect.FederationHandler
	Admin      pbconnect.AdminHandler // nil for none
	ID         []byte                 // of the federation
	// Lookup is the seat of a key, or Refuse with UnknownKey or Revoked. It is asked
	// before anything of the body is read, by many goroutines.
	Lookup func(key [32]byte) (seat uint32, err error)
	// AdminToken is what an operator must bring. Empty refuses all.
	AdminToken func() string
	// Now is the clock that times of requests are held against; nil means time.Now. Times
	// up to a little after Start are refused, so that nothing from before a restart is
	// taken again; zero means now. Clients learn from Hello which times are taken.
	Now    func() time.Time
	Start  time.Time
	Limits Limits
	// Wrap may wrap the handler, outside of everything: what a browser asks before it
	// calls another origin would be answered there.
	Wrap func(http.Handler) http.Handler
	// Fault is told errors of handlers that carry no code word, and panics; their text
	// does not travel. It may be nil.
	Fault func(procedure string, err error)
}

// Server is the guarded way to a coordinator's handlers.
type Server struct {
	config      Config
	limits      Limits
	start       int64
	next        http.Handler
	errors      *connect.ErrorWriter
	addressRate *buckets[netip.Prefix]
	keyRate     *buckets[[32]byte]
	replay      replayGuard
	inFlight    inFlight
	memory      memoryBudget // of bodies whose key has a seat
	unenrolled  memoryBudget // of all others

	mu      sync.Mutex
	refused map[string]uint64
}

// NewServer checks a config.
func NewServer(c Config) (*Server, error) {
	if c.Federation == nil || c.Lookup == nil {
		return nil, errors.New("rpc: a server needs the federation's handlers and a look-up of keys")
	}
	if len(c.ID) != wire.IDBytes {
		return nil, fmt.Errorf("rpc: a federation with an id of %d bytes: want %d", len(c.ID), wire.IDBytes)
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
	l := c.Limits
	s := &Server{
		config: c, limits: l, start: c.Start.UnixMilli(), errors: connect.NewErrorWriter(),
		refused:     map[string]uint64{},
		addressRate: newBuckets[netip.Prefix](rate{l.AddressRate, 10 * l.AddressRate}, 1<<16),
		keyRate:     newBuckets[[32]byte](rate{l.KeyRate, 10 * l.KeyRate}, 1<<16),
		replay:      replayGuard{last: map[[32]byte]int64{}}, inFlight: inFlight{of: map[[32]byte]int{}},
	}
	s.memory.left.Store(int64(l.BodyMemory))
	s.unenrolled.left.Store(int64(l.unenrolledMemory()))
	options := func(most int) []connect.HandlerOption {
		return []connect.HandlerOption{
			connect.WithReadMaxBytes(most), connect.WithCompression("gzip", nil, nil),
			connect.WithRecover(s.panicked), connect.WithInterceptors(&errorFilter{s}),
		}
	}
	mux := http.NewServeMux()
	mux.Handle(pbconnect.NewFederationHandler(&helloHandler{c.Federation, s}, options(l.PieceBytes+overheadBytes)...))
	if c.Admin != nil {
		mux.Handle(pbconnect.NewAdminHandler(c.Admin, options(l.AdminBytes)...))
	}
	s.next = mux
	return s, nil
}

// Handler is the guarded handler, for a server of one's own. It relies on that server
// for the time that headers may take: HTTP makes one that is complete.
func (s *Server) Handler() http.Handler {
	h := http.Handler(http.HandlerFunc(s.serveHTTP))
	if s.config.Wrap != nil {
		h = s.config.Wrap(h)
	}
	return h
}

// HTTP is a server for HTTP/1.1 and 2. Serve it with ServeTLS on s.Listener, or with
// Serve where the config is nil, which is what insecure means. Its ErrorLog is the
// caller's to set.
func (s *Server) HTTP(secure *tls.Config) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure != nil)
	whole := s.limits.minSpeed().after(s.limits.PieceBytes + overheadBytes)
	return &http.Server{
		Handler: s.Handler(), TLSConfig: secure, Protocols: protocols,
		ReadHeaderTimeout: s.limits.Grace,
		// The two are for requests that never reach a handler; those that do have
		// deadlines of their own, which move as bytes move.
		ReadTimeout: whole, WriteTimeout: whole + s.limits.Call,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250, MaxReceiveBufferPerConnection: 1 << 18, MaxReceiveBufferPerStream: 1 << 18,
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: s.limits.Grace +
				20*time.Second,
		},
	}
}

// Refused is how many requests were refused, by code word; "connections" are those that
// were too many.
func (s *Server) Refused() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

func (s *Server) count(word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[word]++
}

func (s *Server) panicked(_ context.Context, spec connect.Spec, _ http.Header, what any) error {
	return s.fault(spec.Procedure, Panicked, fmt.Errorf("panic: %v", what))
}

func (s *Server) fault(procedure, word string, err error) error {
	if s.config.Fault != nil {
		s.config.Fault(procedure, err)
	}
	return Refuse(word, connect.CodeInternal, "the coordinator has a fault; it was noted there")
}

// helloHandler knows what of the handlers' work is the same for every coordinator.
type helloHandler struct {
	pbconnect.FederationHandler
	server *Server
}

// Hello finds the version that both speak, and says clock and limits.
func (g *helloHandler) Hello(ctx context.Context, q *pb.HelloRequest) (*pb.HelloResponse, error) {
	version := min(q.Newest, wire.NewestVersion)
	if q.Oldest > q.Newest || version < wire.OldestVersion || version < q.Oldest {
		return nil, Refuse(WrongVersion, connect.CodeFailedPrecondition,
			"the device speaks versions %d to %d of the protocol, this coordinator %d to %d: update the older of the two", q.Oldest, q.Newest, wire.OldestVersion, wire.NewestVersion)
	}
	h, err := g.FederationHandler.Hello(ctx, q)
	if err != nil {
		return nil, err
	}
	h.Version, h.Federation, h.NowMs = version, g.server.config.ID, g.server.clock()
	piece := g.server.limits.PieceBytes
	h.Limits = &pb.Limits{BodyBytes: uint32(piece + overheadBytes), PieceBytes: uint32(piece)}
	return h, nil
}

// Enrol sees that the key that is brought is the key that signed.
func (g *helloHandler) Enrol(ctx context.Context, q *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	if who, _ := CallerFrom(ctx); string(who.Key[:]) != string(q.Key) {
		return nil, Refuse(BadSignature, connect.CodeUnauthenticated, "the request is not signed with the key that "+
			"it brings")
	}
	return g.FederationHandler.Enrol(ctx, q)
}

// errorFilter keeps the text of unforeseen errors from travelling, and counts what ends a
// stream.
type errorFilter struct{ server *Server }

func (f *errorFilter) hide(ctx context.Context, procedure string, err error) error {
	if ce := new(connect.Error); err == nil || errors.As(err, &ce) && ce.Meta().Get(codeHeader) != "" {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if errors.Is(ctx.Err(), context.Canceled) {
			return Refuse(CutOff, connect.CodeUnavailable, "the caller went away")
		}
		return Refuse(SlowDown, connect.CodeUnavailable, "there was no time to answer: try again")
	}
	return f.server.fault(procedure, Internal, err)
}

func (f *errorFilter) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		a, err := next(ctx, q)
		return a, f.hide(ctx, q.Spec().Procedure, err)
	}
}

func (f *errorFilter) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (f *errorFilter) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) error {
		err := f.hide(ctx, c.Spec().Procedure, next(ctx, c))
		if err != nil {
			f.server.count(Code(err))
		}
		return err
	}
}
