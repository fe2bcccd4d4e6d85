package privacy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Cover hides which rows of a table a device touches.
type Cover struct {
	Kind string // dense, buckets or decoys
	N    int    // rows per bucket, or decoys per touched row
}

// Covers parses the cover of a policy.
func (p Policy) Covers() (Cover, error) {
	kind, n, found := strings.Cut(p.Cover, ":")
	if kind == "dense" && !found {
		return Cover{Kind: kind}, nil
	}
	size, err := strconv.Atoi(n)
	if kind != "buckets" && kind != "decoys" || err != nil || size < 1 || size > 1<<20 {
		return Cover{}, fmt.Errorf("cover=%s: must be dense, buckets:N (rows per public bucket) or decoys:N (per "+
			"touched row)", p.Cover)
	}
	return Cover{kind, size}, nil
}

// Partial reports whether a device sends only some rows.
func (c Cover) Partial() bool { return c.Kind == "buckets" || c.Kind == "decoys" }

// reveals describes what an observer still learns from the rows that are sent.
func (c Cover) reveals() string {
	switch c.Kind {
	case "buckets":
		return fmt.Sprintf("which buckets of %d items a device touches", c.N)
	case "decoys":
		return fmt.Sprintf("a set of items of which one in %d is touched; over rounds the touched items recur and "+
			"become visible, so no epsilon covers them", c.N+1)
	}
	return ""
}

// Rows returns the rows to send of a table with the given number of rows, ascending: the
// touched rows, which must ascend, and those that hide them.
func (c Cover) Rows(touched []uint32, items int, s *Source) []uint32 {
	var out []uint32
	switch c.Kind {
	case "buckets":
		for k, id := range touched {
			first := id / uint32(c.N) * uint32(c.N)
			if k > 0 && touched[k-1]/uint32(c.N) == id/uint32(c.N) {
				continue
			}
			for r := first; r < min(first+uint32(c.N), uint32(items)); r++ {
				out = append(out, r)
			}
		}
		return out
	case "decoys":
		out = slices.Clone(touched)
		want := min(len(touched)*(c.N+1), items)
		for len(out) < want {
			for len(out) < want {
				out = append(out, uint32(s.below(uint64(items))))
			}
			slices.Sort(out)
			out = slices.Compact(out)
		}
		return out
	}
	for r := range items {
		out = append(out, uint32(r))
	}
	return out
}
