package enrolment

import (
	"net/netip"
	"time"
)

// Limits say how devices without a token of the operator may enrol.
type Limits struct {
	// OpenPerMinute is the number of devices that may enrol without a token; 0 requires a token.
	OpenPerMinute int
	// OpenPerAddress is the part of it that one address may use, a network of 64 bits with IPv6; defaults to
	// 10, because many devices share one address behind a router.
	OpenPerAddress int
	// AppPerMinute is the number of devices that may enrol with app tokens; defaults to 6000.
	AppPerMinute int
}

func (l *Limits) setDefaults() {
	if l.OpenPerAddress == 0 {
		l.OpenPerAddress = 10
	}
	if l.AppPerMinute == 0 {
		l.AppPerMinute = 6000
	}
}

// minuteRate counts what was allowed in the minute in progress. It remembers no more addresses than it allowed
// calls.
type minuteRate struct {
	minute    int64
	total     int
	byAddress map[netip.Prefix]int
}

// allow reports whether another call fits. A limit of an address of 0 means none.
func (m *minuteRate) allow(from netip.Prefix, now time.Time, most, mostOfAddress int) bool {
	if minute := now.Unix() / 60; minute != m.minute || m.byAddress == nil {
		*m = minuteRate{minute: minute, byAddress: map[netip.Prefix]int{}}
	}
	if m.total >= most || mostOfAddress > 0 && m.byAddress[from] >= mostOfAddress {
		return false
	}
	m.total++
	if mostOfAddress > 0 {
		m.byAddress[from]++
	}
	return true
}

// checkOpen decides whether a device without a token may enrol.
func (r *Registry) checkOpen(q Request) (permit, error) {
	switch {
	case r.limits.OpenPerMinute == 0:
		return permit{}, ErrNoToken
	case !r.openRate.allow(q.Address, q.Now, r.limits.OpenPerMinute, r.limits.OpenPerAddress):
		return permit{}, ErrRate
	}
	return permit{hash: "open", note: "open enrolment"}, nil
}
