package coordinator

import (
	"encoding/hex"
	"slices"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// lineage is the versions that a new one comes from: what devices may still have.
//
// A change says which rows of a table moved. After a sum without noise the rows that did
// not move are those of items that nobody of the cohort has, so between such a version and
// the one before it no change is offered, nor over it. (Whoever had both models could
// compare them: a change would tell others too, and its size those on the way.) Where no
// sum was taken, and where every number of it has noise, rows tell nothing that the version
// does not. A sum that moves every row for whoever is in it needs no rule: its change is
// as long as the table.
type lineage struct {
	c    *Coordinator
	next *version
	past []*version // without a gap, the newest first
}

const (
	mostBases = 3   // versions of a blob that changes lead from
	overhead  = 128 // bytes that it takes to name a change
)

// lineage begins a version.
func (c *Coordinator) lineage(v *version) (*lineage, error) {
	summed := c.newest == nil || c.newest.Round != c.engine.Next
	v.Clear = v.Manifest == nil && (!summed || c.engine.Guard != nil)
	v.Changes = nil
	all, err := c.versions()
	if err != nil {
		return nil, err
	}
	l, last := &lineage{c: c, next: v}, v.Version
	for _, old := range slices.Backward(all) {
		if old.Version != last-1 { // one is lost, and whatever it would have forbidden
			break
		}
		l.past, last = append(l.past, old), old.Version
	}
	return l, nil
}

// offerSlot offers changes to the values of a slot, of rows of so many bytes.
func (l *lineage) offerSlot(m *pb.Manifest, slot int, name string, b []byte, width int) error {
	was, clear := name, l.next.Clear
	var bases []string
	for _, old := range l.past {
		if slot >= len(old.Values) || old.Values[slot] != was && !clear {
			break
		}
		was, clear = old.Values[slot], old.Clear
		bases = append(bases, was)
	}
	return l.offer(m, name, b, bases, func(base []byte, most int) []byte {
		return wire.DiffRows(base, b, width,
			most)
	})
}

// offerCatalogue offers changes to the catalogue, which is public.
func (l *lineage) offerCatalogue(m *pb.Manifest, name string, b []byte) error {
	var bases []string
	for _, old := range l.past {
		bases = append(bases, old.Catalogue)
	}
	return l.offer(m, name, b, bases, func(base []byte, most int) []byte { return wire.DiffCatalogue(base, b, most) })
}

// offer puts the changes that are worth it into the manifest: under half of the whole.
func (l *lineage) offer(m *pb.Manifest, name string, whole []byte, bases []string,
	diff func(base []byte, most int) []byte,
) error {
	seen := []string{name, ""}
	for _, h := range bases {
		if slices.Contains(seen, h) {
			continue
		}
		if seen = append(seen, h); len(seen) > 2+mostBases || len(m.Patches) == wire.MaxPatches {
			return nil
		}
		base, err := l.c.st.Blob(hashOf(h))
		if err != nil { // a round does not end over an older model: devices fetch the whole
			return nil
		}
		change := diff(base, len(whole)/2-overhead)
		if change == nil { // from further back it takes more
			return nil
		}
		put, err := l.c.st.PutBlob(change)
		if err != nil {
			return err
		}
		next := hashOf(name)
		m.Patches = append(m.Patches, &pb.Patch{
			Base: wire.HashBlob(base), Target: next[:],
			Patch: wire.HashBlob(change),
		})
		l.next.Changes = append(l.next.Changes, hex.EncodeToString(put[:]))
	}
	return nil
}
