//go:build !js

package rpc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// Options say how to reach a coordinator.
type Options struct {
	URL      string // https://host:port, or http:// with Insecure
	Pin      string // pin of the coordinator's TLS key; empty means the system's certificate authorities
	Insecure bool   // allow http://, which anyone on the network can read and change
	// Key signs requests. Hello and the admin API need none.
	Key ed25519.PrivateKey
	// Federation is the ID that the coordinator must have; empty means any.
	Federation []byte
	Token      string // the operator's token
	// Transport may be shared by clients of one coordinator; nil means a new one. See NewTransport.
	Transport  *http.Transport
	Now        func() time.Time // nil means time.Now
	Tries      int              // tries of a call, with growing delays; default 5
	RetryDelay time.Duration    // average first delay; default 400 ms
	Timeout    time.Duration    // of one try; default 90 s
}

// NewTransport returns a transport for many clients of one coordinator. Without TLS it opens at most the
// given number of connections.
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

// complete checks the options and sets the defaults.
func (o *Options) complete() error {
	u, err := url.Parse(o.URL)
	switch {
	case !strings.Contains(o.URL, "://"):
		return fmt.Errorf("the coordinator's address is %q: must be https://host:port, such as https://%s", o.URL, o.URL)
	case err != nil:
		return fmt.Errorf("the coordinator's address is invalid: %w", err)
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil:
		return fmt.Errorf("the coordinator's address is %q: must be https://host:port", o.URL)
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("the coordinator's address is %q: must have no path", o.URL)
	case u.Scheme == "http" && !o.Insecure:
		return fmt.Errorf("the coordinator's address is %q: without TLS anyone on the network can read and change "+
			"the traffic; use https, or allow it with insecure", o.URL)
	case u.Scheme == "http" && o.Pin != "":
		return fmt.Errorf("the coordinator's address is %q: a pin requires https", o.URL)
	case o.Key != nil && len(o.Key) != ed25519.PrivateKeySize:
		return fmt.Errorf("key of %d bytes: must be %d", len(o.Key), ed25519.PrivateKeySize)
	case len(o.Federation) != 0 && len(o.Federation) != wire.IDBytes:
		return fmt.Errorf("federation ID of %d bytes: must be %d", len(o.Federation), wire.IDBytes)
	}
	if o.Transport == nil {
		if o.Transport, err = NewTransport(o.Pin, 4); err != nil {
			return err
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	setDefault(&o.Tries, 5)
	setDefault(&o.RetryDelay, 400*time.Millisecond)
	setDefault(&o.Timeout, 90*time.Second)
	return nil
}

// Client makes the calls of a device. It signs them and makes them one after the other, because the
// times of a key must increase. It calls Hello before the first one.
type Client struct {
	pbconnect.FederationClient
	options Options
	signer  *signer

	mu    sync.Mutex
	hello *pb.HelloResponse
}

// Dial returns a client. It makes no calls yet.
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
		connect.WithInterceptors(connect.UnaryInterceptorFunc(plainErrors), connect.UnaryInterceptorFunc(c.helloFirst)))
	return c, nil
}

// noRedirect follows no redirects: a signature is valid for one coordinator only.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bearer adds the operator's token to requests.
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

// helloFirst calls Hello before any other call, because signatures include the federation ID.
func (c *Client) helloFirst(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if q.Spec().Procedure != pbconnect.FederationHelloProcedure {
			if c.options.Key == nil {
				return nil, errors.New("calls to a federation must be signed, but the client has no key")
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

// meet calls Hello and checks the answer.
func (c *Client) meet(ctx context.Context) (*pb.HelloResponse, error) {
	h, err := c.Hello(ctx, &pb.HelloRequest{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	if err != nil {
		return nil, err
	}
	if h.Version < wire.OldestVersion || h.Version > wire.NewestVersion {
		return nil, Refuse(WrongVersion, connect.CodeFailedPrecondition,
			"the coordinator uses protocol version %d, this device %d to %d: update the older of the two",
			h.Version, wire.OldestVersion, wire.NewestVersion)
	}
	if err := wire.CheckHello(h); err != nil {
		return nil, err
	}
	if want := c.options.Federation; len(want) != 0 && string(want) != string(h.Federation) {
		return nil, fmt.Errorf("the coordinator belongs to federation %x, this device to %x", h.Federation, want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello != nil && string(c.hello.Federation) != string(h.Federation) {
		return nil, fmt.Errorf("the coordinator belongs to federation %x now, and belonged to %x before", h.Federation,
			c.hello.Federation)
	}
	if c.hello == nil && h.NowMs >= 0 && h.NowMs <= maxClock {
		c.signer.setClock(h.NowMs)
	}
	c.hello = h
	return h, nil
}
