package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"time"
)

// The physical types.
const (
	boolean = iota
	int32Type
	int64Type
	int96
	float
	double
	byteArray
	fixedArray
)

// meaning is the logical type of a column.
type meaning uint8

const (
	plain meaning = iota
	date
	millis
	micros
	nanos
	decimal
	unsigned
	uuid
)

var errValue = errors.New("a value exceeds its page")

// take cuts the next value in plain encoding from a page of values that are not booleans.
func (c *column) take(b []byte) (value, rest []byte, err error) {
	n := 0
	switch c.physical {
	case int32Type, float:
		n = 4
	case int64Type, double:
		n = 8
	case int96:
		n = 12
	case fixedArray:
		n = c.length
	case byteArray:
		if len(b) < 4 {
			return nil, nil, errValue
		}
		size := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(size) > uint64(len(b)) {
			return nil, nil, errValue
		}
		n = int(size)
	}
	if n > len(b) {
		return nil, nil, errValue
	}
	return b[:n], b[n:], nil
}

// text appends a value as text.
func (c *column) text(out, v []byte) []byte {
	le := binary.LittleEndian
	switch c.physical {
	case int32Type:
		if c.meaning == unsigned {
			return strconv.AppendUint(out, uint64(le.Uint32(v)), 10)
		}
		return c.number(out, int64(int32(le.Uint32(v))))
	case int64Type:
		if c.meaning == unsigned {
			return strconv.AppendUint(out, le.Uint64(v), 10)
		}
		return c.number(out, int64(le.Uint64(v)))
	case int96: // nanoseconds of a Julian day, as older programs write times
		const epoch = 2440588
		days := int64(le.Uint32(v[8:])) - epoch
		return appendTime(out, time.Unix(days*86400, int64(le.Uint64(v)%(86400*1e9))), true)
	case float:
		return appendFloat(out, float64(math.Float32frombits(le.Uint32(v))), 32)
	case double:
		return appendFloat(out, math.Float64frombits(le.Uint64(v)), 64)
	case fixedArray:
		if c.meaning == uuid {
			return appendUUID(out, v)
		}
	}
	return append(out, v...)
}

// number appends an integer, which may be a date, a time or a decimal.
func (c *column) number(out []byte, n int64) []byte {
	switch c.meaning {
	case date:
		return append(out, time.Unix(n*86400, 0).UTC().Format(time.DateOnly)...)
	case millis:
		return appendTime(out, time.UnixMilli(n), c.utc)
	case micros:
		return appendTime(out, time.UnixMicro(n), c.utc)
	case nanos:
		return appendTime(out, time.Unix(0, n), c.utc)
	case decimal:
		return appendFloat(out, float64(n)/math.Pow10(c.scale), 64)
	}
	return strconv.AppendInt(out, n, 10)
}

// appendFloat writes 3 for 3.0, because tools turn whole numbers with missing values into fractions. What is not a
// number is missing.
func appendFloat(out []byte, x float64, bits int) []byte {
	if math.IsNaN(x) {
		return out
	}
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.AppendInt(out, int64(x), 10)
	}
	return strconv.AppendFloat(out, x, 'g', -1, bits)
}

// appendUUID writes 550e8400-e29b-41d4-a716-446655440000, as other tools do in CSV files.
func appendUUID(out, v []byte) []byte {
	for i := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, v[i:i+1])
	}
	return out
}

func appendTime(out []byte, t time.Time, utc bool) []byte {
	layout := "2006-01-02T15:04:05.999999"
	if utc {
		layout += "Z"
	}
	return t.UTC().AppendFormat(out, layout)
}
