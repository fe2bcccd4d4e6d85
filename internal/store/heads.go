package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
)

// heads is a file beside JetStream with the last frame of each chain, written
// after a commit and before it is acknowledged. JetStream cuts a damaged tail
// off when it starts, and says so in a log line only: a chain that ends before
// its head is how we know. The file is not synced: after a power cut it may be
// older than the chains, never newer.
//
// A slot is two copies, written alternately, so that one is intact at any moment:
//
//	CRC-32C 4 | kind 1 | zero 3 | sequence 8 | chain 8 | number 8 | SHA-256 32
type heads struct {
	mu       sync.Mutex
	f        *os.File
	sequence map[int]uint64
	last     map[int]head // by slot
	free     []int
	next     int
}

type head struct {
	kind     byte
	sequence uint64
	chain    uint64
	number   uint64
	sum      Hash
}

const headCopy = 64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h *head) bytes() []byte {
	b := make([]byte, 4, headCopy)
	b = append(b, h.kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, h.sequence)
	b = binary.LittleEndian.AppendUint64(b, h.chain)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = append(b, h.sum[:]...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func readHead(b []byte) (head, bool) {
	if len(b) < headCopy || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:headCopy], castagnoli) {
		return head{}, false
	}
	return head{
		kind: b[4], sequence: binary.LittleEndian.Uint64(b[8:]), chain: binary.LittleEndian.Uint64(b[16:]),
		number: binary.LittleEndian.Uint64(b[24:]), sum: Hash(b[32:headCopy]),
	}, true
}

// loadHeads reads the intact entries of the file, by chain; none if the file is missing.
func loadHeads(dir string) (map[uint64]head, error) {
	b, err := os.ReadFile(filepath.Join(dir, "heads"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("store: heads: %w", err)
	}
	out := map[uint64]head{}
	for ; len(b) > 0; b = b[min(len(b), 2*headCopy):] {
		x, okX := readHead(b)
		y, okY := readHead(b[min(len(b), headCopy):])
		if okY && (!okX || y.sequence > x.sequence) {
			x, okX = y, true
		}
		if okX && x.number > 0 {
			out[x.chain] = x
		}
	}
	return out, nil
}

// newHeads begins the file again; until it takes the old one's place, that one holds.
func newHeads(dir string, first []head) (*heads, []int, error) {
	f, err := os.OpenFile(filepath.Join(dir, "heads.new"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	h := &heads{f: f, sequence: map[int]uint64{}, last: map[int]head{}}
	slots := make([]int, len(first))
	for i := range first {
		slots[i] = h.slot()
		if err := h.set(slots[i], first[i]); err != nil {
			f.Close()
			return nil, nil, err
		}
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, "heads")); err != nil {
		f.Close()
		return nil, nil, err
	}
	return h, slots, nil
}

func (h *heads) slot() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.free); n > 0 {
		s := h.free[n-1]
		h.free = h.free[:n-1]
		return s
	}
	h.next++
	return h.next - 1
}

func (h *heads) set(slot int, x head) error {
	h.mu.Lock()
	x.sequence = h.sequence[slot] + 1
	h.mu.Unlock()
	// A write that failed is repeated at its place: the other copy stays intact.
	if _, err := h.f.WriteAt(x.bytes(), int64(slot)*2*headCopy+int64(x.sequence%2)*headCopy); err != nil {
		return err
	}
	h.mu.Lock()
	h.sequence[slot], h.last[slot] = x.sequence, x
	h.mu.Unlock()
	return nil
}

// all are the heads of all chains that have one.
func (h *heads) all() map[uint64]head {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[uint64]head{}
	for _, x := range h.last {
		if x.number > 0 {
			out[x.chain] = x
		}
	}
	return out
}

// release clears a slot for another chain.
func (h *heads) release(slot int) error {
	if err := h.set(slot, head{}); err != nil {
		return err
	}
	h.mu.Lock()
	h.free = append(h.free, slot)
	h.mu.Unlock()
	return nil
}
