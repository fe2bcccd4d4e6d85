package device

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/wire"
)

// changing is a coordinator whose second version differs from the first in one row of a table, and that
// offers a patch. spoil may change the patch.
func changing(t *testing.T, spoil func(f *fakeCoordinator, c *pb.Patch)) (f *fakeCoordinator, d *Device,
	m *pb.Manifest, blobs Blobs,
) {
	f = newFake(t, "fedmf", 2, "dim", "64")
	f.publish()
	r := f.device(0)
	d, blobs = r.open(), r.blobs
	if _, err := d.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	old := &pb.Manifest{}
	if err := proto.Unmarshal(f.signed.Body, old); err != nil {
		t.Fatal(err)
	}
	f.mem.Value(0)[64*30] += 0.5
	f.edit = func(next *pb.Manifest) {
		m = next
		for i, s := range next.Slots {
			if len(s.Hash) == 0 || string(s.Hash) == string(old.Slots[i].Hash) {
				continue
			}
			b := wire.DiffRows(f.blobs[[32]byte(old.Slots[i].Hash)], f.blobs[[32]byte(s.Hash)], 4*64, math.MaxInt)
			c := &pb.Patch{Base: old.Slots[i], Target: s.Hash, Patch: wire.HashBlob(b)}
			f.blobs[[32]byte(c.Patch.Hash)] = b
			if spoil != nil {
				spoil(f, c)
			}
			next.Patches = append(next.Patches, c)
		}
		if len(next.Patches) != 1 {
			t.Fatalf("%d slots have changed", len(next.Patches))
		}
	}
	f.publish()
	f.bytes = 0
	return f, d, m, blobs
}

// downloadedBytes lets the device adopt the newest version, and returns the downloaded bytes.
func downloadedBytes(t *testing.T, f *fakeCoordinator, d *Device, m *pb.Manifest) int {
	t.Helper()
	told, err := d.Step(context.Background())
	if err != nil || told.ModelVersion != m.Version {
		t.Fatalf("%+v, %v: want version %d", told, err, m.Version)
	}
	for _, b := range blobsOf(m) {
		if data, err := readBlob(d.opt.Blobs, b); err != nil || data == nil {
			t.Fatalf("blob %x is not as the manifest names it: %v", b.Hash[:4], err)
		}
	}
	if list, err := d.Recommend(3); err != nil || list.ModelVersion != m.Version {
		t.Fatalf("%+v, %v", list, err)
	}
	return f.bytes
}

const wholeSlot = 60 * 64 * 4

func TestDownloadsOnlyChangedRows(t *testing.T) {
	f, d, m, _ := changing(t, nil)
	if n := downloadedBytes(t, f, d, m); n > 64*4+32 {
		t.Errorf("a row of 256 bytes took %d bytes", n)
	}
}

func TestDownloadsWholeBlobWithoutTheBase(t *testing.T) {
	for name, lose := range map[string]func(b Blobs, base [32]byte) error{
		"missing": func(b Blobs, base [32]byte) error {
			delete(b.(*memoryBlobs).blobs, base)
			return nil
		},
		"damaged": func(b Blobs, base [32]byte) error {
			data, _ := b.Get(base)
			data = slices.Clone(data)
			data[5]++
			b.(*memoryBlobs).blobs[base] = data
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, d, m, blobs := changing(t, nil)
			if err := lose(blobs, [32]byte(m.Patches[0].Base.Hash)); err != nil {
				t.Fatal(err)
			}
			if n := downloadedBytes(t, f, d, m); n != wholeSlot {
				t.Errorf("%d bytes came, want the whole slot: %d", n, wholeSlot)
			}
		})
	}
}

func TestWrongPatchDoesNoHarm(t *testing.T) {
	for name, spoil := range map[string]func(f *fakeCoordinator, c *pb.Patch){
		"of another row": func(f *fakeCoordinator, c *pb.Patch) {
			b := slices.Clone(f.blobs[[32]byte(c.Patch.Hash)])
			b[len(b)-1]++
			c.Patch = wire.HashBlob(b)
			f.blobs[[32]byte(c.Patch.Hash)] = b
		},
		"no change": func(f *fakeCoordinator, c *pb.Patch) {
			c.Patch = wire.HashBlob([]byte("nonsense"))
			f.blobs[[32]byte(c.Patch.Hash)] = []byte("nonsense")
		},
		"other bytes than named": func(f *fakeCoordinator, c *pb.Patch) {
			b := slices.Clone(f.blobs[[32]byte(c.Patch.Hash)])
			b[len(b)-1]++
			f.blobs[[32]byte(c.Patch.Hash)] = b
		},
		"gone":   func(f *fakeCoordinator, c *pb.Patch) { delete(f.blobs, [32]byte(c.Patch.Hash)) },
		"larger": func(_ *fakeCoordinator, c *pb.Patch) { c.Patch.Bytes = wholeSlot },
	} {
		t.Run(name, func(t *testing.T) {
			f, d, m, blobs := changing(t, spoil)
			if n := downloadedBytes(t, f, d, m); n < wholeSlot {
				t.Errorf("%d bytes came, want the whole slot: %d", n, wholeSlot)
			}
			for h, b := range blobs.(*memoryBlobs).blobs {
				if sha256.Sum256(b) != h {
					t.Errorf("the store has bytes under another name")
				}
			}
		})
	}
}

