package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
)

// forge replaces the signature of a request.
func forge(q rawRequest) rawRequest {
	q.auth = q.auth[:len(q.auth)-128] + strings.Repeat("00", 64)
	return q
}

// Whoever knows a device's public key cannot lock it out: the server refuses forged calls before it reads
// their bodies.
func TestForgedSlowCallsDoNotLockADeviceOut(t *testing.T) {
	key := keyOf(1)
	s := newFakeCoordinator(key).open(t, Limits{}, false)
	now := time.Now()
	for i := range 3 * maxInFlight {
		begin(t, s, forge(announced(key, checkIn, now.Add(time.Duration(i)*time.Millisecond), 4000)), 1)
	}
	eventually(t, "refusals", func() bool { return s.server.Refused()[BadSignature] == 3*maxInFlight })
	if word, status := s.post(t, signed(key, checkIn, now, &pb.CheckInRequest{})); status != 200 {
		t.Errorf("the device's own call: %d %s", status, word)
	}
	// Its own slow calls count.
	for i := range maxInFlight {
		begin(t, s, announced(key, checkIn, now.Add(time.Duration(i+1)*time.Second), 4000), 1)
		eventually(t, "a call in flight", func() bool {
			s.server.inFlight.mu.Lock()
			defer s.server.inFlight.mu.Unlock()
			return s.server.inFlight.calls[fixed(key)] == i+1
		})
	}
	word, _ := s.post(t, signed(key, checkIn, now.Add(5*time.Second), &pb.CheckInRequest{}))
	if word != SlowDown {
		t.Errorf("one call more than a key may have is answered %q, want %s", word, SlowDown)
	}
}

// from connects from a given address of this machine.
func (s *testServer) from(t *testing.T, host string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		t.Skipf("this machine cannot connect from %s: %v", host, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Slow calls without a key make room for new ones, of their own address and of others.
func TestSlowHellosMakeRoomForOthers(t *testing.T) {
	s := newFakeCoordinator(keyOf(1)).open(t, Limits{Unenrolled: 6, AddressUnenrolled: 4}, false)
	hello := rawRequest{path: pbconnect.FederationHelloProcedure, body: make([]byte, 4000)}
	slow := func(host string, n int) {
		t.Helper()
		for range n {
			if _, err := io.WriteString(s.from(t, host), head(hello, "Content-Length: 4000")+"x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	waiting := func() int {
		s.server.unenrolled.mu.Lock()
		defer s.server.unenrolled.mu.Unlock()
		return s.server.unenrolled.all
	}
	ended := func(n uint64) func() bool { return func() bool { return s.server.Refused()[SlowDown] == n } }
	slow("127.0.0.2", 10)
	eventually(t, "6 of 10 end, since an address may have 4", ended(6))
	slow("127.0.0.3", 2)
	eventually(t, "6 slow calls", func() bool { return waiting() == 6 })
	slow("127.0.0.4", 1)
	eventually(t, "one more ends, since there may be 6", ended(7))
	s.server.unenrolled.mu.Lock()
	busiest := len(s.server.unenrolled.calls[address("127.0.0.2:1")])
	s.server.unenrolled.mu.Unlock()
	if busiest != 3 {
		t.Errorf("the address with most calls has %d, want 3", busiest)
	}
	for i := range 20 {
		if _, err := s.dial(t, keyOf(1), func(o *Options) { o.Tries = 1 }).meet(context.Background()); err != nil {
			t.Fatalf("Hello %d: %v", i, err)
		}
	}
	key := keyOf(5)
	public := fixed(key)
	q := signed(key, pbconnect.FederationEnrolProcedure, time.Now(), &pb.EnrolRequest{Token: "token", Key: public[:]})
	if word, status := s.post(t, q); status != 200 {
		t.Errorf("a new device: %d %s", status, word)
	}
}

// The same with the streams of one HTTP/2 connection.
func TestSlowHelloStreamsMakeRoomForOthers(t *testing.T) {
	s := newFakeCoordinator(keyOf(1)).open(t, Limits{AddressUnenrolled: 4}, true)
	shared := must[*http.Transport](t)(NewTransport(s.pin, 1))
	defer shared.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 20 {
		body, feed := io.Pipe()
		defer feed.Close()
		r := must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodPost,
			s.url+pbconnect.FederationHelloProcedure, body))
		r.Header.Set("Content-Type", "application/proto")
		all.Go(func() {
			if a, err := shared.RoundTrip(r); err == nil {
				a.Body.Close()
			}
		})
	}
	eventually(t, "16 of 20 streams end", func() bool { return s.server.Refused()[SlowDown] == 16 })
	other := s.dial(t, keyOf(1), func(o *Options) { o.Transport = shared })
	if _, err := other.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Errorf("a device on the same connection: %v", err)
	}
	cancel()
	all.Wait()
}

// Uploads of enrolled devices leave memory for small calls and for other addresses.
func TestUploadsLeaveMemoryForOthers(t *testing.T) {
	const piece = 1 << 16
	st := newFakeCoordinator()
	for i := range 40 {
		st.ids[fixed(keyOf(i))] = uint32(i)
	}
	s := st.open(t, Limits{PieceBytes: piece, BodyMemory: 8 * piece}, false)
	upload := func(host string, device int) {
		t.Helper()
		q := announced(keyOf(device), pbconnect.FederationReportProcedure, time.Now(), piece)
		c := s.from(t, host)
		text := head(q, fmt.Sprintf("Content-Length: %d", piece)) + string(q.body[:piece-1])
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	held := func(host string) int {
		s.server.largeBodies.mu.Lock()
		defer s.server.largeBodies.mu.Unlock()
		return s.server.largeBodies.held[address(host+":1")]
	}
	// 16 slow uploads of 64 KiB from one address: 3 fit into half of 7/8 of 512 KiB.
	for i := range 16 {
		upload("127.0.0.2", i)
	}
	eventually(t, "13 of 16 uploads are refused", func() bool { return s.server.Refused()[SlowDown] == 13 })
	if n := held("127.0.0.2"); n > 8*piece/2 {
		t.Errorf("one address holds %d of %d bytes", n, 8*piece)
	}
	upload("127.0.0.3", 20)
	eventually(t, "an upload from another address", func() bool { return held("127.0.0.3") >= piece })
	if word, status := s.post(t, signed(keyOf(30), checkIn, time.Now(), &pb.CheckInRequest{})); status != 200 {
		t.Errorf("a check-in while uploads hold their memory: %d %s", status, word)
	}
}

// A connection over the limit replaces the oldest one without a signed call; connections of devices stay.
func TestConnectionsAreBounded(t *testing.T) {
	s := newFakeCoordinator(keyOf(1), keyOf(2)).open(t, Limits{AddressConns: 3}, false)
	device := s.dial(t, keyOf(1), nil)
	if _, err := device.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for i := range 4 { // two of them fit beside the device
		open = append(open, connection(t, s))
		want := uint64(max(0, i-1))
		eventually(t, "a replaced connection", func() bool { return s.server.Refused()["connections"] >= want })
	}
	for i, c := range open[:2] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d is served", i)
		}
	}
	for range 3 {
		if _, err := device.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
			t.Error(err)
		}
	}
	other := s.dial(t, keyOf(2), func(o *Options) { o.Tries = 1 })
	if _, err := other.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Errorf("another device, while strangers hold all connections: %v", err)
	}
	if n := s.server.Refused()["connections"]; n != 3 {
		t.Errorf("%d connections were counted, want 3", n)
	}
}

