package models

import (
	"slices"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// ancestry is the versions before a new one, which devices may still have. Devices that have one
// of them download a patch instead of the whole blob.
//
// A patch shows which rows of a table moved. After a sum without noise, the rows that did not
// move are those of items that no device of the cohort has, so no patch crosses such a
// version. (A device that has both models can compare them itself; a patch would tell
// other parties too, and its size would tell observers of the network.) If no sum was taken, or
// if every number of it carries noise, the rows reveal nothing beyond the version itself.
type ancestry struct {
	m    *Models
	next *Version
	past []*Version // without a gap, the newest first
}

const (
	maxBases = 3   // versions of a blob from which patches lead
	overhead = 128 // bytes that a manifest needs to name a patch
)

func (m *Models) ancestry(v *Version, s *Snapshot) (*ancestry, error) {
	newest := m.Newest()
	summed := newest == nil || newest.Round != s.Round
	v.DiffSafe = !s.RolledBack && (!summed || s.Noisy)
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	a := &ancestry{m: m, next: v}
	last := v.Version
	for _, old := range slices.Backward(all) {
		if old.Version != last-1 {
			break // a version is missing, and with it whether a patch may cross it
		}
		a.past = append(a.past, old)
		last = old.Version
	}
	return a, nil
}

// offerSlot offers patches to the values of a slot with rows of width bytes.
func (a *ancestry) offerSlot(manifest *pb.Manifest, slot int, name string, b []byte, width int) error {
	next, safe := name, a.next.DiffSafe
	var bases []string
	for _, old := range a.past {
		if slot >= len(old.Values) || old.Values[slot] != next && !safe {
			break
		}
		next, safe = old.Values[slot], old.DiffSafe
		bases = append(bases, next)
	}
	return a.offer(manifest, name, b, bases, func(base []byte, limit int) []byte {
		return wire.DiffRows(base, b, width, limit)
	})
}

// offerCatalogue offers patches to the catalogue, which is public.
func (a *ancestry) offerCatalogue(manifest *pb.Manifest, name string, b []byte) error {
	var bases []string
	for _, old := range a.past {
		bases = append(bases, old.Catalogue)
	}
	return a.offer(manifest, name, b, bases, func(base []byte, limit int) []byte {
		return wire.DiffCatalogue(base, b, limit)
	})
}

// offer adds the patches that are smaller than half of the whole blob to the manifest.
func (a *ancestry) offer(manifest *pb.Manifest, name string, whole []byte, bases []string,
	diff func(base []byte, limit int) []byte,
) error {
	done := []string{name, ""}
	for _, h := range bases {
		if slices.Contains(done, h) {
			continue
		}
		done = append(done, h)
		if len(done) > 2+maxBases || len(manifest.Patches) == wire.MaxPatches {
			return nil
		}
		base, err := a.m.Read(h)
		if err != nil {
			return nil // an unreadable older blob must not stop a round: devices download the whole one
		}
		patch := diff(base, len(whole)/2-overhead)
		if patch == nil {
			return nil // from older versions the patch is larger still
		}
		put, err := a.m.put(patch)
		if err != nil {
			return err
		}
		target := hash(name)
		manifest.Patches = append(manifest.Patches,
			&pb.Patch{Base: wire.HashBlob(base), Target: target[:], Patch: wire.HashBlob(patch)})
		a.next.Patches = append(a.next.Patches, put)
	}
	return nil
}
