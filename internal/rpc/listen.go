//go:build !js

package rpc

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener limits the connections of a listener, in total and per address. At a limit, it closes the oldest one
// that has not carried a signed call or a call of the operator yet: of the same address, or of the address with most
// of them. If every one has, it closes the one that has been idle longest, or else the new one.
// It closes connections in the same order if the process has no file descriptor left.
func (s *Server) Listener(l net.Listener) net.Listener {
	return &listener{
		Listener: l, server: s, addresses: map[netip.Prefix]*addressConns{}, trusted: map[[32]byte]int{},
	}
}

type listener struct {
	net.Listener
	server *Server

	mu        sync.Mutex
	all       int
	addresses map[netip.Prefix]*addressConns
	trusted   map[[32]byte]int // connections that are trusted because of a key
}

// addressConns are the connections of an address.
type addressConns struct {
	all       int
	untrusted list.List // those that are not trusted, oldest first
	idle      list.List // those that are trusted and between calls, longest first
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.server.count("descriptors")
			if l.evict(evictedAtOnce) {
				time.Sleep(10 * time.Millisecond) // until the descriptors are free
				continue
			}
		}
		if err != nil {
			return nil, err // http.Server waits and tries again if the error is temporary
		}
		one := &conn{Conn: c, listener: l, from: address(c.RemoteAddr().String())}
		if l.enter(one) {
			return one, nil
		}
		l.server.count("connections")
		c.Close()
	}
}

// evictedAtOnce is the number of connections that are closed if the process has no file descriptor left.
const evictedAtOnce = 16

// enter adds a connection, if necessary in place of another.
func (l *listener) enter(c *conn) bool {
	l.mu.Lock()
	a := l.addresses[c.from]
	if a == nil {
		a = &addressConns{}
		l.addresses[c.from] = a
	}
	var victim *conn
	ok := true
	switch lim := &l.server.limits; {
	case a.all >= lim.AddressConns:
		victim = a.victim()
		ok = victim != nil
	case l.all >= lim.Conns:
		victim = l.victim()
		ok = victim != nil
	}
	if victim != nil {
		l.remove(victim)
	}
	if ok {
		l.addresses[c.from] = a // the victim may have been its last connection
		l.all++
		a.all++
		c.place = a.untrusted.PushBack(c)
	} else if a.all == 0 {
		delete(l.addresses, c.from)
	}
	l.mu.Unlock()
	if victim != nil {
		l.server.count("connections")
		victim.Conn.Close()
	}
	return ok
}

// evict closes up to n connections that are not trusted or idle. It reports whether there were any.
func (l *listener) evict(n int) bool {
	var victims []*conn
	l.mu.Lock()
	for range n {
		victim := l.victim()
		if victim == nil {
			break
		}
		l.remove(victim)
		victims = append(victims, victim)
	}
	l.mu.Unlock()
	for _, c := range victims {
		l.server.count("connections")
		c.Conn.Close()
	}
	return len(victims) > 0
}

// victim returns the connection of the address that others may replace, or nil.
func (a *addressConns) victim() *conn {
	for _, l := range []*list.List{&a.untrusted, &a.idle} {
		if first := l.Front(); first != nil {
			return first.Value.(*conn)
		}
	}
	return nil
}

// victim returns the connection that others may replace, of the address that has most of its kind, or nil.
func (l *listener) victim() *conn {
	var most *addressConns
	for _, a := range l.addresses {
		if most == nil || a.untrusted.Len() > most.untrusted.Len() ||
			most.untrusted.Len() == 0 && a.untrusted.Len() == 0 && a.idle.Len() > most.idle.Len() {
			most = a
		}
	}
	if most == nil {
		return nil
	}
	return most.victim()
}

// remove forgets a connection.
func (l *listener) remove(c *conn) {
	if c.left {
		return
	}
	c.left = true
	a := l.addresses[c.from]
	if c.place != nil {
		a.untrusted.Remove(c.place)
		c.place = nil
	}
	if c.rest != nil {
		a.idle.Remove(c.rest)
		c.rest = nil
	}
	if c.vouched {
		if l.trusted[c.key]--; l.trusted[c.key] == 0 {
			delete(l.trusted, c.key)
		}
	}
	l.all--
	if a.all--; a.all == 0 {
		delete(l.addresses, c.from)
	}
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	listener *listener
	from     netip.Prefix
	safe     atomic.Bool // trusted; read without the lock

	// These belong to the listener's lock.
	place   *list.Element // among the untrusted; nil if the connection is trusted
	rest    *list.Element // among the idle; nil if it is not idle
	vouched bool          // trusted because of key
	key     [32]byte
	left    bool
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// accepted returns the connection that a listener accepted, or nil.
func accepted(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	one, _ := c.(*conn)
	return one
}

// connContext lets handlers find the connection of a request.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if one := accepted(c); one != nil {
		return context.WithValue(ctx, connKey{}, one)
	}
	return ctx
}

// connState notes which trusted connections are idle.
func connState(raw net.Conn, state http.ConnState) {
	c := accepted(raw)
	if c == nil || state != http.StateIdle && state != http.StateActive || !c.safe.Load() {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.left {
		return
	}
	switch idle := &c.listener.addresses[c.from].idle; {
	case state == http.StateIdle && c.rest == nil:
		c.rest = idle.PushBack(c)
	case state == http.StateActive && c.rest != nil:
		idle.Remove(c.rest)
		c.rest = nil
	}
}

// maxTrusted is the number of connections that one key can keep from being closed for others.
const maxTrusted = 8

// trust keeps the connection of a request from being closed for others, because an enrolled device has used it.
func trust(ctx context.Context, key [32]byte) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok || c.safe.Load() {
		return
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.left || c.place == nil || l.trusted[key] >= maxTrusted {
		return
	}
	c.vouched, c.key = true, key
	l.trusted[key]++
	c.makeSafe()
}

// trustOperator is trust for a call with an operator's token.
func trustOperator(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok || c.safe.Load() {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if !c.left && c.place != nil {
		c.makeSafe()
	}
}

func (c *conn) makeSafe() {
	c.listener.addresses[c.from].untrusted.Remove(c.place)
	c.place = nil
	c.safe.Store(true)
}
