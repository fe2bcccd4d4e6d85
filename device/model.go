package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// errBlobMissing means that a part of the model is missing or corrupt.
var errBlobMissing = errors.New("a part of the model is missing or corrupt; the device downloads it at the next " +
	"check-in")

// adopt downloads the model of a manifest and makes it the device's model.
func (d *Device) adopt(ctx context.Context, s *pb.SignedManifest) error {
	m, err := d.opt.Workspace.manifests.verify(d.record.CoordinatorKey, d.record.Federation, s)
	if err != nil {
		return err
	}
	old, err := d.manifest()
	hasModel := err == nil
	if !hasModel {
		old = nil
	}
	if !d.greeted && (!hasModel || !bytes.Equal(m.Run, old.Run)) { // a run has begun since the last Hello
		if err := d.hello(ctx); err != nil {
			return err
		}
	}
	if hasModel && m.Version == old.Version && bytes.Equal(s.Body, d.record.Manifest) {
		if d.complete(m) {
			return nil
		}
	} else if hasModel {
		if err := checkOrder(old, m); err != nil {
			return err
		}
	}
	news, err := d.fetchPlan(ctx, old, m)
	if err != nil {
		return err
	}
	keep := [][32]byte{}
	for _, b := range blobsOf(m) {
		keep = append(keep, [32]byte(b.Hash))
		if err := d.fetch(ctx, m, b); err != nil {
			return err
		}
	}
	if err := d.checkNumbers(m); err != nil {
		return err
	}
	err = d.update(func(r *record) error {
		if string(r.Manifest) != string(s.Body) {
			news(r)
		}
		r.Manifest, r.Signature = s.Body, s.Signature
		r.Downloads.add(m.Version, d.downloaded)
		return nil
	})
	if err != nil {
		return err
	}
	d.downloaded = 0
	d.verifiedVersion = m.Version
	return d.opt.Blobs.Keep(keep)
}

// restoreModel downloads what is missing of the device's model, unless the coordinator does not have that version.
func (d *Device) restoreModel(ctx context.Context) error {
	m, err := d.manifest()
	if err != nil || d.complete(m) {
		return nil
	}
	if err := d.adopt(ctx, d.held()); !hasCode(err, rpc.NoSuchBlob) {
		return err
	}
	return nil
}

// checkNumbers refuses a model that the device could not recommend with: a number is not finite, or exceeds the limit
// that its slot declares, beyond which no coordinator publishes one. The device keeps the model that it has.
func (d *Device) checkNumbers(m *pb.Manifest) error {
	w := d.opt.Workspace
	w.mu.Lock()
	v, err := w.vet(m, d.stored)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	for i, b := range m.Slots {
		if len(b.GetHash()) == 0 {
			continue
		}
		data, err := d.stored(b)
		if limit := v.plan.Slots[i].Limit; err == nil && limit > 0 {
			err = wire.CheckLimit(data, limit)
		} else if err == nil {
			err = wire.CheckFinite(data)
		}
		if err != nil {
			return fmt.Errorf("model version %d is refused, slot %d: %w", m.Version, i, err)
		}
	}
	return nil
}