// An idle connection of a device makes room for another device, of the same address or of others.
func TestIdleConnectionsMakeRoomForOthers(t *testing.T) {
	for _, limits := range []Limits{{AddressConns: 3}, {Conns: 3}} {
		for _, secure := range []bool{false, true} {
			st := newFakeCoordinator()
			for i := range 10 {
				st.ids[fixed(keyOf(i))] = uint32(i)
			}
			s := st.open(t, limits, secure)
			for range 2 { // each device returns to a connection that was closed meanwhile
				for i := range 10 {
					c := s.dial(t, keyOf(i), nil) // keeps its connection until the end
					if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
						t.Errorf("device %d, %+v: %v", i, limits, err)
					}
				}
			}
			if n := s.server.Refused()["connections"]; n < 15 {
				t.Errorf("%d connections made room, want 15 or more", n)
			}
		}
	}
}

// One key keeps few connections from being closed, and all connections may be of devices.
func TestOneKeyVouchesForFewConnections(t *testing.T) {
	s := newFakeCoordinator(keyOf(1)).open(t, Limits{KeyRate: -1}, false)
	l := s.server.Listener(nil).(*listener)
	var all []*conn
	for range maxTrusted + 5 {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := &conn{Conn: ours, listener: l, from: address("192.0.2.1:1")}
		if !l.enter(c) {
			t.Fatal("a connection within the limits is refused")
		}
		trust(connContext(context.Background(), tls.Server(c, nil)), [32]byte{1})
		all = append(all, c)
	}
	if n := l.addresses[all[0].from].untrusted.Len(); n != 5 || l.trusted[[32]byte{1}] != maxTrusted {
		t.Errorf("one key vouches for all but %d connections, want 5", n)
	}
	trustOperator(connContext(context.Background(), all[maxTrusted]))
	if n := l.addresses[all[0].from].untrusted.Len(); n != 4 {
		t.Errorf("%d strangers after a call of the operator, want 4", n)
	}
	if !l.evict(100) || l.evict(1) {
		t.Error("connections of devices are closed, or others are not")
	}
	for _, c := range all {
		c.Close()
		c.Close()
	}
	if l.all != 0 || len(l.addresses) != 0 || len(l.trusted) != 0 {
		t.Errorf("%d connections, %d addresses and %d keys after the end of all", l.all, len(l.addresses),
			len(l.trusted))
	}
}

