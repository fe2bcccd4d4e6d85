package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The index is a chain whose records are lists of operations; done in their
// order they make the state. The first record of an index is all of the state
// that it begins with, so that an index which has grown is replaced by a new one.
const (
	opPut      = 'p' // key, value
	opDelete   = 'd' // key
	opLog      = 'l' // name, chain
	opDrop     = 'x' // name
	opBlob     = 'b' // hash, chain, size
	opDropBlob = 'c' // hash
)

// state is what an index says.
type state struct {
	values map[string][]byte
	logs   map[string]*tail
	blobs  map[Hash]blob
}

type blob struct {
	chain uint64
	size  uint64
}

const (
	maxKey   = 1 << 10
	maxValue = 1 << 20
	// An index is written anew when it is larger than this and four times what it says.
	roomy = 4 << 20
)

func newState() state {
	return state{values: map[string][]byte{}, logs: map[string]*tail{}, blobs: map[Hash]blob{}}
}

// op is one operation; key is a value's, a log's name or a blob's hash.
type op struct {
	code  byte
	key   string
	value []byte
	chain uint64
	size  uint64
}

func appendOp(dst []byte, o op) []byte {
	dst = append(dst, o.code)
	dst = binary.AppendUvarint(dst, uint64(len(o.key)))
	dst = append(dst, o.key...)
	dst = binary.AppendUvarint(dst, uint64(len(o.value)))
	dst = append(dst, o.value...)
	dst = binary.AppendUvarint(dst, o.chain)
	return binary.AppendUvarint(dst, o.size)
}

var errOp = errors.New("unknown operation")

// readOps calls each for the operations of a record.
func readOps(b []byte, each func(op)) error {
	number := func() (n uint64, ok bool) {
		n, k := binary.Uvarint(b)
		b = b[max(k, 0):]
		return n, k > 0
	}
	text := func() ([]byte, bool) {
		n, ok := number()
		if !ok || n > uint64(len(b)) {
			return nil, false
		}
		out := b[:n]
		b = b[n:]
		return out, true
	}
	for len(b) > 0 {
		o := op{code: b[0]}
		b = b[1:]
		key, ok1 := text()
		value, ok2 := text()
		var ok3, ok4 bool
		o.chain, ok3 = number()
		o.size, ok4 = number()
		if !ok1 || !ok2 || !ok3 || !ok4 || !strings.ContainsRune("pdlxbc", rune(o.code)) {
			return errOp
		}
		if (o.code == opBlob || o.code == opDropBlob) && len(key) != len(Hash{}) {
			return errOp
		}
		o.key, o.value = string(key), bytes.Clone(value)
		each(o)
	}
	return nil
}

func (s *state) apply(o op) {
	switch o.code {
	case opPut:
		s.values[o.key] = o.value
	case opDelete:
		delete(s.values, o.key)
	case opLog:
		s.logs[o.key] = &tail{kind: kindLog, id: o.chain, stream: lane(o.chain), slot: -1}
	case opDrop:
		delete(s.logs, o.key)
	case opBlob:
		s.blobs[Hash([]byte(o.key))] = blob{o.chain, o.size}
	case opDropBlob:
		delete(s.blobs, Hash([]byte(o.key)))
	}
}

func lane(id uint64) string { return fmt.Sprintf("log%d", id%lanes) }

// snapshot is a record that makes the state, in a fixed order.
func (s *state) snapshot() []byte {
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		b = appendOp(b, op{code: opPut, key: key, value: s.values[key]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.logs)) {
		b = appendOp(b, op{code: opLog, key: name, chain: s.logs[name].id})
	}
	byChain := func(a, b Hash) int { return bytes.Compare(a[:], b[:]) }
	for _, h := range slices.SortedFunc(maps.Keys(s.blobs), byChain) {
		b = appendOp(b, op{code: opBlob, key: string(h[:]), chain: s.blobs[h].chain, size: s.blobs[h].size})
	}
	return b
}

// change puts an operation on disk and then into effect. write is held.
func (s *Store) change(o op) error {
	record := appendOp(nil, o)
	if err := s.append(s.index, record); err != nil {
		return err
	}
	s.mu.Lock()
	s.state.apply(o)
	if o.code == opLog {
		s.state.logs[o.key].slot = s.heads.slot()
	}
	s.mu.Unlock()
	if s.size += len(record); s.size > roomy {
		return s.renew()
	}
	return nil
}

// renew begins a new index if that is much smaller. The old one holds until the
// new one's first record is whole.
func (s *Store) renew() error {
	record := s.state.snapshot()
	if s.size < 4*len(record) {
		return nil
	}
	old := s.index
	s.index = &tail{kind: kindIndex, id: s.newID(), stream: "index", slot: old.slot}
	s.size = len(record)
	if err := s.append(s.index, record); err != nil {
		return err
	}
	return s.purge(old.stream, old.id)
}

func checkKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("store: key %.40q has %d bytes: must be 1 to %d", key, len(key), maxKey)
	}
	return nil
}

// Put sets a small value and returns when it is synced.
func (s *Store) Put(key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > maxValue {
		return fmt.Errorf("store: value %q has %d bytes: must be at most %d; store it as a blob", key, len(value),
			maxValue)
	}
	s.write.Lock()
	defer s.write.Unlock()
	return s.change(op{code: opPut, key: key, value: bytes.Clone(value)})
}

// Get returns a value, which is the caller's to keep, or ErrNotFound.
func (s *Store) Get(key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.state.values[key]
	if !ok {
		return nil, ErrNotFound
	}
	return append([]byte{}, v...), nil
}

// Delete removes a value. Removing a missing one is not an error.
func (s *Store) Delete(key string) error {
	s.write.Lock()
	defer s.write.Unlock()
	if _, ok := s.state.values[key]; !ok {
		return nil
	}
	return s.change(op{code: opDelete, key: key})
}

// Keys lists the keys of values that begin with prefix, sorted.
func (s *Store) Keys(prefix string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return names(s.state.values, prefix)
}

func names[V any](m map[string]V, prefix string) []string {
	var out []string
	for k := range m {
		if strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// PutJSON stores a value under a key as JSON.
func (s *Store) PutJSON(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Put(key, b)
}

// GetJSON reads a value that PutJSON stored. A missing key leaves v as it is.
func (s *Store) GetJSON(key string, v any) error {
	b, err := s.Get(key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
