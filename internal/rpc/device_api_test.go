package rpc

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// A device can show the largest manifest that a coordinator may sign.
func TestTheLargestManifestCanBeShown(t *testing.T) {
	hash := make([]byte, wire.HashBytes)
	blob := func() *pb.Blob { return &pb.Blob{Hash: hash, Bytes: wire.MaxBlobBytes} }
	m := &pb.Manifest{Federation: make([]byte, 16), Run: make([]byte, 16), Version: 1 << 60, LedgerHead: hash}
	for range 256 {
		m.Slots = append(m.Slots, blob())
		m.Patches = append(m.Patches, &pb.Patch{Base: blob(), Target: hash, Patch: blob()})
	}
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	key := keyOf(1)
	s := newFakeCoordinator(key).open(t, Limits{}, false)
	held := &pb.SignedManifest{Body: body, Signature: make([]byte, 64)}
	now := time.Now()
	if word, status := s.post(t, signed(key, checkIn, now, &pb.CheckInRequest{Held: held})); status != 200 {
		t.Errorf("a manifest of %d bytes is refused: %d %s", len(body), status, word)
	}
	held.Body = make([]byte, 100<<10)
	q := signed(key, checkIn, now.Add(time.Second), &pb.CheckInRequest{Held: held})
	if word, _ := s.post(t, q); word != Oversized {
		t.Errorf("100 KiB are answered with %q, want %s", word, Oversized)
	}
}

func TestOnlySignedAndNewRequestsReachAHandler(t *testing.T) {
	key, other := keyOf(1), keyOf(2)
	s := newFakeCoordinator(key, other).open(t, Limits{}, false)
	now := time.Now()
	good := signed(key, checkIn, now, &pb.CheckInRequest{})
	if word, status := s.post(t, good); status != 200 {
		t.Fatalf("a signed request is refused: %d %s", status, word)
	}
	calls := s.calls.Load()
	change := func(q rawRequest, f func(*rawRequest)) rawRequest { f(&q); return q }
	later := signed(key, checkIn, now.Add(time.Second), &pb.CheckInRequest{ModelVersion: 1})
	s.mu.Lock()
	s.revoked[fixed(keyOf(4))] = true
	s.mu.Unlock()
	for _, c := range []struct {
		what string
		q    rawRequest
		want string
	}{
		{"the same again", good, Replayed},
		{"an earlier time", signed(key, checkIn, now.Add(-time.Second), &pb.CheckInRequest{}), Replayed},
		{"another body", change(later, func(q *rawRequest) { q.body = []byte{8, 2} }), BadSignature},
		{"a body that is cut", change(later, func(q *rawRequest) { q.body = nil }), BadSignature},
		{
			"another path", change(later, func(q *rawRequest) { q.path = pbconnect.FederationLeaveProcedure }),
			BadSignature,
		},
		{"no signature", change(later, func(q *rawRequest) { q.auth = "" }), BadSignature},
		{"the key of another", change(later, func(q *rawRequest) {
			q.auth = "v2 " + signed(other, checkIn, now, &pb.CheckInRequest{}).auth[3:67] + q.auth[67:]
		}), BadSignature},
		{"an old time", signed(key, checkIn, now.Add(-3*time.Minute), &pb.CheckInRequest{}), StaleTime},
		{"a time to come", signed(key, checkIn, now.Add(time.Minute), &pb.CheckInRequest{}), StaleTime},
		{"an unknown key", signed(keyOf(3), checkIn, now, &pb.CheckInRequest{}), UnknownKey},
		{"a revoked key", signed(keyOf(4), checkIn, now, &pb.CheckInRequest{}), Revoked},
		{
			"JSON",
			change(later, func(q *rawRequest) { q.header = map[string]string{"Content-Type": "application/json"} }),
			Malformed,
		},
		{
			"gRPC",
			change(later, func(q *rawRequest) { q.header = map[string]string{"Content-Type": "application/grpc"} }),
			Malformed,
		},
		{
			"gzip", change(later, func(q *rawRequest) { q.header = map[string]string{"Content-Encoding": "gzip"} }),
			Malformed,
		},
		{
			"no such call", signed(key, "/tacit.v1.Federation/Rows", now.Add(2*time.Second), &pb.CheckInRequest{}),
			Malformed,
		},
		{"no such service", signed(key, "/elsewhere", now, &pb.CheckInRequest{}), NoSuchPath},
		{"a long body", signed(key, checkIn, now.Add(3*time.Second),
			&pb.CheckInRequest{LastReport: &pb.LastReport{Run: make([]byte, 5000+manifestBytes)}}), Oversized},
	} {
		before := s.server.Refused()[c.want]
		if word, status := s.post(t, c.q); word != c.want || status < 400 {
			t.Errorf("%s: answered %d %q, want %s", c.what, status, word, c.want)
		}
		if got := s.server.Refused()[c.want]; got != before+1 {
			t.Errorf("%s: counted %d times as %s, want once", c.what, got-before, c.want)
		}
	}
	if got := s.calls.Load(); got != calls {
		t.Errorf("%d refused requests reached a handler", got-calls)
	}
	if word, status := s.post(t, signed(key, checkIn, now.Add(3*time.Second), &pb.CheckInRequest{})); status != 200 {
		t.Errorf("after all that, a signed request is refused: %d %s", status, word)
	}
}

