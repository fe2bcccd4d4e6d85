package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// sparse returns a random update with blocks of numbers, like rows that a device touched, of mixed widths.
func sparse(r *rand.Rand, n int) []int64 {
	v := make([]int64, n)
	for at := 0; at < n; {
		at += r.IntN(80)
		for end := at + r.IntN(100); at < min(end, n); at++ {
			if r.IntN(6) > 0 {
				v[at] = r.Int64() >> (r.IntN(40) + 11)
				if r.IntN(2) == 0 {
					v[at] = -v[at]
				}
			}
		}
	}
	return v
}

func TestUpdatesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		v := sparse(r, r.IntN(700))
		b := AppendUpdate([]byte("x"), v)[1:]
		got := make([]int64, len(v))
		if err := ReadUpdate(b, len(v), maxMagnitude, got); err != nil || !slices.Equal(got, v) {
			t.Fatalf("%v comes back as %v, %v", v, got, err)
		}
		if err := ReadUpdate(b, len(v), maxMagnitude, got); err != nil || len(v) > 0 && got[0] != 2*v[0] {
			t.Fatalf("a second reading does not add: %v", err)
		}
		most := int64(0)
		for _, x := range v {
			most = max(most, x, -x)
		}
		if limit := MaxUpdateBytes(len(v), most); len(b) > limit {
			t.Fatalf("a vector of %d numbers up to %d takes %d bytes, VectorLimit is %d", len(v), most, len(b), limit)
		}
		if err := ReadUpdate(b, len(v), most, nil); err != nil {
			t.Fatal(err)
		}
		if n := weighed(r, v); n != len(b) {
			t.Fatalf("%v weighs %d bytes, and takes %d", v, n, len(b))
		}
		if most > 0 && ReadUpdate(b, len(v), most-1, nil) == nil {
			t.Fatalf("a vector with %d is within %d", most, most-1)
		}
	}
}

// weighed returns the size of an update that arrives in pieces, without most of its zeros.
func weighed(r *rand.Rand, v []int64) int {
	var w rows.UpdateSizer
	w.Begin(len(v))
	for at := 0; at < len(v); {
		n := min(1+r.IntN(50), len(v)-at)
		if slices.Max(v[at:at+n]) != 0 || slices.Min(v[at:at+n]) != 0 {
			w.Add(at, v[at:at+n])
		}
		at += n
	}
	return w.End()
}

func TestUpdateEncodingIsFixed(t *testing.T) {
	for _, c := range []struct {
		v    []int64
		want string
	}{
		{nil, "0200"},
		{[]int64{0, 0, 0}, "0203"},
		{[]int64{1}, "0201 00 01 02 01"},
		{[]int64{0, -1, 0, 0, 200}, "0205 01 04 09 ff01004006"},
		{[]int64{0, -1, 0, 0, 0, 0, 200}, "0207 01 01 01 01 04 01 09 c800"},
		{[]int64{math.MinInt64, math.MaxInt64}, "0202 00 02 40 0000000000000080 ffffffffffffff7f"},
		{append(slices.Repeat([]int64{1}, 64), 1000), "0241 00 40 02" + strings.Repeat("55", 16) + "00 01 0b e803"},
	} {
		got, want := AppendUpdate(nil, c.v), strings.ReplaceAll(c.want, " ", "")
		if hex.EncodeToString(got) != want {
			t.Errorf("%v is %x, want %s", c.v, got, want)
		}
	}
}

// Each of these is non-canonical, too long, or malformed.
func TestRefusesNonCanonicalUpdates(t *testing.T) {
	ones := strings.Repeat("55", 16) // 64 numbers of two bits
	for why, c := range map[string]struct {
		numbers int
		hex     string
	}{
		"nothing":                         {0, ""},
		"version":                         {0, "0100"},
		"count":                           {2, "0201"},
		"long uvarint":                    {1, "028100"},
		"run of none":                     {3, "0203 00 00 02"},
		"width 0":                         {3, "0203 00 01 00"},
		"width 65":                        {3, "0203 00 01 41 010101010101010101"},
		"too wide":                        {3, "0203 00 01 03 01"},
		"cut":                             {3, "0203 00 02 08 01"},
		"bits behind the last number":     {3, "0203 00 01 02 05"},
		"beyond the end by a skip":        {3, "0203 03 01 02 01"},
		"beyond the end by a count":       {3, "0203 02 02 02 05"},
		"starts with zero":                {3, "0203 00 02 02 04"},
		"ends with zero":                  {3, "0203 00 02 02 01"},
		"a gap inside a run":              {9, "0209 00 06 02 0104"},
		"a gap that is too short":         {9, "0209 00 01 02 01 03 01 02 01"},
		"a cut inside a block":            {9, "0209 00 01 02 01 00 01 09 ff00"},
		"two runs of one width":           {70, "0246 00 40 02" + ones + "00 01 02 01"},
		"a block that needs less":         {70, "0246 00 41 09" + strings.Repeat("ff", 72) + "0100"},
		"zeros at the end of a stretch":   {90, "025a 00 40 02" + ones[:30] + "15" + "05 01 02 01"},
		"count over all limits":           {1, "02ffffffffffffffff7f"},
		"skip over all limits":            {1, "0201ffffffffffffffffff01"},
		"numbers over all limits":         {1, "0201 00 ffffffffffffffffff01 02 01"},
		"a skip at the end without a run": {3, "0203 00 01 02 01 02"},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]int64, c.numbers)
		if err := ReadUpdate(b, c.numbers, math.MaxInt64, dst); err == nil {
			t.Errorf("%s: %s is read", why, c.hex)
		}
		if !slices.Equal(dst, make([]int64, c.numbers)) {
			t.Errorf("%s: what was refused has changed the sum", why)
		}
	}
	if ReadUpdate([]byte{2, 0}, maxLength+1, 1, nil) == nil || ReadUpdate([]byte{2, 0}, -1, 1, nil) == nil {
		t.Error("a vector may have any number of numbers")
	}
}

