package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
)

// patches checks that a patch turns base into next, bit for bit, and returns its length.
func patches(t *testing.T, base, next, change []byte) int {
	t.Helper()
	got, err := ApplyPatch(base, change, uint64(len(next)))
	if err != nil || !bytes.Equal(got, next) {
		t.Fatalf("%d bytes made of %d by %d are not the %d that they should be: %v", len(got), len(base), len(change),
			len(next), err)
	}
	return len(change)
}

func TestPatchTurnsOldRowsIntoNewOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		width := 1 + r.IntN(40)
		base := make([]byte, width*r.IntN(30))
		for i := range base {
			base[i] = byte(r.Uint32())
		}
		next := slices.Clone(base)
		for k := r.IntN(8); k > 0 && len(next) > 0; k-- {
			next[r.IntN(len(next))] ^= 1 << r.IntN(8)
		}
		if r.IntN(4) == 0 {
			next = next[:r.IntN(len(next)+1)]
		}
		for range width * r.IntN(4) {
			next = append(next, byte(r.Uint32()))
		}
		patches(t, base, next, DiffRows(base, next, width, math.MaxInt))
	}
}

func TestPatchIsAsLongAsTheChange(t *testing.T) {
	const rows, width = 1682, 128
	base := make([]byte, rows*width)
	rand.NewChaCha8([32]byte{1}).Read(base)
	next := append(slices.Clone(base), make([]byte, 5*width)...)
	if n := patches(t, base, next, DiffRows(base, next, width, math.MaxInt)); n > 5*width+16 {
		t.Errorf("5 rows of %d bytes take %d", width, n)
	}
	next[700*width]++
	if n := patches(t, base, next, DiffRows(base, next, width, math.MaxInt)); n > 6*width+32 {
		t.Errorf("6 rows of %d bytes take %d", width, n)
	}
	if DiffRows(base, next, width, 6*width) != nil {
		t.Error("a change is longer than it may be")
	}
	if patches(t, base, base, DiffRows(base, base, width, 20)) > 20 {
		t.Error("no change is long")
	}
}

func TestPatchOfACatalogueIsItsNewItems(t *testing.T) {
	c := &pb.Catalogue{Version: 127}
	for i := range 500 {
		c.Items = append(c.Items, &pb.Item{Id: fmt.Sprint(i), Title: strings.Repeat("title ", 1+i%5)})
		c.Popular = append(c.Popular, uint32(i))
	}
	base := must2(t)(Marshal(c))
	next := proto.Clone(c).(*pb.Catalogue)
	next.Version++
	next.Items[300].Retired = true
	for i := range 5 {
		next.Items = append(next.Items, &pb.Item{Id: fmt.Sprint("new ", i), Title: "a title"})
	}
	b := must2(t)(Marshal(next))
	if n := patches(t, base, b, DiffCatalogue(base, b, math.MaxInt)); n > 200 {
		t.Errorf("six items take %d bytes", n)
	}
	patches(t, b, base, DiffCatalogue(b, base, math.MaxInt)) // and back
	next.Popular = nil
	b = must2(t)(Marshal(next))
	patches(t, base, b, DiffCatalogue(base, b, math.MaxInt))
	patches(t, b, base, DiffCatalogue(b, base, math.MaxInt))
	if DiffCatalogue(base, []byte{0xff}, 100) != nil {
		t.Error("an invalid message has a patch")
	}
}

