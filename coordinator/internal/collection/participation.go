package collection

import "sync"

// Participation is the devices that contributed in an epoch: a number of rounds in which each
// device is in at most one sum, if devices choose when to check in. The zero value is the start of an
// epoch. Which devices are in a sum is part of the version that the sum made: both are on disk or
// neither.
type Participation struct {
	mu       sync.Mutex
	counted  []byte          // a bit for each device that is in a sum
	excluded map[uint32]bool // devices that sent something that is in no sum
}

// Done reports whether a device has contributed in this epoch, or tried to.
func (p *Participation) Done(id uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isCounted(id) || p.excluded[id]
}

func (p *Participation) isCounted(id uint32) bool {
	return int(id/8) < len(p.counted) && p.counted[id/8]>>(id%8)&1 == 1
}

// Exclude excludes a device for the rest of the epoch: a device that sent a report takes it for
// counted, whatever the coordinator answers, and sends no other.
func (p *Participation) Exclude(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.excluded == nil {
		p.excluded = map[uint32]bool{}
	}
	p.excluded[id] = true
}

// Excluded reports whether a device is excluded.
func (p *Participation) Excluded(id uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.excluded[id]
}

// Eligible appends the devices, of n, that may still contribute.
func (p *Participation) Eligible(dst []uint32, n int) []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range uint32(n) {
		if !p.isCounted(id) && !p.excluded[id] {
			dst = append(dst, id)
		}
	}
	return dst
}

// Close adds the devices, of n, that are in a round's sum. The last round of an epoch begins a new
// one.
func (p *Participation) Close(devices []uint32, n int, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := make([]byte, (n+7)/8)
	if last {
		p.counted = next
		clear(p.excluded)
		return
	}
	copy(next, p.counted)
	for _, id := range devices {
		next[id/8] |= 1 << (id % 8)
	}
	p.counted = next
}

// Bytes is a bit for each of n devices: whether it is in a sum of this epoch.
func (p *Participation) Bytes(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]byte, (n+7)/8)
	copy(out, p.counted)
	return out
}

// Load replaces the devices that are in a sum by what Bytes returned.
func (p *Participation) Load(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted = b
}
