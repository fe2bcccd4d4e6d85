//go:build !js

package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// Caller is the device that signed a request.
type Caller struct {
	Key      [32]byte
	DeviceID uint32       // unknown in Enrol
	Address  netip.Prefix // an IPv4 address, or a network of 64 bits with IPv6
}

type callerKey struct{}

// CallerFrom returns the caller of a request with a valid signature. Only Hello has none.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// serveDevice checks a request of the device API in this order: type, size, header, time, key, signature, replay
// and rate; then it reads the body that was signed. Unsigned bytes are read in Hello only.
func (s *Server) serveDevice(a *response, r *http.Request) error {
	if err := CheckContentType(r, "application/proto"); err != nil {
		return err
	}
	path := r.URL.Path
	limit := overheadBytes
	switch path {
	case pbconnect.FederationReportProcedure, pbconnect.FederationMaskProcedure:
		limit += s.limits.PieceBytes
	case pbconnect.FederationCheckInProcedure:
		limit += min(s.limits.PieceBytes, manifestBytes)
	}
	if err := checkSize(r, limit); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.Call)
	defer cancel()
	var body []byte
	var err error
	if path == pbconnect.FederationHelloProcedure {
		body, err = s.readUnenrolled(a, r, limit)
	} else {
		var done func()
		ctx, body, done, err = s.readSigned(ctx, a, r, limit)
		defer done()
	}
	if err != nil {
		return err
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	s.next.ServeHTTP(a, r)
	return nil
}

// readUnenrolled reads a body of at most size bytes that no enrolled device has signed.
func (s *Server) readUnenrolled(a *response, r *http.Request, size int) ([]byte, error) {
	from, timed := address(r.RemoteAddr), newTimedBody(a, r, s.limits.minSpeed())
	s.unenrolled.begin(from, timed)
	defer s.unenrolled.done(from, timed)
	body, _, err := readBody(timed, size, func(int) bool { return true }) // unenrolled limits the memory
	if err != nil {
		return nil, bodyError(r, err)
	}
	if len(body) > size {
		return nil, errOversized(size)
	}
	return body, nil
}

// readSigned verifies the header of a request and reads the body that it covers. The caller must call done at the end
// of the request, even after an error.
func (s *Server) readSigned(ctx context.Context, a *response, r *http.Request, limit int) (_ context.Context,
	body []byte, done func(), err error,
) {
	done = func() {}
	auth, caller, err := s.verify(r, limit)
	if err != nil {
		return ctx, nil, done, err
	}
	enrols := r.URL.Path == pbconnect.FederationEnrolProcedure
	if !s.inFlight.begin(auth.Key) {
		return ctx, nil, done, slowDown(time.Second, "too many concurrent calls with this key")
	}
	from, held, memory := address(r.RemoteAddr), 0, s.memoryFor(auth.BodyBytes)
	caller.Address = from
	done = func() {
		memory.give(from, held)
		s.inFlight.end(auth.Key)
		if enrols && (err != nil || a.Header().Get(codeHeader) != "") {
			s.replay.forget(auth.Key, auth.TimeMs) // a refused enrolment must not use memory
		}
	}
	if enrols {
		body, err = s.readUnenrolled(a, r, int(auth.BodyBytes))
	} else {
		trust(r.Context(), auth.Key)
		take := func(n int) bool { return memory.take(from, n) }
		body, held, err = readBody(newTimedBody(a, r, s.limits.minSpeed()), int(auth.BodyBytes), take)
		if err != nil {
			err = bodyError(r, err)
		}
	}
	if err == nil && !auth.Covers(body) {
		err = errWrongBody()
	}
	return context.WithValue(ctx, callerKey{}, caller), body, done, err
}

// memoryFor returns the memory for the body of an enrolled device. Small calls have memory of their own, so that
// check-ins do not wait for uploads.
func (s *Server) memoryFor(size int64) *memoryShares {
	if size <= overheadBytes {
		return s.smallBodies
	}
	return s.largeBodies
}

func errWrongBody() error {
	return Refuse(BadSignature, connect.CodeUnauthenticated, "the body is not the one that was signed")
}

func errOversized(limit int) error {
	return Refuse(Oversized, connect.CodeResourceExhausted, "the body exceeds %d bytes", limit)
}

func bodyError(r *http.Request, err error) error {
	var lost *net.OpError
	switch {
	case errors.Is(err, errMemory), errors.Is(err, errEnded):
		return slowDown(time.Second, "too many concurrent calls")
	case isSlow(err):
		return Refuse(TooSlow, connect.CodeUnavailable, "the body arrived too slowly")
	case r.ProtoMajor > 1 || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost):
		return Refuse(CutOff, connect.CodeUnavailable, "the body ended too early")
	}
	return Refuse(Malformed, connect.CodeInvalidArgument, "malformed HTTP body")
}

// verify checks the header of a signed request: that the key is enrolled, the signature valid, the time new and the
// key within its rate limit. Only signed requests change a key's last time or count against its limit.
func (s *Server) verify(r *http.Request, limit int) (*wire.Auth, Caller, error) {
	path := r.URL.Path
	auth, err := wire.ParseAuth(r.Header.Get(authHeader))
	if err != nil {
		return nil, Caller{}, Refuse(BadSignature, connect.CodeUnauthenticated, "%v", err)
	}
	if auth.BodyBytes > int64(limit) {
		return nil, Caller{}, errOversized(limit)
	}
	if r.ContentLength >= 0 && r.ContentLength != auth.BodyBytes {
		return nil, Caller{}, errWrongBody()
	}
	if err := s.checkTime(auth.TimeMs); err != nil {
		return nil, Caller{}, err
	}
	caller := Caller{Key: auth.Key}
	if path != pbconnect.FederationEnrolProcedure {
		if caller.DeviceID, err = s.config.Lookup(auth.Key); err != nil {
			return nil, Caller{}, (&errorFilter{s}).hide(r.Context(), path, err)
		}
	}
	if !auth.Verify(s.config.ID, path) {
		return nil, Caller{}, Refuse(BadSignature, connect.CodeUnauthenticated,
			"the signature does not match the request")
	}
	if last, ok := s.replay.accept(auth.Key, auth.TimeMs, s.requests.now()); !ok {
		return nil, Caller{}, timeError(Replayed, max(s.clock(), last+1), "the time of the request is %d ms before "+
			"the key's last request: times must increase", last-auth.TimeMs)
	}
	if err := s.requests.keepAhead(); err != nil {
		// The request is accepted: after a restart its time could only be used again if the wall clock is set back.
		s.fault(path, Internal, fmt.Errorf("cannot save the clock of requests: %w", err))
	}
	if wait := s.keyRate.allow(auth.Key, time.Now()); wait > 0 {
		return nil, Caller{}, slowDown(wait, "too many calls with this key")
	}
	return auth, caller, nil
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
