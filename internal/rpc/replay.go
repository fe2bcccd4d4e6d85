//go:build !js

package rpc

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// The time of a request may differ from the server's clock by this much. See requestClock.
const (
	maxBehind = 2 * time.Minute
	maxAhead  = 10 * time.Second
)

// replayGuard is the replay protection: the times of the requests of a key must increase. It forgets
// a key once its last time is too old to be accepted again.
type replayGuard struct {
	mu        sync.Mutex
	last      map[[32]byte]int64
	lastSweep int64
}

// accept records a time that is later than the key's last one. Otherwise it returns the last one.
func (g *replayGuard) accept(key [32]byte, ms, now int64) (last int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if oldest := now - maxBehind.Milliseconds(); g.lastSweep < oldest {
		g.lastSweep = now
		for k, ms := range g.last {
			if ms < oldest {
				delete(g.last, k)
			}
		}
	}
	if last, ok := g.last[key]; ok && ms <= last {
		return last, false
	}
	g.last[key] = ms
	return ms, true
}

// forget removes a key if its last time is ms.
func (g *replayGuard) forget(key [32]byte, ms int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last[key] == ms {
		delete(g.last, key)
	}
}

// clock returns a request time that the server accepts now.
func (s *Server) clock() int64 {
	return max(s.requests.now(), s.requests.floor)
}

// checkTime checks the time of a request.
func (s *Server) checkTime(ms int64) error {
	now := s.requests.now()
	switch {
	case ms < now-maxBehind.Milliseconds() || ms > now+maxAhead.Milliseconds():
		return timeError(StaleTime, s.clock(),
			"the time of the request differs from the coordinator's clock by %d ms: "+
				"must be at most %d ms behind and %d ms ahead", ms-now, maxBehind.Milliseconds(),
			maxAhead.Milliseconds())
	case ms < s.requests.floor:
		return timeError(StaleTime, s.clock(), "the time of the request may have been used before the coordinator was "+
			"restarted")
	}
	return nil
}

// timeError refuses the time of a request and tells the client a time that is accepted.
func timeError(errorCode string, clock int64, format string, args ...any) error {
	err := Refuse(errorCode, connect.CodeUnauthenticated, format, args...)
	var ce *connect.Error
	if errors.As(err, &ce) {
		ce.Meta().Set(clockHeader, strconv.FormatInt(clock, 10))
	}
	return err
}
