package local

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Sums of touched rows have the bits of the sums of all rows, for rows that end within a piece
// and any share of touched rows, and leave zeros.
func TestTouchedRowsAreCollectedAsAllRows(t *testing.T) {
	const items, shards = 700, 16
	for _, dim := range []int{1, 20, 64, 72} {
		for _, few := range []uint32{2, 40, 1000} { // one of few items is touched
			stride := vec.Pad(dim)
			p := &Plan{Options: Options{Items: items}, width: []int{items * stride}}
			p.Slots = []method.Slot{{Scope: method.Shared, Upload: method.Sum, PerItem: true, Rows: items, Dim: dim}}
			m := &Memory{plan: p, Shards: shards, touched: make([][]uint64, shards)}
			m.arena = [][]float32{make([]float32, (1+shards)*items*stride)}
			r := rng.New(rng.Test, uint64(dim), uint64(few))
			for s := range shards {
				m.touched[s] = make([]uint64, (items+63)/64)
				for i := range items {
					if r.Uint32n(few) > 0 {
						continue
					}
					m.touched[s][i>>6] |= 1 << (i & 63)
					row := m.arena[0][(items*(1+s)+i)*stride:][:dim]
					for k := range row {
						row[k] = float32(r.Norm())
					}
				}
			}
			all := &Memory{plan: p, Shards: shards, arena: [][]float32{slices.Clone(m.arena[0])}}
			got, want := make([]float32, items*stride), make([]float32, items*stride)
			const piece = 1500 * 8
			for lo := 0; lo < len(got); lo += piece {
				m.CollectSums(0, lo, min(lo+piece, len(got)), got)
				all.CollectSums(0, lo, min(lo+piece, len(got)), want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("rows of %d numbers, one of %d touched: the sums differ", dim, few)
			}
			if i := slices.IndexFunc(m.arena[0], func(x float32) bool { return x != 0 }); i >= 0 {
				t.Fatalf("rows of %d numbers: number %d is not cleared", dim, i)
			}
			m.ForgetTouched()
			if slices.ContainsFunc(m.touched[0], func(w uint64) bool { return w != 0 }) {
				t.Fatal("touched rows are not forgotten")
			}
		}
	}
}

// A large memory tracks touched rows, a small one does not.
func TestLargeSumsAreTracked(t *testing.T) {
	for items, want := range map[int]bool{100: false, 20_000: true} {
		p := &Plan{Options: Options{Items: items}, width: []int{items * 64}}
		p.Slots = []method.Slot{{Scope: method.Shared, Upload: method.Sum, PerItem: true, Rows: items, Dim: 64}}
		m := &Memory{plan: p, Shards: 16}
		if m.trackTouched(); (m.touched != nil) != want {
			t.Errorf("%d items: touched rows are tracked: %t", items, !want)
		}
	}
}