// The current version is the base of the next one: it stays until that one is complete.
func TestKeepsTheBaseUntilTheNextVersionIsComplete(t *testing.T) {
	f, d, m, _ := changing(t, nil)
	f.items[3].Title = "another title" // the catalogue changes too, and cannot be downloaded yet
	f.publish()
	if err := proto.Unmarshal(f.signed.Body, m); err != nil {
		t.Fatal(err)
	}
	catalogue := [32]byte(m.Catalogue.Hash)
	b := f.blobs[catalogue]
	delete(f.blobs, catalogue)
	if _, err := d.Step(context.Background()); err == nil {
		t.Fatal("a version without its catalogue is adopted")
	}
	f.blobs[catalogue], f.bytes = b, 0
	if n := downloadedBytes(t, f, d, m); n != len(b)+int(m.Patches[0].Patch.Bytes) {
		t.Errorf("%d bytes came, want the catalogue of %d and the change of %d", n, len(b), m.Patches[0].Patch.Bytes)
	}
}

// An owner sees how many bytes were downloaded in total and for the current version.
func TestCountsDownloadedBytes(t *testing.T) {
	f := newFake(t, "pfedrec", 1, "dim", "4")
	f.publish()
	r := f.device(0)
	before := 0
	for n := range 3 {
		if n == 2 { // the blobs of the version before are lost
			r.blobs = NewMemoryBlobs()
		}
		d := r.open() // the count is saved
		version := f.version
		if _, err := d.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := r.open().About()
		if err != nil || a.ModelVersion != version || a.DownloadedBytes != uint64(f.bytes-before) ||
			a.DownloadedTotal != uint64(f.bytes) || f.bytes == before {
			t.Fatalf("step %d: %+v, %v; %d bytes were fetched, and %d before", n, a, err, f.bytes, before)
		}
		before = f.bytes
	}
	a := downloads{3, 10, 50}
	if a.add(3, 5); a != (downloads{3, 15, 55}) {
		t.Errorf("the same version again makes it %+v", a)
	}
	if a.add(4, 0); a != (downloads{4, 0, 55}) {
		t.Errorf("a version of parts that are there makes it %+v", a)
	}
}

// A coordinator that sends features, or other tables that devices only read, which are not finite, exceed their limit,
// or have another size, gets an error.
func TestRefusesHostileFeatures(t *testing.T) {
	for _, name := range []string{"bank", "tacit"} {
		for what, bad := range map[string]float32{
			"must be finite": float32(math.NaN()), "must be at most": 1e30,
		} {
			f := newFake(t, name, 2, "rank", "8", "width", "8", "softmax", "16")
			f.publish()
			d := f.device(0).open()
			if _, err := d.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range f.plan.Slots {
				s := &f.plan.Slots[i]
				if s.Scope != method.Shared || s.Upload != method.Broadcast || s.Limit == 0 && bad == bad {
					continue
				}
				x := &f.mem.Value(i)[0]
				was := *x
				*x = bad
				f.publish()
				if _, err := d.Step(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
					t.Errorf("%s: slot %s with %g gives %v, want an error that says %q", name, s.Name, bad, err, what)
				}
				*x = was
			}
			f.publish()
			if _, err := d.Step(t.Context()); err != nil {
				t.Errorf("%s: the device does not recover: %v", name, err)
			}
			// A table that is one number short.
			f.spec.Shape[1]--
			f.publish()
			if _, err := d.Step(t.Context()); err == nil {
				t.Errorf("%s: the device takes a plan whose slots have another size", name)
			}
		}
	}
}

// A device does not adopt a model with a number that is not finite: it keeps the one that it has, and
// adopts the next one.
func TestRefusesAModelThatIsNotFinite(t *testing.T) {
	for name, bad := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1))} {
		f := newFake(t, "fedmf", 2, "dim", "64")
		f.publish()
		d := f.device(0).open()
		first, err := d.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		x := &f.mem.Value(0)[64*30]
		was := *x
		*x = bad
		f.publish()
		if _, err := d.Step(context.Background()); err == nil || !strings.Contains(err.Error(), "must be finite") {
			t.Errorf("%s: adopting it gives %v", name, err)
		}
		list, err := d.Recommend(3)
		if err != nil || list.ModelVersion != first.ModelVersion {
			t.Errorf("%s: it recommends with version %d (%v), want %d", name, list.ModelVersion, err,
				first.ModelVersion)
		}
		*x = was
		f.publish()
		if next, err := d.Step(context.Background()); err != nil || next.ModelVersion != first.ModelVersion+2 {
			t.Errorf("%s: version %d (%v) follows, want %d", name, next.ModelVersion, err, first.ModelVersion+2)
		}
	}
}
