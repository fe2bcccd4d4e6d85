package local_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
)

// sums is a method whose devices send the given numbers.
type sums struct {
	slots []method.Slot
	value func(slot, i int, r method.Rand) float32
}

func (m *sums) Slots(int) []method.Slot                               { return m.slots }
func (m *sums) Logits(_ *method.Work, _ *method.Batch, out []float32) { clear(out) }
func (m *sums) Update(*method.Global)                                 {}
func (m *sums) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		for i := range w.View {
			for j := range w.View[i].Val {
				w.View[i].Val[j] = m.value(i, j, w.Rand)
			}
		}
	}}
}

func sumSlot(name string, rows, levels int, high bool) method.Slot {
	return method.Slot{
		Name: name, Scope: method.Shared, Upload: method.Sum, Rows: rows, Dim: 8, Range: 2, Levels: levels,
		HighPrecision: high,
	}
}

func planOf(t testing.TB, m method.Method, users, bits int) (*local.Plan, *local.Memory) {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{
		Items: 10, Users: users, Rounds: 3, Batch: 4, Seed: 5, Integers: true, Dense: true, Bits: bits,
	})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	mem.SetBound(privacy.Bound{MaxInteger: p.RoundMaxInteger(0)})
	return p, mem
}

// update is what one device sends in round 0.
func update(p *local.Plan, mem *local.Memory, id uint32) ([]int64, local.Outcome) {
	st := mem.NewState(nil)
	out := local.NewWorker(mem, 0).Visit(&st, &local.Task{Device: id, Train: []uint32{1, 2}}, 0, false)
	flat := make([]int64, p.UpdateLength(0)+1)
	mem.TakeUpdate(0, flat)
	return flat, out
}

func TestLevelsMakeUpdatesShorter(t *testing.T) {
	for _, c := range []struct {
		name         string
		slots        []method.Slot
		users        int
		most         int64
		numbers, bit int
	}{
		{"without levels", []method.Slot{sumSlot("a", 100, 0, false)}, 1024, 8191, 800, 24},
		{"levels", []method.Slot{sumSlot("a", 100, 15, false)}, 1024, 15, 800, 15},
		{"few devices", []method.Slot{sumSlot("a", 100, 15, false)}, 64, 240, 800, 15},
		{"more than the bits allow", []method.Slot{sumSlot("a", 100, 1<<20, false)}, 1024, 8191, 800, 24},
		{
			"the large slot decides",
			[]method.Slot{sumSlot("a", 100, 15, false), sumSlot("b", 1, 255, false)},
			1024, 15, 816, 15,
		},
		{
			"the finer slot decides",
			[]method.Slot{sumSlot("a", 1, 15, false), sumSlot("b", 100, 255, false)},
			1024, 255, 808, 19,
		},
		// 2*8191*8192 levels of the wide slot are 6 digits in base 31.
		{
			"high precision",
			[]method.Slot{sumSlot("a", 1000, 15, false), sumSlot("b", 1, 0, true)},
			1024, 15, 8000 + 6*8, 15,
		},
	} {
		p, _ := planOf(t, &sums{slots: c.slots}, c.users, 24)
		if p.RoundMaxInteger(0) != c.most || p.UpdateLength(0) != c.numbers {
			t.Errorf("%s: %d integers up to %d, want %d up to %d", c.name, p.UpdateLength(0), p.RoundMaxInteger(0),
				c.numbers, c.most)
		}
		if want := ((c.numbers+1)*c.bit + 7) / 8; p.PackedBytes(0) != want || p.MaxBytesUp() != want {
			t.Errorf("%s: %d bytes, want %d", c.name, p.PackedBytes(0), want)
		}
		if int64(c.users)*c.most >= 1<<(c.bit-1) {
			t.Errorf("%s: a sum does not fit %d bits", c.name, c.bit)
		}
	}
	if _, err := local.NewPlan(&sums{slots: []method.Slot{{
		Name: "a", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: 1, Levels: 5,
	}}}, local.Options{Items: 1, Users: 1, Rounds: 1}); err == nil {
		t.Error("levels without a range are accepted")
	}
}