// A request that one process accepted is not accepted after a restart, even if its time was ahead of both
// clocks.
func TestRestartAcceptsNoRequestTwice(t *testing.T) {
	key := keyOf(1)
	st := newFakeCoordinator(key)
	old := st.open(t, Limits{}, false)
	q := signed(key, checkIn, time.Now().Add(maxAhead-time.Second), &pb.CheckInRequest{})
	if word, status := old.post(t, q); status != 200 {
		t.Fatalf("%d %s", status, word)
	}
	c := st.config(Limits{})
	c.Start = time.Now()
	next := must[*Server](t)(NewServer(c))
	if err := next.checkTime(old.server.replay.last[fixed(key)]); Code(err) != StaleTime {
		t.Errorf("a time from before the start: %v", err)
	}
	if err := next.checkTime(next.clock()); err != nil {
		t.Errorf("the time that the server says it takes: %v", err)
	}
}

func TestEnrolMustBeSignedWithTheEnrolledKey(t *testing.T) {
	s := newFakeCoordinator().open(t, Limits{}, false)
	key := keyOf(1)
	public := fixed(key)
	now := time.Now()
	other := fixed(keyOf(2))
	if word, _ := s.post(t, signed(key, pbconnect.FederationEnrolProcedure, now, &pb.EnrolRequest{
		Token: "token",
		Key:   other[:],
	})); word != BadSignature {
		t.Errorf("a key of another is enrolled: %q", word)
	}
	if word, _ := s.post(t, signed(key, pbconnect.FederationEnrolProcedure, now,
		&pb.EnrolRequest{Token: "x", Key: public[:]})); word != BadToken {
		t.Errorf("with a bad token: %q", word)
	}
	if n := len(s.server.replay.last); n != 0 {
		t.Errorf("strangers who were refused left %d times behind", n)
	}
	q := signed(key, pbconnect.FederationEnrolProcedure, now, &pb.EnrolRequest{Token: "token", Key: public[:]})
	if word, status := s.post(t, q); status != 200 {
		t.Errorf("%d %s", status, word)
	}
	if word, _ := s.post(t, q); word != Replayed {
		t.Errorf("enrolled again by the same request: %q", word)
	}
}

func TestPanicIsAnErrorAndCounted(t *testing.T) {
	key := keyOf(1)
	s := newFakeCoordinator(key).open(t, Limits{}, true)
	c := s.dial(t, key, nil)
	for range 2 {
		if _, err := c.Leave(context.Background(), &pb.LeaveRequest{}); Code(err) != Panicked {
			t.Errorf("%v", err)
		}
	}
	if n := s.server.Refused()[Panicked]; n != 2 || len(s.faults) != 2 {
		t.Errorf("counted %d times, noted %q", n, s.faults)
	}
	if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Error(err)
	}
}

