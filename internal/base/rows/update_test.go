package rows

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// randomUpdate makes an update of up to five parts, with every row and with listed
// ones, with zeros left out and not, some of them without a row.
func randomUpdate(r *rng.Rand) *Update {
	u := &Update{Parts: []Part{}}
	for range r.Uint32n(6) {
		p := Part{Slot: uint16(r.Uint64()), Dim: 1 + int(r.Uint32n(9))}
		if r.Uint32n(3) == 0 {
			p.Shrunk = r.Norm()
		}
		rows := int(r.Uint32n(6))
		if r.Uint32n(2) == 0 {
			p.IDs = make([]uint32, rows)
			id := uint32(0)
			for k := range p.IDs {
				id += 1 + r.Uint32n(1000)
				p.IDs[k] = id
			}
		}
		p.Sparse = r.Uint32n(2) == 0
		if p.Sparse && r.Uint32n(12) == 0 {
			p.Dim += 140 // distances of two bytes
		}
		zeros := r.Uint32n(21)
		p.Data = make([]float32, rows*p.Dim)
		for i := range p.Data {
			if r.Uint32n(20) < zeros {
				continue
			}
			for {
				p.Data[i] = math.Float32frombits(uint32(r.Uint64())) // any finite float, -0 and subnormals too
				if p.Data[i]-p.Data[i] == 0 {
					break
				}
			}
		}
		u.Parts = append(u.Parts, p)
	}
	return u
}

// sameUpdate compares to the bit: -0 is not 0.
func sameUpdate(a, b *Update) error {
	if len(a.Parts) != len(b.Parts) {
		return fmt.Errorf("%d parts, want %d", len(a.Parts), len(b.Parts))
	}
	for i := range a.Parts {
		p, q := &a.Parts[i], &b.Parts[i]
		bits := func(xs []float32) (out []uint32) {
			for _, x := range xs {
				out = append(out, math.Float32bits(x))
			}
			return out
		}
		if p.Slot != q.Slot || p.Dim != q.Dim || p.Shrunk != q.Shrunk || p.Sparse != q.Sparse ||
			(p.IDs == nil) != (q.IDs == nil) ||
			!slices.Equal(p.IDs, q.IDs) || !slices.Equal(bits(p.Data), bits(q.Data)) {
			return fmt.Errorf("part %d is %+v, want %+v", i, *p, *q)
		}
	}
	return nil
}

