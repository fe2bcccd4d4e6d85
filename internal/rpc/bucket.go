package rpc

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// rate is a token bucket: so many a second on average, and a burst at once.
type rate struct{ perSecond, burst float64 }

type bucket struct {
	tokens float64
	at     time.Time
}

// buckets has one bucket for each key. Full ones are forgotten, and when there are too
// many that are not full, strangers share one.
type buckets[K comparable] struct {
	rate rate
	most int
	mu   sync.Mutex
	of   map[K]*bucket
	rest bucket
}

func newBuckets[K comparable](r rate, most int) *buckets[K] {
	return &buckets[K]{rate: r, most: most, of: map[K]*bucket{}}
}

// take takes a token, or says how long there is none.
func (b *buckets[K]) take(k K, now time.Time) (wait time.Duration) {
	if b.rate.perSecond <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.of[k]
	if one == nil {
		if len(b.of) >= b.most {
			b.sweep(now)
		}
		one = &b.rest
		if len(b.of) < b.most {
			one = &bucket{}
			b.of[k] = one
		}
	}
	if one.at.IsZero() {
		one.tokens, one.at = b.rate.burst, now
	}
	one.fill(b.rate, now)
	if one.tokens >= 1 {
		one.tokens--
		return 0
	}
	return time.Duration((1 - one.tokens) / b.rate.perSecond * float64(time.Second))
}

func (o *bucket) fill(r rate, now time.Time) {
	if d := now.Sub(o.at); d > 0 {
		o.tokens, o.at = min(r.burst, o.tokens+d.Seconds()*r.perSecond), now
	}
}

// sweep forgets the full buckets.
func (b *buckets[K]) sweep(now time.Time) {
	for k, o := range b.of {
		if o.fill(b.rate, now); o.tokens >= b.rate.burst {
			delete(b.of, k)
		}
	}
}

// address is what one client is taken to have: an IPv4 address, or the first half of an
// IPv6 one, since everybody has the other half to choose from.
func address(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}
