package local_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// narrow returns the plan of a method whose sums have that many bits.
func narrow(t *testing.T, m method.Method, items, users, rounds, bits int) (*local.Plan, *local.Memory) {
	t.Helper()
	p, err := local.NewPlan(m, local.Options{
		Items: items, Users: users, Rounds: rounds, Batch: 64, Seed: 3,
		Integers: true, Bits: bits,
	})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(p, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p, mem
}

func next(t *testing.T, words ...string) *methods.IALSNext {
	t.Helper()
	m := &methods.IALSNext{}
	param.Defaults(m)
	for i := 0; i < len(words); i += 2 {
		if err := param.Set(m, words[i], words[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// A whole update is what a device sends under masks, and more than what it sends without.
func TestIALSNextSendsLittle(t *testing.T) {
	for _, c := range []struct {
		name         string
		users, items int
		words        []string // the preset's
		most         int
	}{
		{"ml-100k", 943, 1682, []string{"dim", "32", "a0", "0.3"}, 3_000_000},
		{"ml-1m", 6040, 3706, nil, 12_000_000},
	} {
		p, err := local.NewPlan(next(t, c.words...), local.Options{
			Items: c.items, Users: c.users, Rounds: 15,
			Batch: 256, Integers: true, Bits: 24,
		})
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for round := range 15 {
			total += p.PackedBytes(round)
		}
		t.Logf("%s: %d bytes in 15 rounds", c.name, total)
		if total >= c.most {
			t.Errorf("%s: a device sends %d bytes in 15 rounds, want less than %d", c.name, total, c.most)
		}
		b := p.Bound(c.users)
		mod := secagg.Params{
			Devices: c.users, Length: p.MaxUpdateLength() + 1, Max: b.MaxInteger, Bits: 24, Degree: 120,
			Threshold: 61, MinDevices: 121,
		}
		if err := mod.Check(); err != nil {
			t.Errorf("%s: integers up to %d: %v", c.name, b.MaxInteger, err)
		}
		if mod.Max++; mod.Check() == nil {
			t.Errorf("%s: integers up to %d would fit too", c.name, b.MaxInteger+1)
		}
	}
}

// With a cohort of 2% each device takes part once in each pass.
func TestTheDefaultMethodSendsLittle(t *testing.T) {
	m := &methods.Tacit{}
	param.Defaults(m)
	const cycle = 50
	p, err := local.NewPlan(m, local.Options{
		Items: 3706, Users: 6040, SumDevices: 121, Rounds: cycle * m.Passes(), Batch: 256, Integers: true, Bits: 24,
	})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for pass := range m.Passes() {
		total += p.PackedBytes(pass * cycle)
	}
	t.Logf("ml-1m: %d bytes in %d passes", total, m.Passes())
	if total >= 8_000_000 {
		t.Errorf("a device sends %d bytes of ML-1M in %d passes, want less than 8 MB", total, m.Passes())
	}
}

// Integers of narrow sums are never over the bound, right on average, and exact where a
// number is a whole count. A device's numbers are compared with those of a wide sum, which are
// right to 2^-24. With 400 draws the mean of a number is off by more than 6 deviations of
// at most half a unit / 20 with a chance below 1e-8; some 1,000 numbers are looked at.
func TestNarrowSumsAreRightOnAverage(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	const items, users, bits, times = 40, 500, 16, 400
	for _, round := range []int{0, 1, 3, 4} {
		value := func(bits int, id uint32) ([][]float32, *local.Plan) {
			p, mem := narrow(t, next(t, "dim", "4"), items, users, 5, bits)
			return sent(t, p, mem, round, id, bits), p
		}
		want, p := value(0, 0)
		mean := make([][]float64, len(want))
		for k := range times {
			got, _ := value(bits, uint32(k))
			for i := range got {
				if mean[i] == nil {
					mean[i] = make([]float64, len(got[i]))
				}
				for j, x := range got[i] {
					mean[i][j] += float64(x) / times
				}
			}
		}
		for i, at := range p.SentSlots() {
			s := &p.Slots[at]
			most := float64((1<<(bits-1) - 1) / users)
			if s.HighPrecision {
				most *= 2*most + 2
			}
			unit := s.Range / most
			for j, x := range want[i] {
				off := math.Abs(mean[i][j] - float64(x))
				if s.Name == "count" && off > 1e-6 || off > 6*unit/2/math.Sqrt(times)+1e-5 {
					t.Errorf("round %d, slot %s, number %d: %g on average, want %g (unit %g)", round, s.Name, j,
						mean[i][j], x, unit)
				}
			}
		}
	}
}

// sent is what one device's update of a round is worth, by slot; its draws are those of an id.
func sent(t *testing.T, p *local.Plan, mem *local.Memory, round int, id uint32, bits int) [][]float32 {
	t.Helper()
	r := rng.New(rng.Test, 9)
	for i := range p.Slots { // a model that is in training
		for j := range mem.Value(i) {
			mem.Value(i)[j] = float32(0.5 * r.Norm())
		}
	}
	bound := p.Bound(p.Users)
	mem.SetBound(bound)
	k := local.NewWorker(mem, 0)
	st := mem.NewState(nil)
	out := k.Visit(&st, &local.Task{Device: id, Round: round, Train: []uint32{3, 9, 10, 17, 30, 31, 39}}, 0, false)
	flat := make([]int64, p.UpdateLength(round)+1)
	mem.TakeUpdate(0, flat)
	if bits > 0 {
		for i, x := range flat {
			if x > bound.MaxInteger || x < -bound.MaxInteger {
				t.Fatalf("round %d: integer %d is %d, and the bound %d", round, i, x, bound.MaxInteger)
			}
		}
	}
	if out.Bytes < 2 || out.Bytes > 8*len(flat) {
		t.Fatalf("an update of %d numbers has %d bytes", len(flat), out.Bytes)
	}
	var all [][]float32
	for _, i := range p.SentSlots() {
		dst := make([]float32, len(mem.Value(i)))
		p.Decode(round, i, flat, bound.Unit(), dst)
		all = append(all, dst)
	}
	return all
}

// What is beyond a reach is cut, and an update that is not finite counts as nothing.
func TestNarrowSumsTruncateLargeNumbers(t *testing.T) {
	p, mem := narrow(t, next(t, "dim", "4", "reg", "1e-7", "a0", "1e-6"), 40, 500, 5, 16)
	bound := p.Bound(500)
	mem.SetBound(bound)
	visit := func(x float32) (local.Outcome, []int64) {
		for i := range p.Slots {
			for j := range mem.Value(i) {
				mem.Value(i)[j] = x * float32(1+j%3)
			}
		}
		st := mem.NewState(nil)
		out := local.NewWorker(mem, 0).Visit(&st, &local.Task{Round: 1, Train: []uint32{1, 2, 3}}, 0, false)
		flat := make([]int64, p.UpdateLength(1)+1)
		mem.TakeUpdate(0, flat)
		return out, flat
	}
	out, flat := visit(1e-3) // rows of nearly no length want a vector that is very long
	most := int64(0)
	for _, x := range flat {
		most = max(most, x, -x)
	}
	if out.Truncated == 0 || most != bound.MaxInteger {
		t.Errorf("%d numbers were cut, and the largest integer is %d; want some, and %d", out.Truncated, most,
			bound.MaxInteger)
	}
	if _, flat = visit(float32(math.NaN())); !zero(flat) {
		t.Error("an update that is not finite is in the sum")
	}
}

func zero(v []int64) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

func TestNarrowVisitsDoNotAllocate(t *testing.T) {
	p, mem := narrow(t, next(t, "dim", "4"), 40, 500, 5, 16)
	mem.SetBound(p.Bound(500))
	k, st := local.NewWorker(mem, 0), mem.NewState(nil)
	flat := make([]int64, p.MaxUpdateLength()+1)
	for round := range 5 {
		task := &local.Task{Round: round, Train: []uint32{3, 9, 10, 17, 30, 31, 39}}
		visit := func() {
			k.Visit(&st, task, 0, false)
			mem.TakeUpdate(0, flat)
		}
		visit()
		if n := testing.AllocsPerRun(20, visit); n != 0 {
			t.Errorf("round %d: %g allocations in a visit", round, n)
		}
	}
}
