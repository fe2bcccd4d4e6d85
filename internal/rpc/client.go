package rpc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// maxResponseBytes is the longest answer that a client reads.
const maxResponseBytes = 16 << 20

// Options are how a coordinator is reached.
type Options struct {
	URL      string // https://host:port, or http:// with Insecure
	Pin      string // of the coordinator's key; empty for what the system believes
	Insecure bool   // allows http://, where anybody on the way reads and changes everything but signatures
	// Key signs; without one only Hello and an operator's calls are possible.
	Key ed25519.PrivateKey
	// Federation is the id that the coordinator must have; empty takes what it says.
	Federation []byte
	Token      string // of an operator
	// Transport is shared by clients of one coordinator; nil makes one. See NewTransport.
	Transport  *http.Transport
	Now        func() time.Time // nil means time.Now
	Tries      int              // of a call that could not be made, with growing pauses; default 5
	RetryDelay time.Duration    // the first of them, on average; default 400 ms
	Timeout    time.Duration    // for one try; default 90 s
}

// NewTransport makes connections for many clients: over TLS they share few, and without
// it at most so many.
func NewTransport(pin string, connections int) (*http.Transport, error) {
	secure, err := clientTLS(pin)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 20 * time.Second, IdleConnTimeout: time.Minute, DisableCompression: true,
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, MaxResponseHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}, nil
}

func (o *Options) complete() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("rpc: the coordinator's address: %w", err)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil:
		return fmt.Errorf("rpc: the coordinator's address is %q: want https://host:port", o.URL)
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("rpc: the coordinator's address is %q: want one without a path, which is signed", o.URL)
	case u.Scheme == "http" && !o.Insecure:
		return fmt.Errorf("rpc: the coordinator's address is %q: without TLS anybody on the way can read and change "+
			"what is sent; say insecure to allow it", o.URL)
	case u.Scheme == "http" && o.Pin != "":
		return fmt.Errorf("rpc: the coordinator's address is %q: a pin needs https", o.URL)
	case o.Key != nil && len(o.Key) != ed25519.PrivateKeySize:
		return fmt.Errorf("rpc: a key of %d bytes: want %d", len(o.Key), ed25519.PrivateKeySize)
	case len(o.Federation) != 0 && len(o.Federation) != wire.IDBytes:
		return fmt.Errorf("rpc: a federation with an id of %d bytes: want %d", len(o.Federation), wire.IDBytes)
	}
	if o.Transport == nil {
		if o.Transport, err = NewTransport(o.Pin, 4); err != nil {
			return err
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	or(&o.Tries, 5)
	or(&o.RetryDelay, 400*time.Millisecond)
	or(&o.Timeout, 90*time.Second)
	return nil
}

// Client is a device's side of all calls. They are signed and made one after the other:
// a key's times must grow. Hello is said before the first of them.
type Client struct {
	pbconnect.FederationClient
	options Options
	signer  *signer

	mu    sync.Mutex
	hello *pb.HelloResponse
}

// Dial makes a client. It does not touch the network yet.
func Dial(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Client{options: o}
	c.signer = &signer{options: &c.options, turn: make(chan struct{}, 1), federation: c.federation}
	c.signer.send = c.signer.sendOnce
	h := &http.Client{Transport: c.signer, CheckRedirect: noRedirect}
	c.FederationClient = pbconnect.NewFederationClient(h, o.URL, connect.WithReadMaxBytes(maxResponseBytes),
		connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(c.greetFirst)))
	return c, nil
}

// DialAdmin makes an operator's client.
func DialAdmin(o Options) (pbconnect.AdminClient, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	h := &http.Client{Transport: &bearer{o.Token, o.Transport}, CheckRedirect: noRedirect}
	return pbconnect.NewAdminClient(h, o.URL, connect.WithAcceptCompression("gzip", nil, nil)), nil
}

// noRedirect follows nobody: a signature is for one coordinator.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func (c *Client) federation() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello.GetFederation()
}

// greetFirst says Hello before any other call: the federation's id is in what is signed.
func (c *Client) greetFirst(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if q.Spec().Procedure != pbconnect.FederationHelloProcedure {
			if c.options.Key == nil {
				return nil, errors.New("rpc: a call to a federation must be signed, and the client has no key")
			}
			if c.federation() == nil {
				if _, err := c.meet(ctx); err != nil {
					return nil, err
				}
			}
		}
		return next(ctx, q)
	}
}

// meet says Hello, and finds the version that both speak. What it returns was checked.
// It is called by the first call that needs it; a device that wants to see the
// coordinator's key first calls it itself.
func (c *Client) meet(ctx context.Context) (*pb.HelloResponse, error) {
	h, err := c.Hello(ctx, &pb.HelloRequest{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	if err != nil {
		return nil, err
	}
	if h.Version < wire.OldestVersion || h.Version > wire.NewestVersion {
		return nil, Refuse(WrongVersion, connect.CodeFailedPrecondition,
			"the coordinator speaks version %d of the protocol, this device %d to %d: update the older of the two",
			h.Version, wire.OldestVersion, wire.NewestVersion)
	}
	if err := wire.CheckHello(h); err != nil {
		return nil, err
	}
	if want := c.options.Federation; len(want) != 0 && string(want) != string(h.Federation) {
		return nil, fmt.Errorf("rpc: the coordinator is of federation %x, this device of %x", h.Federation, want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello != nil && string(c.hello.Federation) != string(h.Federation) {
		return nil, fmt.Errorf("rpc: the coordinator is of federation %x now, and was of %x", h.Federation,
			c.hello.Federation)
	}
	if c.hello == nil && h.NowMs >= 0 && h.NowMs <= maxClock {
		c.signer.setClock(h.NowMs)
	}
	c.hello = h
	return h, nil
}
