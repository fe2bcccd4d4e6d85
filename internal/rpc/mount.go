package rpc

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Mount is a handler for other paths than the device API. It receives every method, after the checks of
// address, size and speed.
type Mount struct {
	Prefix  string // of the path, such as /admin/v1/
	Handler http.Handler
	// Open lets anyone call the handler, with bodies of at most 4 KiB. Otherwise requests need the operator's
	// token and their bodies may have Limits.AdminBytes.
	Open bool
}

// mountOf returns the mount of a path, or nil.
func (s *Server) mountOf(path string) *Mount {
	for i := range s.config.Mounts {
		if m := &s.config.Mounts[i]; strings.HasPrefix(path, m.Prefix) {
			return m
		}
	}
	return nil
}

// serveMount checks a request and passes it to its handler.
func (s *Server) serveMount(a *response, r *http.Request, m *Mount) {
	limit := overheadBytes
	if !m.Open {
		if err := s.checkToken(r); err != nil {
			s.refuseJSON(a, r, err)
			return
		}
		limit = s.limits.AdminBytes
	}
	if err := checkSize(r, limit); err != nil {
		s.refuseJSON(a, r, err)
		return
	}
	r.Body = http.MaxBytesReader(a.ResponseWriter, newTimedBody(a, r, s.limits.minSpeed()), int64(limit))
	m.Handler.ServeHTTP(a, r)
}

// refuseJSON is refuse for clients that do not use Connect.
func (s *Server) refuseJSON(a *response, r *http.Request, err error) {
	if a.wrote {
		return
	}
	s.prepareRefusal(a, r)
	WriteError(a, err)
}

// WriteError answers a request with an error as JSON: {"code": "bad_token", "message": "..."}. The status follows
// from the error's Connect code.
func WriteError(w http.ResponseWriter, err error) {
	code, message := Code(err), err.Error()
	status := http.StatusInternalServerError
	if ce := new(connect.Error); errors.As(err, &ce) {
		message = ce.Message()
		status = statusOf(ce.Code())
		for k, v := range ce.Meta() {
			w.Header()[k] = v
		}
	}
	if code == Oversized {
		status = http.StatusRequestEntityTooLarge
	}
	w.Header().Set(codeHeader, code)
	w.Header().Set("Content-Type", "application/json")
	b, _ := json.Marshal(map[string]string{"code": code, "message": message})
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// statusOf returns the HTTP status of a Connect code.
func statusOf(c connect.Code) int {
	switch c {
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeAlreadyExists, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// The wrong tokens of one address: one in 2 seconds on average, with bursts. An address that exceeds them is
// refused without a look at its token, even at the right one.
const (
	wrongTokenRate  = 0.5
	wrongTokenBurst = 10
)

// checkToken checks the operator's token.
func (s *Server) checkToken(r *http.Request) error {
	from := address(r.RemoteAddr)
	if wait := s.wrongTokens.peek(from, time.Now()); wait > 0 {
		return slowDown(wait, "too many wrong tokens from this address")
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	expected := ""
	if s.config.AdminToken != nil {
		expected = s.config.AdminToken()
	}
	// Hashes have the same length, so that the time of the comparison does not reveal the token's.
	got := sha256.Sum256([]byte(token))
	must := sha256.Sum256([]byte(expected))
	if same := subtle.ConstantTimeCompare(got[:], must[:]); !ok || expected == "" || same != 1 {
		s.wrongTokens.allow(from, time.Now())
		return Refuse(BadToken, connect.CodeUnauthenticated, "the admin API requires the header \"Authorization: "+
			"Bearer TOKEN\" with the operator's token")
	}
	return nil
}
