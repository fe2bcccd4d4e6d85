//go:build !js

package rpc

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rateLimiter limits the calls of each key: perSecond on average, with bursts. It forgets keys whose
// burst is fully available. If it has max keys, all new ones share one limit.
type rateLimiter[K comparable] struct {
	perSecond rate.Limit
	burst     int
	max       int

	mu     sync.Mutex
	keys   map[K]*rate.Limiter
	shared *rate.Limiter
}

// newRateLimiter returns a limiter. A rate of 0 or less means no limit.
func newRateLimiter[K comparable](perSecond, burst float64, maxKeys int) *rateLimiter[K] {
	l := &rateLimiter[K]{perSecond: rate.Limit(perSecond), burst: max(1, int(burst)), max: maxKeys}
	l.keys = map[K]*rate.Limiter{}
	l.shared = l.newLimiter()
	return l
}

func (l *rateLimiter[K]) newLimiter() *rate.Limiter { return rate.NewLimiter(l.perSecond, l.burst) }

// allow counts a call and returns 0, or returns how long the key must wait.
func (l *rateLimiter[K]) allow(key K, now time.Time) (wait time.Duration) {
	if l.perSecond <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.keys[key]
	if one == nil {
		if len(l.keys) >= l.max {
			l.sweep(now)
		}
		one = l.shared
		if len(l.keys) < l.max {
			one = l.newLimiter()
			l.keys[key] = one
		}
	}
	if one.AllowN(now, 1) {
		return 0
	}
	missing := 1 - one.TokensAt(now)
	return time.Duration(missing / float64(l.perSecond) * float64(time.Second))
}

// peek returns how long the key must wait for its next call, without counting one.
func (l *rateLimiter[K]) peek(key K, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.keys[key]
	if one == nil && len(l.keys) >= l.max {
		one = l.shared
	}
	if one == nil || one.TokensAt(now) >= 1 {
		return 0
	}
	return time.Duration((1 - one.TokensAt(now)) / float64(l.perSecond) * float64(time.Second))
}

// sweep forgets the keys whose burst is fully available.
func (l *rateLimiter[K]) sweep(now time.Time) {
	for k, one := range l.keys {
		if one.TokensAt(now) >= float64(l.burst) {
			delete(l.keys, k)
		}
	}
}

// maxInFlight is the number of concurrent calls of one key. A device makes one at a time, but a retry
// may overlap with the end of the first try.
const maxInFlight = 2

// inFlight counts the concurrent calls of keys.
type inFlight struct {
	mu    sync.Mutex
	calls map[[32]byte]int
}

func (f *inFlight) begin(key [32]byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[key] >= maxInFlight {
		return false
	}
	f.calls[key]++
	return true
}

func (f *inFlight) end(key [32]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[key]--
	if f.calls[key] <= 0 {
		delete(f.calls, key)
	}
}

// address returns the network of one client: an IPv4 address, or the first 64 bits of an IPv6 address,
// because a client may choose the other half.
func address(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}
