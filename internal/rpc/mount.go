//go:build !js

package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Mount is a handler for other paths than the device API. It receives every method, after the checks of
// address, operator's token, size (Limits.AdminBytes) and speed.
type Mount struct {
	Prefix string // of the path, such as /admin/v1/
	// Open means that the handler checks itself who calls, with CheckToken. Bodies are then limited to 64 KiB, and the
	// context of a request ends when the server shuts down, so that a stream of events does not delay it.
	Open bool
	// Handler answers a request, or returns an error before it has written anything. The server sends the text of
	// errors made by Refuse only.
	Handler func(w http.ResponseWriter, r *http.Request) error
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
	ctx, limit := context.WithValue(r.Context(), serverKey{}, s), openBytes
	var err error
	if m.Open {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
	} else {
		var operator Operator
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		operator, err = s.checkToken(r, token)
		ctx, limit = operator.Context(ctx), s.limits.AdminBytes
	}
	if err == nil {
		err = checkSize(r, limit)
	}
	if err != nil {
		s.refuseJSON(a, r, err)
		return
	}
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(a.ResponseWriter, newTimedBody(a, r, s.limits.minSpeed()), int64(limit))
	if err := m.Handler(a, r); err != nil {
		if read := new(BodyError); errors.As(err, &read) {
			err = bodyError(r, read.Err)
		}
		s.refuseJSON(a, r, (&errorFilter{s}).hide(r.Context(), r.Method+" "+r.URL.Path, err))
	}
}

// BodyError is what the handler of a mount returns if it cannot read the body of a request.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return e.Err.Error() }

// Operator is who a token of the admin API belongs to.
type Operator struct {
	Name     string
	ReadOnly bool // the token allows only calls that read
}

type (
	operatorKey struct{}
	serverKey   struct{}
)

// openBytes is the largest body of a request to an open mount.
const openBytes = 64 << 10

// Context returns the context of a call that the operator makes.
func (o Operator) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, o)
}

// OperatorFrom returns the operator who makes a call.
func OperatorFrom(ctx context.Context) Operator {
	o, _ := ctx.Value(operatorKey{}).(Operator)
	return o
}

// refuseJSON is refuse for clients that do not use Connect.
func (s *Server) refuseJSON(a *response, r *http.Request, err error) {
	if a.wrote {
		return
	}
	s.prepareRefusal(a, r)
	WriteError(a, err)
}

// WriteError answers a request with an error as JSON: {"error": {"code": "bad_token", "message": "..."}}. The status
// follows from the error's Connect code.
func WriteError(w http.ResponseWriter, err error) {
	code, message := Code(err), err.Error()
	status := http.StatusInternalServerError
	if ce := new(connect.Error); errors.As(err, &ce) {
		message = ce.Message()
		status = cmp.Or(statusOf[ce.Code()], status)
		for k, v := range ce.Meta() {
			w.Header()[k] = v
		}
	}
	if code == Oversized {
		status = http.StatusRequestEntityTooLarge
	}
	w.Header().Set(codeHeader, code)
	w.Header().Set("Content-Type", "application/json")
	var body errorBody
	body.Error.Code, body.Error.Message = code, message
	b, _ := json.Marshal(body)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// errorBody is the body of an answer that is an error.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// statusOf are the HTTP statuses of Connect codes; others are errors of the coordinator.
var statusOf = map[connect.Code]int{
	connect.CodeInvalidArgument:    http.StatusBadRequest,
	connect.CodeOutOfRange:         http.StatusBadRequest,
	connect.CodeUnauthenticated:    http.StatusUnauthorized,
	connect.CodePermissionDenied:   http.StatusForbidden,
	connect.CodeNotFound:           http.StatusNotFound,
	connect.CodeUnimplemented:      http.StatusMethodNotAllowed,
	connect.CodeAlreadyExists:      http.StatusConflict,
	connect.CodeAborted:            http.StatusConflict,
	connect.CodeFailedPrecondition: http.StatusConflict,
	connect.CodeResourceExhausted:  http.StatusTooManyRequests,
	connect.CodeUnavailable:        http.StatusServiceUnavailable,
	connect.CodeDeadlineExceeded:   http.StatusGatewayTimeout,
}

// The wrong tokens of one address: one in 2 seconds on average, with bursts. An address that exceeds them is
// refused without a look at its token, even at the right one.
const (
	wrongTokenRate  = 0.5
	wrongTokenBurst = 10
)

// CheckToken returns the operator whose token an open mount received, in whatever way. It limits wrong tokens by
// address, as the admin API does.
func CheckToken(r *http.Request, token string) (Operator, error) {
	s, ok := r.Context().Value(serverKey{}).(*Server)
	if !ok {
		return Operator{}, errors.New("rpc: CheckToken requires a request of a mount")
	}
	return s.checkToken(r, token)
}

// checkToken returns the operator whose token a request has.
func (s *Server) checkToken(r *http.Request, token string) (Operator, error) {
	from := address(r.RemoteAddr)
	if wait := s.wrongTokens.peek(from, time.Now()); wait > 0 {
		return Operator{}, slowDown(wait, "too many wrong tokens from this address")
	}
	if token != "" && s.config.Authorize != nil {
		if operator, ok := s.config.Authorize(token); ok {
			trustOperator(r.Context())
			return operator, nil
		}
	}
	s.wrongTokens.allow(from, time.Now())
	return Operator{}, Refuse(BadToken, connect.CodeUnauthenticated, "the admin API requires the header "+
		"\"Authorization: Bearer TOKEN\" with an operator's token")
}
