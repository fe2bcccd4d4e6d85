package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// Caller is the device that signed a request.
type Caller struct {
	Key      [32]byte
	DeviceID uint32 // unknown in Enrol
}

type callerKey struct{}

// CallerFrom returns the caller of a request with a valid signature. Only Hello has none.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// serveDevice checks a request of the device API in this order: header, key, body, signature, time.
func (s *Server) serveDevice(a *response, r *http.Request) error {
	if err := CheckContentType(r, "application/proto"); err != nil {
		return err
	}
	path := r.URL.Path
	limit := overheadBytes
	switch path {
	case pbconnect.FederationReportProcedure, pbconnect.FederationMaskProcedure:
		limit += s.limits.PieceBytes
	}
	if err := checkSize(r, limit); err != nil {
		return err
	}
	var auth *wire.Auth
	var caller Caller
	if path != pbconnect.FederationHelloProcedure {
		var err error
		auth, caller, err = s.identify(r, path)
		if err != nil {
			return err
		}
		if !s.inFlight.begin(auth.Key) {
			return slowDown(time.Second, "too many concurrent calls with this key")
		}
		defer s.inFlight.end(auth.Key)
	}
	// The signature is not verified yet. Requests without an enrolled key share a small part of the
	// memory, so that they cannot use up the memory of enrolled devices.
	memory := &s.memory
	if auth == nil || path == pbconnect.FederationEnrolProcedure {
		memory = &s.unenrolled
	}
	timed := newTimedBody(a, r, s.limits.minSpeed())
	body, held, err := readBody(http.MaxBytesReader(a.ResponseWriter, timed, int64(limit)), limit, memory)
	defer memory.give(held)
	if err != nil {
		return bodyError(r, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Call)
	defer cancel()
	if auth != nil {
		if err := s.verify(auth, path, body); err != nil {
			return err
		}
		ctx = context.WithValue(ctx, callerKey{}, caller)
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	s.next.ServeHTTP(a, r)
	if auth != nil && path == pbconnect.FederationEnrolProcedure && a.Header().Get(codeHeader) != "" {
		s.replay.forget(auth.Key, auth.TimeMs) // a refused enrolment must not use memory
	}
	return nil
}

func bodyError(r *http.Request, err error) error {
	var long *http.MaxBytesError
	var lost *net.OpError
	switch {
	case errors.As(err, &long):
		return Refuse(Oversized, connect.CodeResourceExhausted, "the body exceeds %d bytes", long.Limit)
	case errors.Is(err, errMemory):
		return slowDown(time.Second, "too many concurrent calls")
	case isSlow(err):
		return Refuse(TooSlow, connect.CodeUnavailable, "the body arrived too slowly")
	case r.ProtoMajor > 1 || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost):
		return Refuse(CutOff, connect.CodeUnavailable, "the body ended too early")
	}
	return Refuse(Malformed, connect.CodeInvalidArgument, "malformed HTTP body")
}

// identify parses the header of a signed request and looks up its key. The signature is not verified
// yet.
func (s *Server) identify(r *http.Request, path string) (*wire.Auth, Caller, error) {
	auth, err := wire.ParseAuth(r.Header.Get(authHeader))
	if err != nil {
		return nil, Caller{}, Refuse(BadSignature, connect.CodeUnauthenticated, "%v", err)
	}
	if err := s.checkTime(auth.TimeMs); err != nil {
		return nil, Caller{}, err
	}
	caller := Caller{Key: auth.Key}
	if path == pbconnect.FederationEnrolProcedure {
		return auth, caller, nil
	}
	caller.DeviceID, err = s.config.Lookup(auth.Key)
	if err != nil {
		return nil, Caller{}, (&errorFilter{s}).hide(r.Context(), path, err)
	}
	return auth, caller, nil
}

// verify checks the signature, then that the time is new and the key within its rate limit. Only
// signed requests change a key's last time or count against its limit.
func (s *Server) verify(auth *wire.Auth, path string, body []byte) error {
	if !auth.Verify(s.config.ID, path, body) {
		return Refuse(BadSignature, connect.CodeUnauthenticated, "the signature does not match the request")
	}
	// Reading the body took time: check the time again, because the key's last time may have been
	// forgotten meanwhile.
	if err := s.checkTime(auth.TimeMs); err != nil {
		return err
	}
	now := s.config.Now().UnixMilli()
	if last, ok := s.replay.accept(auth.Key, auth.TimeMs, now); !ok {
		return timeError(Replayed, max(s.clock(), last+1), "the time of the request is %d ms before the key's last "+
			"request: times must increase", last-auth.TimeMs)
	}
	if wait := s.keyRate.allow(auth.Key, time.Now()); wait > 0 {
		return slowDown(wait, "too many calls with this key")
	}
	return nil
}

// deviceHandler adds to a coordinator's handler what is the same for every coordinator.
type deviceHandler struct {
	pbconnect.FederationHandler
	server *Server
}

// Hello negotiates the protocol version, and adds clock and limits to the answer.
func (h *deviceHandler) Hello(ctx context.Context, q *pb.HelloRequest) (*pb.HelloResponse, error) {
	version := min(q.Newest, wire.NewestVersion)
	if q.Oldest > q.Newest || version < wire.OldestVersion || version < q.Oldest {
		return nil, Refuse(WrongVersion, connect.CodeFailedPrecondition,
			"the device supports protocol versions %d to %d, this coordinator %d to %d: update the older of the two",
			q.Oldest, q.Newest, wire.OldestVersion, wire.NewestVersion)
	}
	a, err := h.FederationHandler.Hello(ctx, q)
	if err != nil {
		return nil, err
	}
	piece := h.server.limits.PieceBytes
	a.Version = version
	a.Federation = h.server.config.ID
	a.NowMs = h.server.clock()
	a.Limits = &pb.Limits{BodyBytes: uint32(piece + overheadBytes), PieceBytes: uint32(piece)}
	return a, nil
}

// Enrol checks that the enrolled key signed the request.
func (h *deviceHandler) Enrol(ctx context.Context, q *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	if caller, _ := CallerFrom(ctx); string(caller.Key[:]) != string(q.Key) {
		return nil, Refuse(BadSignature, connect.CodeUnauthenticated, "the enrolled key did not sign the request")
	}
	return h.FederationHandler.Enrol(ctx, q)
}
