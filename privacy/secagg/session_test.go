package secagg

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// testRound makes a round of n devices for tests; k neighbours, or all.
func testRound(t testing.TB, n, length, k int) Round {
	t.Helper()
	p, err := Plan(n, length, 1000, Risk{Corrupt: 0.1, Dropped: 0.3})
	if n > maxHolders && err != nil {
		t.Fatal(err)
	}
	if k > 0 { // a smaller graph than one would trust, so that tests are quick
		p.Degree, p.Threshold, p.MinDevices = k, k/3, max(k+1, n/2)
	}
	r := Round{Params: p, Number: 7}
	r.Seed[0], r.Model[0] = byte(n), byte(length)
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

// fill is a device's vector: any would do, so long as the test knows it.
func fill(seed uint64, largest int64, id uint32, dst []int32) {
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	for i := range dst {
		dst[i] = int32(r.Int64N(2*largest+1) - largest)
	}
	if len(dst) > 1 { // the ends of the range, which a wrap would show first
		dst[0], dst[1] = int32(largest), int32(-largest)
	}
}

// leavers sends a share of the devices away at a step, the rest never.
func leavers(seed uint64, share float64, step int) func(uint32) int {
	return func(id uint32) int {
		if rand.New(rand.NewPCG(seed, uint64(id)<<8|uint64(step))).Float64() < share {
			return step
		}
		return 4
	}
}

// plain is the sum that a session must give.
func plain(r *Round, seed uint64, survivors Set) []int32 {
	sum, v := make([]int32, r.Length), make([]int32, r.Length)
	for id := range uint32(r.Devices) {
		if survivors.Has(id) {
			fill(seed, r.Max, id, v)
			for i := range sum {
				sum[i] += v[i]
			}
		}
	}
	return sum
}

func play1(r Round, seed uint64, leave func(uint32) int, workers int) (*Result, error) {
	s := Session{
		Round: r, Leave: leave, Workers: workers, Rand: newStream([keySize]byte{byte(seed), byte(seed >> 8), 99}),
		Vector: func(id uint32, dst []int32) error { fill(seed, r.Max, id, dst); return nil },
	}
	return s.Run()
}

// checkSession plays a round and compares with the plain sum of the devices that
// did step 2; if fewer remain than the round allows, it must end with ErrTooFew.
func checkSession(t *testing.T, r Round, seed uint64, share float64, step int) (ended bool) {
	t.Helper()
	leave := leavers(seed, share, step)
	got, err := play1(r, seed, leave, 2)
	want := newSet(r.Devices)
	for id := range uint32(r.Devices) {
		if leave(id) > 2 {
			want.add(id)
		}
	}
	if errors.Is(err, ErrTooFew) {
		stay := 0
		for id := range uint32(r.Devices) {
			if leave(id) == 4 {
				stay++
			}
		}
		if all := r.Degree == r.Devices-1; all && stay >= r.MinDevices {
			t.Errorf("%d devices, %d stay, want %d: ended with %v", r.Devices, stay, r.MinDevices, err)
		}
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Survivors, want) {
		t.Fatalf("survivors are %v, want %v", got.Survivors, want)
	}
	if sum := plain(&r, seed, want); !slices.Equal(got.Sum, sum) {
		t.Fatalf("%d devices, %.0f %% leave at step %d: the sum is %v..., want %v...", r.Devices, 100*share, step,
			got.Sum[:2], sum[:2])
	}
	return false
}

func TestTheSumIsExactOrTheRoundEnds(t *testing.T) {
	for _, c := range []struct{ n, k, seeds int }{
		{1, 0, 5},
		{2, 0, 10},
		{3, 0, 10},
		{5, 0, 10},
		{50, 0, 1},
		{50, 16, 1},
		{200, 16, 1},
	} {
		t.Run(fmt.Sprintf("%d devices, %d neighbours", c.n, c.k), func(t *testing.T) {
			if testing.Short() && c.n > 5 {
				t.Skip("many key agreements: run without -short")
			}
			t.Parallel()
			r := testRound(t, c.n, 33, c.k)
			if testing.Short() {
				c.seeds = min(c.seeds, 2)
			}
			for seed := range uint64(c.seeds) {
				ended := checkSession(t, r, seed, 0, 0)
				if ended {
					t.Error("nobody left and the round ended")
				}
				for step := range 4 {
					if checkSession(t, r, seed, 0.3, step) && c.n >= 50 {
						t.Errorf("30 %% left at step %d and the round ended", step)
					}
				}
			}
		})
	}
}