// The sum of many devices is decoded slot by slot, whatever digits the slots have. Its error is that of
// unbiased rounding: every device adds a variance of at most a quarter of a squared unit.
func TestSumsWithLevelsAreRight(t *testing.T) {
	const users = 400
	slots := []method.Slot{
		sumSlot("coarse", 30, 7, false), sumSlot("fine", 2, 300, false), sumSlot("high", 1, 0, true),
		sumSlot("bits", 1, 0, false),
	}
	m := &sums{slots: slots, value: func(_, i int, r method.Rand) float32 {
		switch i % 4 {
		case 0:
			return 2 // the end of the range
		case 1:
			return -2
		}
		return float32(4*r.Float64() - 2)
	}}
	exact := &sums{slots: slots, value: m.value}
	for i := range exact.slots {
		exact.slots[i].Dim = 8
	}
	p, mem := planOf(t, m, users, 24)
	w, wide := planOf(t, exact, users, 0)
	wide.SetBound(w.Bound(users))
	unit := w.Bound(users)
	total, want := make([]int64, p.UpdateLength(0)+1), make([]int64, w.UpdateLength(0)+1)
	for id := range uint32(users) {
		flat, out := update(p, mem, id)
		if out.Truncated != 0 || out.Bytes != p.PackedBytes(0) {
			t.Fatalf("%d numbers truncated, %d bytes", out.Truncated, out.Bytes)
		}
		for i, x := range flat {
			if most := p.RoundMaxInteger(0); x > most || x < -most {
				t.Fatalf("integer %d is %d, the limit %d", i, x, most)
			}
			total[i] += x
		}
		flat, _ = update(w, wide, id)
		for i, x := range flat {
			want[i] += x
		}
	}
	for slot, levels := range []float64{7, 300, 2e9, 20971} {
		a, b := make([]float32, len(mem.Value(slot))), make([]float32, len(mem.Value(slot)))
		p.Decode(0, slot, total, 0, a)
		w.Decode(0, slot, want, unit.Unit(), b)
		for i := range a {
			limit := 6 * math.Sqrt(users) / 2 * 2 / levels
			if i%4 < 2 {
				limit = 0
			}
			if off := math.Abs(float64(a[i] - b[i])); off > limit+1e-3 {
				t.Errorf("slot %d, number %d: %g, want %g within %g", slot, i, a[i], b[i], limit)
			}
		}
	}
}

// FuzzDigits sends any numbers with any levels: integers stay within the limit, and one device's update is worth
// its numbers, clipped to the range, within one unit.
func FuzzDigits(f *testing.F) {
	f.Add(uint64(1), uint16(3), uint16(200), uint16(100), uint8(24), true)
	f.Add(uint64(2), uint16(1), uint16(0), uint16(2), uint8(32), true)
	f.Add(uint64(3), uint16(65535), uint16(1), uint16(60000), uint8(21), false)
	f.Fuzz(func(t *testing.T, seed uint64, a, b, users uint16, bits uint8, high bool) {
		m := &sums{slots: []method.Slot{sumSlot("a", 3, int(a), false), sumSlot("b", 1, int(b), high)}}
		var sent [2][]float32
		r := rng.New(rng.Test, seed)
		for i := range sent {
			for range m.slots[i].Rows * 8 {
				sent[i] = append(sent[i], float32(1.2*r.Norm()))
			}
		}
		m.value = func(slot, i int, _ method.Rand) float32 { return sent[slot][i] }
		p, err := local.NewPlan(m, local.Options{
			Items: 10, Users: int(users) + 1, Rounds: 1, Batch: 4, Integers: true, Dense: true, Bits: 2 + int(bits)%31,
		})
		if err != nil {
			return // too few bits for this number of devices
		}
		most := p.RoundMaxInteger(0)
		if most < 1 || most > p.MaxInteger() {
			t.Fatalf("integers up to %d, and the bits allow %d", most, p.MaxInteger())
		}
		mem, err := local.NewMemory(p, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		mem.SetBound(privacy.Bound{MaxInteger: most})
		flat, _ := update(p, mem, 1)
		for i, x := range flat {
			if x > most || x < -most {
				t.Fatalf("integer %d is %d, the limit %d", i, x, most)
			}
		}
		for slot, levels := range []uint16{a, b} {
			unit := 2 / float64(min(max(int64(levels), 1), p.MaxInteger()))
			got := make([]float32, len(mem.Value(slot)))
			p.Decode(0, slot, flat, 0, got)
			for i, x := range sent[slot] {
				x = min(max(x, -2), 2)
				if math.Abs(float64(got[i]-x)) > unit*(1+1e-5)+1e-6 {
					t.Fatalf("slot %d, number %d is worth %g, want %g within %g", slot, i, got[i], x, unit)
				}
			}
		}
	})
}