func encode(t testing.TB, u *Update) []byte {
	t.Helper()
	b, err := u.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUpdatesComeBackAsTheyWere(t *testing.T) {
	r := rng.New(rng.Test)
	for range 2000 {
		u := randomUpdate(&r)
		b := encode(t, u)
		if len(b) != u.Size() {
			t.Fatalf("%d bytes, and Size says %d", len(b), u.Size())
		}
		var back Update
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatalf("%v of %+v", err, u)
		}
		if err := sameUpdate(&back, u); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendBinaryAppends(t *testing.T) {
	r := rng.New(rng.Test, 1)
	u := randomUpdate(&r)
	got, err := u.AppendBinary([]byte("before"))
	if err != nil || !bytes.Equal(got, append([]byte("before"), encode(t, u)...)) {
		t.Errorf("got %q, %v, want the update's form after what was there", got, err)
	}
}

// decodes holds what any bytes must hold: no panic, and what is accepted is a
// valid update with one binary form only.
func decodes(t *testing.T, b []byte) (accepted bool) {
	t.Helper()
	var u Update
	if err := u.UnmarshalBinary(b); err != nil {
		if !strings.HasPrefix(err.Error(), "rows: ") {
			t.Errorf("the error %q does not say whose it is", err)
		}
		if u.Parts != nil {
			t.Errorf("after the error %q the update holds %d parts, want it as it was", err, len(u.Parts))
		}
		return false
	}
	for i, p := range u.Parts {
		if p.Dim < 1 || len(p.Data)%p.Dim != 0 || p.IDs != nil && len(p.Data) != len(p.IDs)*p.Dim {
			t.Errorf("part %d has %d ids, %d numbers, rows of %d", i, len(p.IDs), len(p.Data), p.Dim)
		}
		for k := 1; k < len(p.IDs); k++ {
			if p.IDs[k] <= p.IDs[k-1] {
				t.Errorf("part %d: ids %v do not ascend", i, p.IDs)
			}
		}
		for _, x := range append([]float32{float32(p.Shrunk - p.Shrunk)}, p.Data...) {
			if x-x != 0 {
				t.Errorf("part %d holds %v", i, x)
			}
		}
	}
	if again := encode(t, &u); !bytes.Equal(again, b) {
		t.Errorf("the update read from %x is written as %x", b, again)
	}
	return true
}

func TestEveryTruncationIsRefused(t *testing.T) {
	r := rng.New(rng.Test, 2)
	for range 50 {
		b := encode(t, randomUpdate(&r))
		for n := range b {
			if decodes(t, b[:n]) {
				t.Fatalf("the first %d of %d bytes are accepted", n, len(b))
			}
		}
		if decodes(t, append(b, 0)) {
			t.Fatal("a byte too many is accepted")
		}
	}
}

func TestEveryDamagedByteIsRefusedOrReadAsAnotherUpdate(t *testing.T) {
	r := rng.New(rng.Test, 3)
	for range 12 {
		b := encode(t, randomUpdate(&r))
		for at := range min(len(b), 400) {
			old := b[at]
			for v := range 256 {
				b[at] = byte(v)
				decodes(t, b)
			}
			b[at] = old
		}
	}
}

func TestWrongUpdatesSayWhy(t *testing.T) {
	good := func() *Update {
		return &Update{Parts: []Part{{Slot: 3, Dim: 2, IDs: []uint32{1, 5}, Data: []float32{1, 2, 3, 4}}}}
	}
	const at = 4 // the first part
	for _, c := range []struct {
		want   string
		damage func(b []byte) []byte
	}{
		{"rows: not an update, or one of another version", func(b []byte) []byte { b[2] = '2'; return b }},
		{"rows: not an update, or one of another version", func([]byte) []byte { return nil }},
		{"rows: update ends too early", func(b []byte) []byte { return b[:len(b)-1] }},
		{"rows: update ends too early", func(b []byte) []byte { copy(b[at+15:], "\xff\xff\xff\xff"); return b }},
		{"rows: 2 bytes after the update's end", func(b []byte) []byte { return append(b, 0, 0) }},
		{"rows: slot 3: row ids do not ascend at place 1", func(b []byte) []byte { b[at+partHeader+4] = 1; return b }},
		{"rows: slot 3: number 3 is not finite", func(b []byte) []byte {
			copy(b[len(b)-4:],
				"\x00\x00\x80\x7f")
			return b
		}},
		{
			"rows: slot 3: form 4, rows of 2, shrunk by 0 is not a valid part",
			func(b []byte) []byte { b[at+2] = 4; return b },
		},
		{
			"rows: slot 3: form 1, rows of 0, shrunk by 0 is not a valid part",
			func(b []byte) []byte { b[at+3] = 0; return b },
		},
		{
			"rows: slot 3: form 1, rows of 1048577, shrunk by 0 is not a valid part",
			func(b []byte) []byte { copy(b[at+3:], "\x01\x00\x10\x00"); return b },
		},
		{
			"rows: slot 3: form 1, rows of 2, shrunk by +Inf is not a valid part",
			func(b []byte) []byte { copy(b[at+13:], "\xf0\x7f"); return b },
		},
	} {
		var u Update
		if err := u.UnmarshalBinary(c.damage(encode(t, good()))); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// A hostile size must cost nothing: the error comes before the allocation.
func TestAHostileSizeAllocatesNothing(t *testing.T) {
	b := encode(t, &Update{Parts: []Part{{Dim: 1 << 20, Data: nil}}})
	copy(b[4+15:], "\xff\xff\xff\xff")
	var u Update
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := u.UnmarshalBinary(b)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("a part of four billion rows of a million numbers is accepted")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("refusing it allocates %d bytes, want next to nothing", n)
	}
}

func TestUpdatesThatCannotBeWrittenAreRefused(t *testing.T) {
	for want, u := range map[string]*Update{
		"rows: an update has 256 parts, at most 255 are possible": {Parts: make([]Part, 256)},
		"rows: part 0 has 3 numbers in rows of 2 with 0 ids":      {Parts: []Part{{Dim: 2, Data: make([]float32, 3)}}},
		"rows: part 0 has 0 numbers in rows of 0 with 0 ids":      {Parts: []Part{{}}},
		"rows: part 1 has 4 numbers in rows of 2 with 1 ids": {Parts: []Part{
			{Dim: 1},
			{Dim: 2, Data: make([]float32, 4), IDs: make([]uint32, 1)},
		}},
	} {
		if b, err := u.AppendBinary(nil); err == nil || err.Error() != want || b != nil {
			t.Errorf("got %d bytes and %v, want %s", len(b), err, want)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	r := rng.New(rng.Test, 4)
	for range 20 {
		b := encode(f, randomUpdate(&r))
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) { decodes(t, b) })
}

func TestAnUpdateReadTwiceHoldsTheSecond(t *testing.T) {
	r := rng.New(rng.Test, 5)
	var u Update
	for range 20 {
		x := randomUpdate(&r)
		if err := u.UnmarshalBinary(encode(t, x)); err != nil {
			t.Fatal(err)
		}
		if err := sameUpdate(&u, x); err != nil {
			t.Fatal(err)
		}
	}
}
