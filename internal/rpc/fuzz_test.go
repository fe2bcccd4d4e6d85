package rpc

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

var procedures = []string{
	pbconnect.FederationHelloProcedure, pbconnect.FederationEnrolProcedure, pbconnect.FederationCheckInProcedure,
	pbconnect.FederationFetchProcedure,
	pbconnect.FederationReportProcedure, pbconnect.FederationMaskProcedure, pbconnect.FederationLeaveProcedure,
	AdminPrefix + "echo", AdminPrefix + "blob", AdminPrefix + "nothing", "/", "/tacit.v1.Federation/Rows",
}

var types = []string{
	"application/proto", "application/json", "application/connect+proto", "application/grpc",
	"application/grpc-web+proto", "",
}

// quiet is a fakeCoordinator that never panics on purpose.
type quiet struct{ *fakeCoordinator }

func (q quiet) Leave(context.Context, *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	return &pb.LeaveResponse{}, nil
}

// bench is a handler whose clock advances with each request.
func bench(t testing.TB, key ed25519.PrivateKey) (*fakeCoordinator, *Server, *atomic.Int64) {
	st := newFakeCoordinator(key)
	st.blob = []byte("blob")
	clock := &atomic.Int64{}
	clock.Store(1_800_000_000_000)
	c := st.config(Limits{PieceBytes: 1 << 12, AdminBytes: 1 << 12, AddressRate: -1, KeyRate: -1})
	c.Federation, c.Start = quiet{st}, time.UnixMilli(1_700_000_000_000)
	c.Now = func() time.Time { return time.UnixMilli(clock.Load()) }
	c.elapsed = func() time.Duration { return time.Duration(clock.Load()-1_800_000_000_000) * time.Millisecond }
	return st, must[*Server](t)(NewServer(c)), clock
}

func FuzzRPC(f *testing.F) {
	key := keyOf(1)
	public := fixed(key)
	for i, m := range []proto.Message{
		&pb.HelloRequest{Oldest: 1, Newest: 2}, &pb.EnrolRequest{Token: "token", Key: public[:]},
		&pb.CheckInRequest{ModelVersion: 3}, &pb.FetchRequest{Hash: hashOf([]byte("blob"))},
		&pb.ReportRequest{Digest: hashOf([]byte("x")), Bytes: 1, Data: []byte("x")},
		&pb.MaskRequest{Step: 1, Message: []byte("x"), Bytes: 1}, &pb.LeaveRequest{},
	} {
		b := must[[]byte](f)(proto.Marshal(m))
		f.Add(uint8(i), uint8(0), true, "", b)
	}
	f.Add(uint8(4), uint8(0), false, wire.SignRequest(key, federation, procedures[4], 1_800_000_000_001,
		[wire.NonceBytes]byte{}, nil), []byte("body"))
	f.Add(uint8(14), uint8(2), true, "", []byte{0, 0, 0, 0, 0})
	f.Add(uint8(2), uint8(0), true, "", bytes.Repeat([]byte{255}, 5000))
	st, s, clock := bench(f, key)
	h := s.Handler()
	f.Fuzz(func(t *testing.T, which, kind uint8, sign bool, auth string, body []byte) {
		path := procedures[int(which)%len(procedures)]
		r := httptest.NewRequest(http.MethodPost, "https://x"+path, bytes.NewReader(body))
		r.Header.Set("Content-Type", types[int(kind)%len(types)])
		now := clock.Add(1)
		if sign {
			auth = wire.SignRequest(key, federation, path, now, [wire.NonceBytes]byte{}, body)
			r.Header.Set("Authorization", "Bearer operator")
		}
		r.Header.Set(authHeader, auth)
		before, calls := s.Refused(), st.calls.Load()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		after := s.Refused()
		if after[Panicked] != before[Panicked] {
			t.Fatalf("%s panics: %q", path, st.faults)
		}
		if word := w.Header().Get(codeHeader); (w.Code >= 400) != (word != "") || word != "" &&
			after[word] == before[word] {
			t.Fatalf("%s: status %d with word %q, counted %d times before and %d after", path, w.Code, word,
				before[word], after[word])
		}
		if !sign && st.calls.Load() != calls {
			t.Fatalf("%s reached a handler without a signature", path)
		}
		whole := s.limits.BodyMemory
		if left := s.smallBodies.left() + s.largeBodies.left(); left != whole-whole/8+max(whole/8, 16*overheadBytes) ||
			len(s.smallBodies.held)+len(s.largeBodies.held) != 0 {
			t.Fatalf("%s holds memory after its end: %d is left", path, left)
		}
		if s.unenrolled.all != 0 || len(s.unenrolled.calls) != 0 || len(s.inFlight.calls) != 0 {
			t.Fatalf("%s: %d strangers and %d keys are in flight after its end", path, s.unenrolled.all,
				len(s.inFlight.calls))
		}
		if len(s.replay.last) > 2 {
			t.Fatalf("%d keys are remembered", len(s.replay.last))
		}
		clear(st.parts)
		st.faults = st.faults[:0]
	})
}

// Whatever a server answers, a client returns an error or a message.
func FuzzResponse(f *testing.F) {
	f.Add(200, "application/proto", "", "", must[[]byte](f)(proto.Marshal(&pb.FetchResponse{Data: []byte("x")})))
	f.Add(401, "application/json", StaleTime, "99999999999999", []byte(`{"code":"unauthenticated","message":"x"}`))
	f.Add(503, "text/html", "", "", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, kind, word, clock string, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		c := must[*Client](t)(Dial(Options{URL: "https://x", Key: keyOf(1), Tries: 2, RetryDelay: 1}))
		c.hello = &pb.HelloResponse{Federation: federation}
		sent := 0
		c.signer.send = func(*http.Request, []byte) (*http.Response, error) {
			if sent++; sent > 4 {
				t.Fatal("a call has no end")
			}
			w := httptest.NewRecorder()
			for k, v := range map[string]string{
				"Content-Type": kind, codeHeader: word, clockHeader: clock,
				"Retry-After": "0",
			} {
				w.Header()[k] = []string{v}
			}
			w.Code = status
			w.Body.Write(body)
			return w.Result(), nil
		}
		_, err := c.Fetch(context.Background(), &pb.FetchRequest{Hash: hashOf([]byte("x"))})
		_ = Code(err)
	})
}