// A device of ml-100k touches about 500 of 1682 rows of 32 numbers, which must take little more than three
// bytes per number.
func TestSparseRowsAreSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]int64, 1682*32)
	for row := 0; row < 1682; row += 1 + r.IntN(5) {
		for i := range 32 {
			v[row*32+i] = int64(math.Round(r.NormFloat64() * 0.01 * (1 << 24)))
		}
	}
	n := 0
	for _, x := range v {
		if x != 0 {
			n++
		}
	}
	b := AppendUpdate(nil, v)
	t.Logf("%d numbers take %d bytes, %.3f each", n, len(b), float64(len(b))/float64(n))
	if float64(len(b)) > 3.1*float64(n) {
		t.Errorf("%d numbers take %d bytes, %.2f each, want 3 and little more", n, len(b), float64(len(b))/float64(n))
	}
}

func TestReadUpdateAllocatesNothing(t *testing.T) {
	v := sparse(rand.New(rand.NewPCG(5, 6)), 5000)
	b, dst := AppendUpdate(nil, v), make([]int64, len(v))
	if n := testing.AllocsPerRun(20, func() { _ = ReadUpdate(b, len(v), maxMagnitude, dst) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
	if n := testing.AllocsPerRun(20, func() { b = AppendUpdate(b[:0], v) }); n > 0 {
		t.Errorf("%.0f allocations to append where there is room", n)
	}
}

func TestRefusesUpdatesBeyondTheirBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, l1 := range []bool{false, true} {
		bound := privacy.Bound{Clip: 0.5, Levels: 1 << 20, L1: l1, Bit: true}
		over := bound
		over.Clip, over.Levels = 2*bound.Clip, 2*bound.Levels
		for range 50 {
			row := make([]float32, 40)
			for i := range row {
				row[i] = float32(r.NormFloat64())
			}
			draft := &privacy.Delta{Rows: [][]float32{row}, At: []int{10}, BitAt: 100}
			honest, hostile := make([]int64, 101), make([]int64, 101)
			bound.Encode(draft, honest)
			over.Encode(draft, hostile)
			told := EncodeBound(bound, 0, 0, 1<<30)
			if err := CheckNorm(AppendUpdate(nil, honest), 101, told); err != nil {
				t.Errorf("l1 %v: an honest update: %v", l1, err)
			}
			if CheckNorm(AppendUpdate(nil, hostile), 101, told) == nil {
				t.Errorf("l1 %v: an update of twice the length is let through", l1)
			}
			honest[100]++
			if CheckNorm(AppendUpdate(nil, honest), 101, told) == nil {
				t.Errorf("a clipping bit of %d is let through", honest[100])
			}
			if err := CheckNorm(AppendUpdate(nil, hostile), 101, EncodeBound(bound, 5, 0, 1<<30)); err != nil {
				t.Errorf("an update with noise: %v", err)
			}
		}
	}
}

func FuzzUpdate(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 8 {
		v := sparse(r, r.IntN(300))
		f.Add(AppendUpdate(nil, v), uint16(len(v)))
	}
	f.Add([]byte{1, 3, 0, 2, 1, 1, 0}, uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, numbers uint16) {
		n := int(numbers)
		dst := make([]int64, n)
		if err := ReadUpdate(b, n, maxMagnitude, dst); err != nil {
			if !slices.Equal(dst, make([]int64, n)) {
				t.Fatalf("%x: refused with %v, and has changed the sum", b, err)
			}
			_ = CheckNorm(b, n, &pb.Bound{Clip: 1, Levels: 1, Max: 1})
			return
		}
		if again := AppendUpdate(nil, dst); !bytes.Equal(again, b) {
			t.Fatalf("%x is read, and is written as %x", b, again)
		}
		if len(b) > MaxUpdateBytes(n, maxMagnitude) {
			t.Fatalf("%d bytes for %d numbers, over the limit of %d", len(b), n, MaxUpdateBytes(n, maxMagnitude))
		}
		_ = CheckNorm(b, n, &pb.Bound{Clip: 1, Levels: 1 << 20, Max: 1 << 21, Bit: true})
	})
}

func BenchmarkUpdate(b *testing.B) {
	v := sparse(rand.New(rand.NewPCG(1, 1)), 50_000)
	enc, dst := AppendUpdate(nil, v), make([]int64, len(v))
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(enc)))
		for b.Loop() {
			enc = AppendUpdate(enc[:0], v)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(enc)))
		for b.Loop() {
			if err := ReadUpdate(enc, len(v), maxMagnitude, dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}
