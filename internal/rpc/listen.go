package rpc

import (
	"net"
	"net/netip"
	"sync"
)

// Listener limits the connections of a listener, in total and per address. It closes excess
// connections at once.
func (s *Server) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, server: s, perAddress: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	server     *Server
	mu         sync.Mutex
	all        int
	perAddress map[netip.Prefix]int
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := address(c.RemoteAddr().String())
		if l.enter(from) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		l.server.count("connections")
		c.Close()
	}
}

func (l *listener) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lim := &l.server.limits; l.all >= lim.Conns || l.perAddress[from] >= lim.AddressConns {
		return false
	}
	l.all++
	l.perAddress[from]++
	return true
}

func (l *listener) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	l.perAddress[from]--
	if l.perAddress[from] == 0 {
		delete(l.perAddress, from)
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
