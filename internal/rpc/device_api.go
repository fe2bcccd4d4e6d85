package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// The time of a request may be so far behind the server's clock, and ahead of it. A server
// takes no time that one before it may have taken: those end ahead of its start.
const (
	window = 2 * time.Minute
	ahead  = 10 * time.Second
)

// Caller is who signed a request.
type Caller struct {
	Key      [32]byte
	DeviceID uint32 // not known yet in Enrol
}

type callerKey struct{}

// CallerFrom is the caller of a request whose signature holds. Only Hello has none.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// replayGuard are the last times of keys. One that is out of the window anyhow is forgotten,
// so that there are never more than keys that called within it.
type replayGuard struct {
	mu    sync.Mutex
	last  map[[32]byte]int64
	sweep int64
}

// accept takes a time that is later than the last one, or says the last one.
func (t *replayGuard) accept(key [32]byte, ms, now int64) (last int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if past := now - window.Milliseconds(); t.sweep < past {
		t.sweep = now
		for k, ms := range t.last {
			if ms < past {
				delete(t.last, k)
			}
		}
	}
	if last, ok := t.last[key]; ok && ms <= last {
		return last, false
	}
	t.last[key] = ms
	return ms, true
}

func (t *replayGuard) forget(key [32]byte, ms int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[key] == ms {
		delete(t.last, key)
	}
}

// maxInFlight is how many calls of one key may be in flight: a device makes one at a time,
// and one that it makes again may meet the rest of the first.
const maxInFlight = 2

// inFlight counts the calls of keys that are in flight. Keys without any are not kept.
type inFlight struct {
	mu sync.Mutex
	of map[[32]byte]int
}

func (f *inFlight) begin(key [32]byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[key] >= maxInFlight {
		return false
	}
	f.of[key]++
	return true
}

func (f *inFlight) end(key [32]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[key]--; f.of[key] <= 0 {
		delete(f.of, key)
	}
}

// serveHTTP is the way of every request: each step may end it.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	a := &response{ResponseWriter: w, server: s, ctl: http.NewResponseController(w)}
	_ = a.ctl.SetWriteDeadline(time.Time{}) // it is set when there is something to write
	defer func() {
		switch what := recover(); {
		case what == nil:
		case what == http.ErrAbortHandler:
			panic(what)
		default:
			s.refuse(a, r, s.fault(r.URL.Path, Panicked, fmt.Errorf("panic: %v", what)))
		}
	}()
	if wait := s.addressRate.take(address(r.RemoteAddr), time.Now()); wait > 0 {
		s.refuse(a, r, slowDown(wait, "too many calls from this address"))
		return
	}
	var err error
	switch {
	case r.Method != http.MethodPost:
		err = Refuse(Malformed, connect.CodeUnimplemented, "this is a coordinator of Tacit; devices and operators "+
			"call it with POST")
	case strings.HasPrefix(r.URL.Path, "/"+pbconnect.AdminName+"/") && s.config.Admin != nil:
		err = s.serveAdmin(a, r)
	case strings.HasPrefix(r.URL.Path, "/"+pbconnect.FederationName+"/"):
		err = s.serveDevice(a, r)
	default:
		err = Refuse(Malformed, connect.CodeUnimplemented, "there is no such procedure")
	}
	if err != nil {
		s.refuse(a, r, err)
	}
}

// refuse answers with an error. What is left of the body gets a second to come: it is
// read, if it is short, so that the connection may be used again.
func (s *Server) refuse(a *response, r *http.Request, err error) {
	if a.wrote {
		return
	}
	_ = a.ctl.SetReadDeadline(time.Now().Add(time.Second))
	if r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > 64<<10) {
		a.Header().Set("Connection", "close")
	}
	// A stream is refused at its end, with status 200, and whatever is not Connect's
	// is refused as if it were.
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
		s.count(Code(err))
	} else {
		r.Header.Set("Content-Type", "application/proto")
	}
	_ = s.errors.Write(a, r, err)
}

func slowDown(wait time.Duration, why string) error {
	err := Refuse(SlowDown, connect.CodeUnavailable, "%s: try again in %.1f s", why, wait.Seconds())
	var ce *connect.Error
	if errors.As(err, &ce) {
		ce.Meta().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
	}
	return err
}

func contentType(r *http.Request, want ...string) error {
	got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !slices.Contains(want, strings.TrimSpace(got)) {
		return Refuse(Malformed, connect.CodeInvalidArgument, "content of type %.40q: want %s", got,
			strings.Join(want, " or "))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return Refuse(Malformed, connect.CodeInvalidArgument, "nothing here is compressed")
	}
	return nil
}

// checkSize sees how long a body says it is.
func checkSize(r *http.Request, most int) error {
	if r.ContentLength > int64(most) {
		return Refuse(Oversized, connect.CodeResourceExhausted, "a body of %d bytes: want at most %d", r.ContentLength,
			most)
	}
	return nil
}

// serveAdmin lets an operator through.
func (s *Server) serveAdmin(a *response, r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want := ""
	if s.config.AdminToken != nil {
		want = s.config.AdminToken()
	}
	// Hashes have one length, so that the time tells nothing of the token's.
	got, must := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want))
	if same := subtle.ConstantTimeCompare(got[:], must[:]); !ok || want == "" || same != 1 {
		return Refuse(BadToken, connect.CodeUnauthenticated, "an operator's call needs the header Authorization: "+
			"Bearer and the token")
	}
	if err := contentType(r, "application/proto", "application/json", "application/connect+proto",
		"application/connect+json"); err != nil {
		return err
	}
	if err := checkSize(r, s.limits.AdminBytes); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(a.ResponseWriter, newTimedBody(a, r, s.limits.minSpeed()), int64(s.limits.AdminBytes))
	s.next.ServeHTTP(a, r)
	return nil
}

