package collection

import (
	"fmt"
	"slices"
	"sync"
)

// Participation is the devices that contributed in an epoch: a number of rounds in which each
// device is in at most one sum, if devices choose when to check in. The zero value is the start of an
// epoch. Which devices are in a sum is part of the version that the sum made: both are on disk or
// neither.
type Participation struct {
	mu       sync.Mutex
	counted  map[uint32]bool // devices that are in a sum
	excluded map[uint32]bool // devices that sent something that is in no sum
}

// Done reports whether a device has contributed in this epoch, or tried to.
func (p *Participation) Done(id uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counted[id] || p.excluded[id]
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

// Eligible appends those of the devices that may still contribute.
func (p *Participation) Eligible(dst, devices []uint32) []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range devices {
		if !p.counted[id] && !p.excluded[id] {
			dst = append(dst, id)
		}
	}
	return dst
}

// Close adds the devices that are in a round's sum. The last round of an epoch begins a new one.
func (p *Participation) Close(devices []uint32, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last {
		p.counted, p.excluded = nil, nil
		return
	}
	if p.counted == nil {
		p.counted = map[uint32]bool{}
	}
	for _, id := range devices {
		p.counted[id] = true
	}
}

// Bytes encodes the devices that are in a sum of this epoch.
func (p *Participation) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]uint32, 0, len(p.counted))
	for id := range p.counted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return AppendIDs([]byte{participationFormat}, ids)
}

// participationFormat is the first byte of what Bytes returns, so that an empty list is not an empty
// file.
const participationFormat = 2

// Load replaces the devices that are in a sum by what Bytes returned; nil is the start of an epoch.
func (p *Participation) Load(b []byte) error {
	var ids []uint32
	if len(b) > 0 {
		if b[0] != participationFormat {
			return fmt.Errorf("the list of participants is corrupt: it begins with %d, want %d", b[0],
				participationFormat)
		}
		var err error
		if ids, err = ReadIDs(b[1:]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.excluded = make(map[uint32]bool, len(ids)), nil
	for _, id := range ids {
		p.counted[id] = true
	}
	return nil
}

// Clear begins an epoch.
func (p *Participation) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted, p.excluded = nil, nil
}