// fetchPlan downloads the plan of a manifest and refuses one that is too large, or that does not keep its
// privacy guarantee, before the device downloads anything large. It returns what adopting it changes.
func (d *Device) fetchPlan(ctx context.Context, old, m *pb.Manifest) (adopt func(*record), err error) {
	if err := d.fetch(ctx, m, m.Plan); err != nil {
		return nil, err
	}
	w := d.opt.Workspace
	plan, err := d.stored(m.Plan)
	if err != nil {
		return nil, err
	}
	if err := w.checkSizes(m, plan); err != nil {
		return nil, err
	}
	if len(m.Features.GetHash()) > 0 {
		if err := d.fetch(ctx, m, m.Features); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.vet(m, d.stored)
	if err != nil {
		return nil, err
	}
	g, err := v.describe(m)
	if err == nil {
		err = d.record.checkPlan(g)
	}
	if errors.Is(err, ErrGuarantee) {
		d.logDeclined("plan", m.Run, m.Round, err)
	}
	stack := v.stack
	return func(r *record) {
		if news := r.adopt(old, m, g, stack); news != "" {
			now := d.opt.Now()
			r.log(LogEntry{
				CreatedAt: now, SettledAt: now, Kind: "budget", Run: hex.EncodeToString(m.Run), State: noted,
				Reason: news, ModelVersion: m.Version,
			})
		}
	}, err
}

// complete reports whether the device has all blobs of a manifest. It compares hashes the first
// time, and sizes afterwards.
func (d *Device) complete(m *pb.Manifest) bool {
	for _, b := range blobsOf(m) {
		if d.verifiedVersion != m.Version {
			data, err := readBlob(d.opt.Blobs, b)
			if err != nil || data == nil {
				return false
			}
			continue
		}
		data, err := d.opt.Blobs.Get([32]byte(b.Hash))
		if err != nil || uint64(len(data)) != b.Bytes {
			return false
		}
	}
	d.verifiedVersion = m.Version
	return true
}

// manifest returns the device's manifest. It verifies the signature again unless the same bytes
// were verified before, because a state file may have been changed.
func (d *Device) manifest() (*pb.Manifest, error) {
	if len(d.record.Manifest) == 0 {
		return nil, ErrNoModel
	}
	return d.opt.Workspace.manifests.verify(d.record.CoordinatorKey, d.record.Federation, &pb.SignedManifest{
		Body:      d.record.Manifest,
		Signature: d.record.Signature,
	})
}

// rollbacks returns the number of rollbacks that the device knows of.
func (d *Device) rollbacks() uint32 {
	m, err := d.manifest()
	if err != nil {
		return 0
	}
	return m.Rollbacks
}

// blobsOf returns the blobs that a manifest names.
func blobsOf(m *pb.Manifest) (out []*pb.Blob) {
	for _, b := range append([]*pb.Blob{m.Plan, m.Catalogue, m.Features}, m.Slots...) {
		if len(b.GetHash()) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// stored returns a blob that adopt has downloaded. If it is missing or corrupt, the next check-in
// downloads it again.
func (d *Device) stored(b *pb.Blob) ([]byte, error) {
	data, err := readBlob(d.opt.Blobs, b)
	if err == nil && data == nil {
		d.verifiedVersion = 0
		return nil, fmt.Errorf("%w (%x)", errBlobMissing, b.Hash[:4])
	}
	return data, err
}

// readBlob returns a blob of the store, or nil if it is missing or does not match its hash.
func readBlob(store Blobs, b *pb.Blob) ([]byte, error) {
	data, err := store.Get([32]byte(b.Hash))
	if err != nil || data == nil || uint64(len(data)) != b.Bytes {
		return nil, err
	}
	if m, ok := store.(*memoryBlobs); ok && m.isChecked([32]byte(b.Hash), data) {
		return data, nil
	}
	if sha256.Sum256(data) != [32]byte(b.Hash) {
		return nil, nil
	}
	return data, nil
}

// downloads counts downloaded bytes of models, without headers.
type downloads struct {
	Version uint64 `json:"version"` // the version that was adopted last
	Bytes   uint64 `json:"bytes"`   // bytes for that version, with interrupted downloads since the one before
	Total   uint64 `json:"all"`     // bytes for all versions
}

// add counts the bytes of a version. Corrupt parts of the same version may be downloaded again.
func (f *downloads) add(version, bytes uint64) {
	f.Total += bytes
	if f.Version == version {
		f.Bytes += bytes
		return
	}
	f.Version, f.Bytes = version, bytes
}

// fetch downloads a blob of a manifest unless the device has it.
func (d *Device) fetch(ctx context.Context, m *pb.Manifest, b *pb.Blob) error {
	if shared, ok := d.opt.Blobs.(*memoryBlobs); ok {
		release, err := shared.acquire(ctx, [32]byte(b.Hash))
		if err != nil {
			return err
		}
		defer release()
	}
	if data, err := readBlob(d.opt.Blobs, b); err != nil || data != nil {
		return err
	}
	data, err := d.downloadPatch(ctx, m, b)
	if err == nil && data == nil {
		data, err = d.download(ctx, b)
	}
	if err != nil {
		return err
	}
	return d.opt.Blobs.Put([32]byte(b.Hash), data)
}

// downloadPatch builds a blob from an older one that the device has and a patch of the manifest.
// It returns nil if that is impossible; then the device downloads the whole blob.
func (d *Device) downloadPatch(ctx context.Context, m *pb.Manifest, b *pb.Blob) ([]byte, error) {
	for _, p := range m.Patches {
		if !bytes.Equal(p.Target, b.Hash) || p.Patch.Bytes >= b.Bytes {
			continue
		}
		base, err := readBlob(d.opt.Blobs, p.Base)
		if err != nil {
			return nil, err
		}
		if base == nil {
			continue
		}
		patch, err := d.download(ctx, p.Patch)
		if err != nil {
			return nil, ctx.Err()
		}
		data, err := wire.ApplyPatch(base, patch, b.Bytes)
		if err != nil || sha256.Sum256(data) != [32]byte(b.Hash) {
			return nil, nil
		}
		return data, nil
	}
	return nil, nil
}

// download fetches all pieces of a blob.
func (d *Device) download(ctx context.Context, b *pb.Blob) ([]byte, error) {
	blob, err := wire.Assemble(b, wire.MaxBlobBytes)
	if err != nil {
		return nil, err
	}
	for !blob.Done() {
		piece, err := d.conn.Fetch(ctx, &pb.FetchRequest{Hash: b.Hash, Offset: blob.Next()})
		if err != nil {
			return nil, err
		}
		if len(piece.Data) == 0 {
			return nil, fmt.Errorf("the download of a blob ended after %d of %d bytes", blob.Next(), b.Bytes)
		}
		d.downloaded += uint64(len(piece.Data))
		if err := blob.Add(blob.Next(), piece.Data); err != nil {
			return nil, err
		}
	}
	return blob.Bytes()
}