// scarce is a listener that fails as if the process had no file descriptors left.
type scarce struct {
	net.Listener
	failures atomic.Int32
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// The server survives a lack of file descriptors, and closes strangers' connections for it.
func TestSurvivesTheLimitOfFileDescriptors(t *testing.T) {
	st := newFakeCoordinator(keyOf(1))
	server := must[*Server](t)(NewServer(st.config(Limits{AddressRate: -1})))
	inner := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	few := &scarce{Listener: inner}
	h := server.HTTP(nil)
	h.ErrorLog = log.New(io.Discard, "", 0)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(server.Listener(few)) }()
	defer func() { h.Close(); <-ended }()
	s := &testServer{fakeCoordinator: st, server: server, addr: inner.Addr().String(), url: "http://" + inner.Addr().String()}
	stranger := connection(t, s)
	if _, err := io.WriteString(stranger, "POST /x HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	few.failures.Store(2)
	_ = connection(t, s) // wakes the listener, which then fails
	c := s.dial(t, keyOf(1), nil)
	if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
		t.Errorf("after a lack of descriptors: %v", err)
	}
	if n := server.Refused()["descriptors"]; n != 2 {
		t.Errorf("%d lacks of descriptors were counted, want 2", n)
	}
	if _, err := stranger.Read(make([]byte, 1)); err == nil {
		t.Error("a stranger's connection was kept")
	}
}

// strangerKinds are ways to keep a server waiting without a device's private key. Each returns the bytes to send
// first; then single bytes follow.
func strangerKinds(victim int) map[string]func(i int) string {
	length := "Content-Length: 4000"
	return map[string]func(int) string{
		"silence": func(int) string { return "" },
		"headers": func(int) string { return "POST /x HTTP/1.1\r\nHost: " },
		"hello":   func(int) string { return head(rawRequest{path: pbconnect.FederationHelloProcedure}, length) },
		"enrol":   func(i int) string { return head(announced(keyOf(1000+i), enrolPath, time.Now(), 4000), length) },
		"forgery": func(int) string {
			return head(forge(announced(keyOf(victim), checkIn, time.Now(), 4000)), length)
		},
		"unsigned": func(int) string { return head(rawRequest{path: checkIn}, length) },
	}
}

const enrolPath = pbconnect.FederationEnrolProcedure

// 100 slow strangers from the device's own address, with the default limits, do not delay an enrolled device by more
// than a second. A busy machine may do so: one measurement of three must show it.
func TestSlowStrangersDoNotDelayDevices(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			s := newFakeCoordinator(keyOf(1)).serve(t, Limits{}, secure)
			stop := make(chan struct{})
			var all sync.WaitGroup
			defer all.Wait()
			defer close(stop)
			var connected atomic.Int64
			kinds := strangerKinds(1)
			each := 100/len(kinds) + 1
			for kind, first := range kinds {
				for i := range each {
					text := first(i)
					all.Go(func() { s.stranger(text, secure && kind != "silence" && i%2 == 0, &connected, stop) })
				}
			}
			eventually(t, "all strangers connect", func() bool { return connected.Load() >= int64(each*len(kinds)) })
			var slowest time.Duration
			for range 3 {
				slowest = s.slowestCall(t, 400*time.Millisecond)
				t.Logf("slowest call %v, refused %v", slowest, s.server.Refused())
				if slowest <= time.Second {
					return
				}
			}
			t.Errorf("a call took %v, want at most 1 s", slowest)
		})
	}
}

// slowestCall makes calls with a connection that stays and with new ones.
func (s *testServer) slowestCall(t *testing.T, duration time.Duration) (slowest time.Duration) {
	t.Helper()
	device := s.dial(t, keyOf(1), nil)
	for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		fresh := s.dial(t, keyOf(1), nil) // connects and calls Hello
		for _, c := range []*Client{device, fresh} {
			start := time.Now()
			if _, err := c.CheckIn(context.Background(), &pb.CheckInRequest{}); err != nil {
				t.Fatalf("%v, refused %v", err, s.server.Refused())
			}
			slowest = max(slowest, time.Since(start))
		}
		fresh.options.Transport.CloseIdleConnections()
	}
	return slowest
}

// stranger connects, sends a text and then single bytes; it connects again when the server hangs up.
func (s *testServer) stranger(first string, secure bool, connected *atomic.Int64, stop chan struct{}) {
	for {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			if secure {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			}
			_, err = io.WriteString(c, first)
			connected.Add(1)
		}
		for err == nil {
			select {
			case <-stop:
				c.Close()
				return
			case <-time.After(50 * time.Millisecond):
				_, err = io.WriteString(c, "x")
			}
		}
		if c != nil {
			c.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
