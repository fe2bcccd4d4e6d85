package rpc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// ErrPin exists on all platforms. A browser verifies certificates itself and shows programs no keys, so this
// client never returns it.
var ErrPin = errors.New("the coordinator's key does not match the pin")

// Options say how to reach a coordinator.
type Options struct {
	URL      string // https://host:port, or http:// for a coordinator on the same machine
	Pin      string // must be empty: browsers do not let programs check a pin
	Insecure bool   // allow http:// for other machines, for tests
	Key      ed25519.PrivateKey
	// Observe, if set, receives the name of each request, and the bytes of its body and of the answer's. A try
	// that failed has an answer of 0 bytes.
	Observe func(call string, sent, received int)

	Tries      int           // tries of a call, with growing delays; default 5
	RetryDelay time.Duration // average first delay; default 400 ms
	Timeout    time.Duration // of one try; default 90 s
}

func (o *Options) complete() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil || u.Path != "" && u.Path != "/":
		return fmt.Errorf("the coordinator's address is %.200q: must be https://host:port", o.URL)
	case o.Pin != "":
		return errors.New("a browser cannot check a pin: leave it empty; the coordinator must have a certificate " +
			"that the browser trusts")
	case u.Scheme == "http" && !o.Insecure && !isLoopback(u.Hostname()):
		return fmt.Errorf("the coordinator's address is %.200q: without TLS anyone on the network can read and change "+
			"the traffic; use https", o.URL)
	case len(o.Key) != ed25519.PrivateKeySize:
		return fmt.Errorf("key of %d bytes: must be %d", len(o.Key), ed25519.PrivateKeySize)
	}
	o.URL = u.Scheme + "://" + u.Host
	if o.Tries == 0 {
		o.Tries = 5
	}
	if o.RetryDelay == 0 {
		o.RetryDelay = 400 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = 90 * time.Second
	}
	return nil
}

func isLoopback(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "::1" ||
		strings.HasPrefix(host, "127.")
}

// Client makes the calls of a device with fetch. It signs them and makes them one after the other, because the
// times of a key must increase. It calls Hello before the first one.
type Client struct {
	options    Options
	turn       chan struct{} // one call at a time
	offset     int64         // ms by which the coordinator's clock is ahead
	last       int64
	mu         sync.Mutex
	federation []byte
}

// Dial returns a client. It makes no calls yet.
func Dial(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Client{options: o, turn: make(chan struct{}, 1)}, nil
}

// The calls of a device.

func (c *Client) Hello(ctx context.Context, q *pb.HelloRequest) (*pb.HelloResponse, error) {
	return call(ctx, c, "Hello", q, &pb.HelloResponse{})
}

func (c *Client) Enrol(ctx context.Context, q *pb.EnrolRequest) (*pb.EnrolResponse, error) {
	return call(ctx, c, "Enrol", q, &pb.EnrolResponse{})
}

func (c *Client) CheckIn(ctx context.Context, q *pb.CheckInRequest) (*pb.CheckInResponse, error) {
	return call(ctx, c, "CheckIn", q, &pb.CheckInResponse{})
}

func (c *Client) Fetch(ctx context.Context, q *pb.FetchRequest) (*pb.FetchResponse, error) {
	return call(ctx, c, "Fetch", q, &pb.FetchResponse{})
}

func (c *Client) Report(ctx context.Context, q *pb.ReportRequest) (*pb.ReportResponse, error) {
	return call(ctx, c, "Report", q, &pb.ReportResponse{})
}

func (c *Client) Mask(ctx context.Context, q *pb.MaskRequest) (*pb.MaskResponse, error) {
	return call(ctx, c, "Mask", q, &pb.MaskResponse{})
}

func (c *Client) Leave(ctx context.Context, q *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	return call(ctx, c, "Leave", q, &pb.LeaveResponse{})
}

// service is the path of the device API.
const service = "/tacit.v1.Federation/"

// call makes one call with retries, and fills a.
func call[A proto.Message](ctx context.Context, c *Client, name string, q proto.Message, a A) (A, error) {
	var none A
	body, err := proto.Marshal(q)
	if err != nil {
		return none, err
	}
	if name != "Hello" && c.known() == nil {
		if err := c.meet(ctx); err != nil {
			return none, err
		}
	}
	out, err := c.send(ctx, service+name, body)
	if err != nil {
		return none, err
	}
	if err := proto.Unmarshal(out, a); err != nil {
		return none, &callError{code: "internal", message: "the coordinator's answer is malformed"}
	}
	return a, nil
}