func TestRefusesInvalidPatches(t *testing.T) {
	base := []byte("abcdef")
	form := func(size uint64, steps ...any) []byte {
		b := binary.AppendUvarint([]byte{patchVersion}, size)
		for _, s := range steps {
			switch s := s.(type) {
			case int:
				b = binary.AppendUvarint(b, uint64(s))
			case string:
				b = append(b, s...)
			}
		}
		return b
	}
	if got, err := ApplyPatch(base, form(6, 2, 3, 3, "xyz", 1, 0, 0), 6); err != nil || string(got) != "abxyzf" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, c := range map[string][]byte{
		"nothing":                nil,
		"another form":           {patchVersion + 1, 0},
		"no size":                {patchVersion},
		"another size":           form(7, 6, 0, 1, "x"),
		"a size out of nothing":  form(1<<40, 6, 0, 0),
		"more than the base":     form(6, 7, 0, 0),
		"drops more":             form(6, 3, 4, 3, "xyz"),
		"puts what is not there": form(6, 3, 0, 3, "xy"),
		"makes more":             form(6, 6, 0, 1, "x"),
		"makes less":             form(6, 5, 0, 0),
		"a step of nothing":      form(6, 6, 0, 0, 0, 0, 0),
		"half a step":            form(6, 6, 0),
		"a long number":          append(form(6), 0x86, 0, 0, 0),
		"an endless number":      append(form(6), bytes.Repeat([]byte{0xff}, 12)...),
	} {
		if got, err := ApplyPatch(base, c, 6); err == nil {
			t.Errorf("%s: it makes %q", name, got)
		}
	}
}

func TestPatchTargetsMustBeInTheManifest(t *testing.T) {
	good := func() *pb.Manifest {
		m := aManifest()
		m.Patches = []*pb.Patch{
			{Base: HashBlob([]byte("old")), Target: m.Slots[0].Hash, Patch: HashBlob([]byte("x"))},
			{Base: HashBlob([]byte("o")), Target: m.Catalogue.Hash, Patch: HashBlob(nil)},
		}
		return m
	}
	if _, err := Marshal(good()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *pb.Patch){
		"to nothing":    func(c *pb.Patch) { c.Target = HashBlob([]byte("other")).Hash },
		"to the plan":   func(c *pb.Patch) { c.Target = HashBlob([]byte("plan")).Hash },
		"without next":  func(c *pb.Patch) { c.Target = nil }, // the second slot has no hash
		"without base":  func(c *pb.Patch) { c.Base = nil },
		"without bytes": func(c *pb.Patch) { c.Patch = nil },
		"too large":     func(c *pb.Patch) { c.Patch.Bytes = MaxBlobBytes + 1 },
	} {
		m := good()
		if change(m.Patches[0]); checkManifest(m) == nil {
			t.Errorf("a change %s is let through", name)
		}
	}
	m := good()
	if m.Patches = slices.Repeat(m.Patches, MaxPatches); checkManifest(m) == nil {
		t.Error("too many changes are let through")
	}
	if m.Patches = m.Patches[:MaxPatches]; checkManifest(m) != nil {
		t.Error("as many as may be are refused")
	}
	if _, err := Marshal(m); err != nil {
		t.Error(err)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("abcdef"), DiffRows([]byte("abcdef"), []byte("abxxefgh"), 2, 100), uint16(8))
	f.Add([]byte{}, []byte{patchVersion, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, base, change []byte, size uint16) {
		got, err := ApplyPatch(base, change, uint64(size))
		if err != nil {
			return
		}
		if len(got) != int(size) || len(got) > len(base)+len(change) {
			t.Fatalf("%d bytes of %d and %d: want %d", len(got), len(base), len(change), size)
		}
		again, err := ApplyPatch(base, DiffRows(base, got, 3, math.MaxInt), uint64(size))
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%x comes back as %x, %v", got, again, err)
		}
	})
}

func FuzzCatalogueDiff(f *testing.F) {
	b := must2(f)(Marshal(aCatalogue()))
	f.Add(b, append(slices.Clone(b), 0x12, 0))
	f.Fuzz(func(t *testing.T, base, next []byte) {
		change := DiffCatalogue(base, next, math.MaxInt)
		if change == nil {
			return
		}
		if got, err := ApplyPatch(base, change, uint64(len(next))); err != nil || !bytes.Equal(got, next) {
			t.Fatalf("%x comes back as %x, %v", next, got, err)
		}
	})
}
