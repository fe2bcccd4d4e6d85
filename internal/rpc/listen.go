package rpc

import (
	"net"
	"net/netip"
	"sync"
)

// Listener bounds the connections that a listener accepts, in all and from one address.
// One that is too many is closed at once: it neither waits nor makes others wait.
func (s *Server) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, server: s, from: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	server *Server
	mu     sync.Mutex
	all    int
	from   map[netip.Prefix]int
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := address(c.RemoteAddr().String())
		if l.enter(who) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(who) })}, nil
		}
		l.server.count("connections")
		c.Close()
	}
}

func (l *listener) enter(who netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lim := &l.server.limits; l.all >= lim.Conns || l.from[who] >= lim.AddressConns {
		return false
	}
	l.all++
	l.from[who]++
	return true
}

func (l *listener) leave(who netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[who]--; l.from[who] == 0 {
		delete(l.from, who)
	}
}

type conn struct {
	net.Conn
	leave func()
}

func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
