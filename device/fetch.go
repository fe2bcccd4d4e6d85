package device

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// downloads is what a device has downloaded of models, in bytes without headers.
type downloads struct {
	Version uint64 `json:"version"` // the one that it adopted last
	Bytes   uint64 `json:"bytes"`   // for that version, with what was fetched in vain since the one before
	Total   uint64 `json:"all"`     // since the device began to count
}

// add counts what was fetched for a version.
func (f *downloads) add(version, bytes uint64) {
	if f.Total += bytes; f.Version == version { // parts were damaged, and came again
		f.Bytes += bytes
		return
	}
	f.Version, f.Bytes = version, bytes
}

// fetch puts a blob that a manifest names into the store, unless it is there.
func (d *Device) fetch(ctx context.Context, m *pb.Manifest, b *pb.Blob) error {
	if c, shared := d.opt.Blobs.(*memoryBlobs); shared {
		done, err := c.acquire(ctx, [32]byte(b.Hash))
		if err != nil {
			return err
		}
		defer done()
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

// downloadPatch makes a blob of an older one that the device still has, with a change that the
// manifest offers. It returns nil where there is none that helps, where it cannot be had,
// and where it does not lead to what the manifest names: then the whole is fetched.
func (d *Device) downloadPatch(ctx context.Context, m *pb.Manifest, b *pb.Blob) ([]byte, error) {
	for _, c := range m.Patches {
		if !bytes.Equal(c.Target, b.Hash) || c.Patch.Bytes >= b.Bytes {
			continue
		}
		base, err := readBlob(d.opt.Blobs, c.Base)
		if err != nil {
			return nil, err
		}
		if base == nil {
			continue
		}
		change, err := d.download(ctx, c.Patch)
		if err != nil {
			return nil, ctx.Err()
		}
		if data, err := wire.ApplyPatch(base, change, b.Bytes); err == nil && sha256.Sum256(data) == [32]byte(b.Hash) {
			return data, nil
		}
		return nil, nil
	}
	return nil, nil
}

// download fetches all pieces of a blob.
func (d *Device) download(ctx context.Context, b *pb.Blob) ([]byte, error) {
	whole, err := wire.Assemble(b, wire.MaxBlobBytes)
	if err != nil {
		return nil, err
	}
	for !whole.Done() {
		piece, err := d.conn.Fetch(ctx, &pb.FetchRequest{Hash: b.Hash, Offset: whole.Next()})
		if err != nil {
			return nil, err
		}
		if len(piece.Data) == 0 {
			return nil, fmt.Errorf("agent: a blob of %d bytes ends after %d", b.Bytes, whole.Next())
		}
		d.downloaded += uint64(len(piece.Data))
		if err := whole.Add(whole.Next(), piece.Data); err != nil {
			return nil, err
		}
	}
	return whole.Bytes()
}