// serveDevice lets a device through: its header, its key, its body, its signature, its time.
func (s *Server) serveDevice(a *response, r *http.Request) error {
	if err := contentType(r, "application/proto"); err != nil {
		return err
	}
	path, most := r.URL.Path, overheadBytes
	switch path {
	case pbconnect.FederationReportProcedure, pbconnect.FederationMaskProcedure:
		most += s.limits.PieceBytes
	}
	if err := checkSize(r, most); err != nil {
		return err
	}
	var auth *wire.Auth
	var who Caller
	if path != pbconnect.FederationHelloProcedure {
		var err error
		if auth, who, err = s.identify(r, path); err != nil {
			return err
		}
		if !s.inFlight.begin(auth.Key) {
			return slowDown(time.Second, "too many calls at once with this key")
		}
		defer s.inFlight.end(auth.Key)
	}
	// Nothing is believed yet: a key that has a seat can take the memory of its few calls,
	// and whoever has none shares a small part of it with all others who have none.
	memory := &s.memory
	if auth == nil || path == pbconnect.FederationEnrolProcedure {
		memory = &s.unenrolled
	}
	body, held, err := readBody(http.MaxBytesReader(a.ResponseWriter, newTimedBody(a, r, s.limits.minSpeed()),
		int64(most)), most, memory)
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
		ctx = context.WithValue(ctx, callerKey{}, who)
	}
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	s.next.ServeHTTP(a, r)
	if auth != nil && path == pbconnect.FederationEnrolProcedure && a.Header().Get(codeHeader) != "" {
		s.replay.forget(auth.Key, auth.TimeMs) // a stranger who was refused leaves nothing here
	}
	return nil
}

func bodyError(r *http.Request, err error) error {
	var long *http.MaxBytesError
	var lost *net.OpError
	switch {
	case errors.As(err, &long):
		return Refuse(Oversized, connect.CodeResourceExhausted, "a body of more than %d bytes", long.Limit)
	case errors.Is(err, errMemory):
		return slowDown(time.Second, "too many calls at once")
	case isSlow(err):
		return Refuse(TooSlow, connect.CodeUnavailable, "the body came too slowly")
	case r.ProtoMajor > 1 || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost):
		return Refuse(CutOff, connect.CodeUnavailable, "the body ended too early")
	}
	return Refuse(Malformed, connect.CodeInvalidArgument, "the body is no body of HTTP") // chunks without a length
}

// identify reads the header of a signed request, and looks its key up. Nothing is
// believed yet.
func (s *Server) identify(r *http.Request, path string) (*wire.Auth, Caller, error) {
	auth, err := wire.ParseAuth(r.Header.Get(authHeader))
	if err != nil {
		return nil, Caller{}, Refuse(BadSignature, connect.CodeUnauthenticated, "%v", err)
	}
	if err := s.checkTime(auth.TimeMs); err != nil {
		return nil, Caller{}, err
	}
	who := Caller{Key: auth.Key}
	if path == pbconnect.FederationEnrolProcedure {
		return auth, who, nil
	}
	if who.DeviceID, err = s.config.Lookup(auth.Key); err != nil {
		return nil, Caller{}, (&errorFilter{s}).hide(r.Context(), path, err)
	}
	return auth, who, nil
}

// clock is a time that is taken now.
func (s *Server) clock() int64 {
	return max(s.config.Now().UnixMilli(), s.start+ahead.Milliseconds())
}

func (s *Server) checkTime(ms int64) error {
	now := s.config.Now().UnixMilli()
	switch {
	case ms < now-window.Milliseconds() || ms > now+ahead.Milliseconds():
		return s.timeError(StaleTime, s.clock(), "the time of the request is %d ms from the coordinator's clock: want "+
			"%d behind to %d ahead", ms-now, window.Milliseconds(), ahead.Milliseconds())
	case ms < s.start+ahead.Milliseconds():
		return s.timeError(StaleTime, s.clock(), "the time of the request is one that may have been used before the "+
			"coordinator was started")
	}
	return nil
}

func (s *Server) timeError(word string, clock int64, format string, args ...any) error {
	err := Refuse(word, connect.CodeUnauthenticated, format, args...)
	var ce *connect.Error
	if errors.As(err, &ce) {
		ce.Meta().Set(clockHeader, strconv.FormatInt(clock, 10))
	}
	return err
}

// verify checks the signature, and then that the time is new and the key not too busy.
// Only what is signed moves a key's time, or uses up its rate.
func (s *Server) verify(auth *wire.Auth, path string, body []byte) error {
	if !auth.Verify(s.config.ID, path, body) {
		return Refuse(BadSignature, connect.CodeUnauthenticated, "the signature does not hold for this request")
	}
	// The body took its time: what was timely may not be so any more, and its key's
	// last time may be forgotten.
	if err := s.checkTime(auth.TimeMs); err != nil {
		return err
	}
	now := s.config.Now().UnixMilli()
	if last, ok := s.replay.accept(auth.Key, auth.TimeMs, now); !ok {
		return s.timeError(Replayed, max(s.clock(), last+1), "the time of the request is %d ms before the key's last "+
			"one: a request counts once", last-auth.TimeMs)
	}
	if wait := s.keyRate.take(auth.Key, time.Now()); wait > 0 {
		return slowDown(wait, "too many calls with this key")
	}
	return nil
}