func TestLimitsTheRateOfEachKeyAndAddress(t *testing.T) {
	b := newRateLimiter[string](2, 3, 2)
	at := time.Unix(100, 0)
	for i := range 3 {
		if b.allow("a", at) != 0 {
			t.Fatalf("call %d of a burst of 3 is refused", i)
		}
	}
	if w := b.allow("a", at); w != 500*time.Millisecond {
		t.Errorf("the fourth may come after %v, want 500ms", w)
	}
	if b.allow("b", at) != 0 || b.allow("a", at.Add(500*time.Millisecond)) != 0 ||
		b.allow("a", at.Add(500*time.Millisecond)) == 0 {
		t.Error("tokens do not come back at their rate, or keys share them")
	}
	// The limiter tracks two keys: all others share one limit.
	for range 3 {
		if b.allow("c", at.Add(time.Second)) != 0 && b.allow("d", at.Add(time.Second)) != 0 {
			t.Error("the shared limit is exhausted too early")
		}
	}
	if len(b.keys) > 2 {
		t.Errorf("%d keys, want at most 2", len(b.keys))
	}
	if b.allow("e", at.Add(time.Hour)) != 0 || len(b.keys) != 1 {
		t.Errorf("keys with a full burst stay: %d", len(b.keys))
	}
	if address("[2001:db8::1]:80") != address("[2001:db8::2]:81") || address("1.2.3.4:5") == address("1.2.3.5:5") ||
		address("[::ffff:1.2.3.4]:5") != address("1.2.3.4:6") {
		t.Error("addresses are not told apart as they should be")
	}

	key := keyOf(1)
	now := time.Now()
	st := newFakeCoordinator(key, keyOf(2))
	st.frozen = now // the clock stands still, so that a slow machine regains no calls meanwhile
	s := st.open(t, Limits{KeyRate: 0.2}, false)
	words := map[string]int{}
	for i := range 4 {
		word, _ := s.post(t, signed(key, checkIn, now.Add(time.Duration(i)*time.Millisecond), &pb.CheckInRequest{}))
		words[word]++
	}
	if words[""] != 2 || words[SlowDown] != 2 {
		t.Errorf("with a burst of 2, 4 calls are answered %v", words)
	}
	if word, status := s.post(t, signed(keyOf(2), checkIn, now, &pb.CheckInRequest{})); status != 200 {
		t.Errorf("another key is slowed down too: %s", word)
	}
}

func TestReplayGuardForgetsOldKeys(t *testing.T) {
	ts := replayGuard{last: map[[32]byte]int64{}}
	for i := range 100 {
		ts.accept([32]byte{byte(i)}, int64(i), int64(i))
	}
	if _, ok := ts.accept([32]byte{1}, 1, 100); ok {
		t.Error("the same time is taken twice")
	}
	if ts.accept([32]byte{200}, 10*maxBehind.Milliseconds(), 10*maxBehind.Milliseconds()); len(ts.last) != 1 {
		t.Errorf("%d times are kept, want 1", len(ts.last))
	}
}

func TestConfigsAreChecked(t *testing.T) {
	good := newFakeCoordinator().config(Limits{})
	for what, change := range map[string]func(*Config){
		"id": func(c *Config) { c.ID = nil }, "handler": func(c *Config) { c.Federation = nil },
		"lookup":      func(c *Config) { c.Lookup = nil },
		"piece":       func(c *Config) { c.Limits.PieceBytes = 10 },
		"large piece": func(c *Config) { c.Limits.PieceBytes = 1 << 30 },
		"rate":        func(c *Config) { c.Limits.MinRate = -1 },
		"memory":      func(c *Config) { c.Limits.BodyMemory = 1 },
	} {
		c := good
		if change(&c); func() bool { _, err := NewServer(c); return err == nil }() {
			t.Errorf("%s: a config is let through", what)
		}
	}
	for _, o := range []Options{
		{URL: "http://a:1"},
		{URL: "https://a:1", Pin: "sha256/x"},
		{URL: "ftp://a"},
		{URL: "https://a:1/path"},
		{URL: "https://u@a:1"},
		{URL: "a:1"},
		{URL: "https://a", Key: make([]byte, 3)},
		{URL: "https://a", Federation: make([]byte, wire.IDBytes+1)},
		{URL: "http://a", Insecure: true, Pin: "sha256/x"},
		{URL: "https://a?b"},
	} {
		if _, err := Dial(o); err == nil {
			t.Errorf("%+v is let through", o)
		}
	}
}
