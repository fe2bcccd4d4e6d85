package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// record is a decoded thrift struct: an int64, bool, []byte, []any or record by field number.
type record map[int16]any

func (r record) int(field int16) int64 {
	n, _ := r[field].(int64)
	return n
}

func (r record) record(field int16) record {
	s, _ := r[field].(record)
	return s
}

func (r record) list(field int16) []any {
	l, _ := r[field].([]any)
	return l
}

func (r record) has(field int16) bool {
	_, ok := r[field]
	return ok
}

var errMetadata = errors.New("corrupt metadata")

// thrift decodes the compact protocol. Sizes that exceed the remaining bytes are errors. A record of three bytes takes
// some hundred bytes of memory, so that the number of records and values is limited, too.
type thrift struct {
	b     []byte
	pos   int
	spent int // of maxSpent
}

// maxSpent is the largest number of values of a record, its fields and the parts of its lists; a record within it
// counts as perRecord values. The metadata of 100,000 column chunks are about 6,000,000.
const (
	maxSpent  = 8 << 20
	perRecord = 6
)

var errTooMany = fmt.Errorf("the metadata has more than %d values; %s", maxSpent, rewrite)

func (t *thrift) spend(values int) error {
	if t.spent += values; t.spent > maxSpent {
		return errTooMany
	}
	return nil
}

func (t *thrift) byte() (byte, error) {
	if t.pos >= len(t.b) {
		return 0, errMetadata
	}
	t.pos++
	return t.b[t.pos-1], nil
}

func (t *thrift) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.b[t.pos:])
	if n <= 0 {
		return 0, errMetadata
	}
	t.pos += n
	return v, nil
}

func (t *thrift) varint() (int64, error) {
	v, err := t.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

// size reads the number of parts that follow, each of at least one byte.
func (t *thrift) size() (int, error) {
	n, err := t.uvarint()
	if err != nil || n > uint64(len(t.b)-t.pos) {
		return 0, errMetadata
	}
	return int(n), nil
}

// maxDepth is the deepest nesting of a record; those of Parquet have fewer than 10 levels.
const maxDepth = 16

func (t *thrift) record(depth int) (record, error) {
	if depth > maxDepth {
		return nil, errMetadata
	}
	if err := t.spend(perRecord); err != nil {
		return nil, err
	}
	var out record
	last := int16(0)
	for {
		head, err := t.byte()
		if err != nil {
			return nil, err
		}
		if head == 0 {
			return out, nil
		}
		if delta := int16(head >> 4); delta > 0 {
			last += delta
		} else {
			n, err := t.varint()
			if err != nil {
				return nil, err
			}
			last = int16(n)
		}
		if err := t.spend(1); err != nil {
			return nil, err
		}
		kind := head & 15
		var v any
		if kind == 1 || kind == 2 {
			v = kind == 1
		} else if v, err = t.value(kind, depth); err != nil {
			return nil, err
		}
		if out == nil {
			out = record{}
		}
		out[last] = v
	}
}

func (t *thrift) value(kind byte, depth int) (any, error) {
	switch kind {
	case 1, 2: // of a list
		b, err := t.byte()
		return b == 1, err
	case 3:
		b, err := t.byte()
		return int64(int8(b)), err
	case 4, 5, 6:
		return t.varint()
	case 7:
		if len(t.b)-t.pos < 8 {
			return nil, errMetadata
		}
		t.pos += 8
		return int64(0), nil // Parquet has no numbers of this type that we read
	case 8:
		n, err := t.size()
		if err != nil {
			return nil, err
		}
		t.pos += n
		return t.b[t.pos-n : t.pos], nil
	case 9, 10:
		return t.values(depth)
	case 12:
		return t.record(depth + 1)
	}
	return nil, errMetadata // Parquet has no maps
}

func (t *thrift) values(depth int) (any, error) {
	head, err := t.byte()
	if err != nil {
		return nil, err
	}
	n := int(head >> 4)
	if n == 15 {
		if n, err = t.size(); err != nil {
			return nil, err
		}
	}
	if n > len(t.b)-t.pos || depth > maxDepth {
		return nil, errMetadata
	}
	if err := t.spend(n); err != nil {
		return nil, err
	}
	out := make([]any, n)
	for i := range out {
		if out[i], err = t.value(head&15, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}