func (c *Client) known() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.federation
}

// meet calls Hello and checks the answer: signatures include the federation ID.
func (c *Client) meet(ctx context.Context) error {
	h, err := c.Hello(ctx, &pb.HelloRequest{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	if err != nil {
		return err
	}
	if h.Version < wire.OldestVersion || h.Version > wire.NewestVersion {
		return &callError{code: WrongVersion, message: fmt.Sprintf("the coordinator uses protocol version %d, this "+
			"device %d to %d: update the older of the two", h.Version, wire.OldestVersion, wire.NewestVersion)}
	}
	if err := wire.CheckHello(h); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.NowMs >= 0 && h.NowMs <= maxClock {
		c.setClock(h.NowMs)
	}
	c.federation = h.Federation
	return nil
}

func (c *Client) setClock(ms int64) { c.offset = ms - time.Now().UnixMilli() }

// send signs a request and sends it, with retries. Every call of the protocol may be repeated.
func (c *Client) send(ctx context.Context, path string, body []byte) ([]byte, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	corrected := "" // error code that the clock was last corrected for: once each
	for try := 1; ; try++ {
		a, err := c.sendOnce(ctx, path, body)
		if err == nil && corrected != Replayed && corrected != a.code && c.correctClock(a) {
			corrected = a.code
			try--
			continue
		}
		done := err == nil && !a.isRetryable() || errors.Is(err, errTooLong)
		seconds := 0
		if a != nil {
			seconds = a.retryAfter
		}
		if done || try >= c.options.Tries || ctx.Err() != nil || !pause(ctx, c.options.RetryDelay, try, seconds) {
			if err != nil {
				return nil, networkError(ctx, err)
			}
			return a.body, a.err()
		}
	}
}

// sendOnce sends a request once and reads the whole answer.
func (c *Client) sendOnce(ctx context.Context, path string, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	auth := ""
	if path != service+"Hello" {
		var nonce [wire.NonceBytes]byte
		rand.Read(nonce[:])
		c.last = max(c.last+1, time.Now().UnixMilli()+c.offset)
		auth = wire.SignRequest(c.options.Key, c.known(), path, c.last, nonce, body)
	}
	a, err := post(ctx, c.options.URL+path, auth, body)
	if c.options.Observe != nil {
		received := 0
		if a != nil {
			received = len(a.body)
		}
		c.options.Observe(strings.TrimPrefix(path, service), len(body), received)
	}
	return a, err
}

// correctClock adopts the coordinator's clock from an answer that refused the request's time.
func (c *Client) correctClock(a *answer) bool {
	if a.code != StaleTime && a.code != Replayed || a.clock < 0 || a.clock > maxClock {
		return false
	}
	c.setClock(a.clock)
	c.last = 0
	return true
}

// answer is the answer to a request.
type answer struct {
	status     int
	code       string // error code of this protocol
	clock      int64  // -1 if the answer has none
	retryAfter int    // seconds
	body       []byte
}

// isRetryable reports whether a later try may succeed after this answer.
func (a *answer) isRetryable() bool {
	switch a.status {
	case 502, 503, 504, 429:
		return a.code == "" || a.code == SlowDown || a.code == TooSlow || a.code == CutOff
	}
	return false
}

// maxMessage is the longest error message that is shown to the owner, in bytes.
const maxMessage = 1000

// err returns the error of an answer, or nil.
func (a *answer) err() error {
	if a.status == 200 {
		return nil
	}
	var e struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(a.body, &e) != nil || e.Message == "" {
		e.Code, e.Message = "unavailable", "the coordinator answered with HTTP status "+strconv.Itoa(a.status)
	}
	if len(e.Message) > maxMessage {
		e.Message = e.Message[:maxMessage]
	}
	out := &callError{code: a.code, message: strings.ToValidUTF8(e.Message, "")}
	if out.code == "" {
		out.code = e.Code
	}
	return out
}

// callError is an error that a coordinator answered with, or the failure to reach it.
type callError struct{ code, message string }

func (e *callError) Error() string { return e.message }

func networkError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &callError{code: "unavailable", message: "the coordinator does not answer: " + err.Error()}
}

// Code returns the error code of an error that a client received. See the other platforms.
func Code(err error) string {
	switch e := new(callError); {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	}
	return "unknown"
}
