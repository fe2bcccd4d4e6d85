package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rows"
)

// hashWith is the hash of data of which something else determines results: how it is split.
func hashWith(hash, what string, columns ...[]int32) string {
	sum := sha256.New()
	sum.Write([]byte("tacit data 1\n" + hash + "\n" + what + "\n"))
	for _, c := range columns {
		b := make([]byte, 0, 4*len(c))
		for _, x := range c {
			b = binary.LittleEndian.AppendUint32(b, uint32(x))
		}
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// hashFeatures makes a hash depend on columns of features: their categories by number, or their numbers. Names of
// columns and categories do not count. It returns the hash itself if there are no columns.
//
// The hashed stream: "tacit features 1\n", the hash of the rows, a line break; then for each column, of users, items
// and rows in this order: as uint64 0, 1 or 2 for these, the number of categories, and the lengths of Code, Start and
// Value; Code and Start as uint32, and Value as float32.
func hashFeatures(hash string, f *Features) string {
	if len(f.User)+len(f.Item)+len(f.Row) == 0 {
		return hash
	}
	le := binary.LittleEndian
	sum := sha256.New()
	sum.Write([]byte("tacit features 1\n" + hash + "\n"))
	for kind, list := range [][]rows.Column{f.User, f.Item, f.Row} {
		for _, c := range list {
			var b []byte
			for _, n := range []int{kind, c.Card, len(c.Code), len(c.Start), len(c.Value)} {
				b = le.AppendUint64(b, uint64(n))
			}
			for _, x := range slices.Concat(c.Code, c.Start) {
				b = le.AppendUint32(b, x)
			}
			for _, x := range c.Value {
				b = le.AppendUint32(b, math.Float32bits(x))
			}
			sum.Write(b)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// hashOf is the SHA-256 of the indexed rows in hexadecimal. It depends only on users, items, values and times, so
// files in different formats with the same content have the same hash. Names and titles do not count.
//
// The hashed stream, all numbers little-endian: "tacit rows 1\n";
// uint64 users; uint64 items; then for each user: uint64 rows; a byte, 1 if
// there are values plus 2 if there are times; the items as uint32; the values
// as float32; the times as int64.
func hashOf(src Source) string {
	le := binary.LittleEndian
	sum := sha256.New()
	b := []byte("tacit rows 1\n")
	b = le.AppendUint64(b, uint64(src.Users()))
	b = le.AppendUint64(b, uint64(src.Items()))
	var h History
	for u := range src.Users() {
		src.History(u, &h)
		b = le.AppendUint64(b, uint64(len(h.Items)))
		has := byte(0)
		if h.Values != nil {
			has |= 1
		}
		if h.Times != nil {
			has |= 2
		}
		b = append(b, has)
		for _, i := range h.Items {
			b = le.AppendUint32(b, i)
		}
		for _, v := range h.Values {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
		for _, t := range h.Times {
			b = le.AppendUint64(b, uint64(t))
		}
		sum.Write(b)
		b = b[:0]
	}
	sum.Write(b)
	return hex.EncodeToString(sum.Sum(nil))
}
