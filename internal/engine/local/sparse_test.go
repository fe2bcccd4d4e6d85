package local_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// sparseBytesOf is the size of a row with a bit per number and 4 bytes for those that are
// not 0, or of the whole row if that is less.
func sparseBytesOf(row []float32) int {
	n := (len(row) + 7) / 8
	for _, x := range row {
		if x != 0 {
			n += 4
		}
	}
	return min(n, 4*len(row))
}

func TestAVisitCountsTheBytesOfASparseUpdate(t *testing.T) {
	for _, plain := range []bool{true, false} {
		m := newDual(6)
		m.decay = 0.01
		// A table that the visit never changes: its rows are zeros.
		m.extra = []method.Slot{{
			Name: "side", Scope: method.Shared, PerItem: true, Dim: 19,
			Init: method.Init{Kind: method.Normal, A: 1},
		}}
		r := setUp(t, m, local.Options{Items: 200, Negatives: 4, Plain: plain, Sparse: true})
		g := rng.New(rng.Test, 90)
		for id := range 30 {
			st := r.mem.NewState(nil)
			out := r.Visit(&st, randomTask(&g, id, 200, 1+id), 1, false)
			want := 0
			for _, p := range r.Delta(1).Parts {
				sparse := 4 * len(p.IDs)
				for row := range slices.Chunk(p.Data, p.Dim) {
					sparse += sparseBytesOf(row)
				}
				dense := 4 * 200 * p.Dim
				if p.IDs == nil {
					dense = 4 * len(p.Data)
					sparse = dense
				}
				want += min(sparse, 4*(len(p.Data)+len(p.IDs)), dense)
			}
			if out.Bytes != want {
				t.Fatalf("plain %v, device %d: a visit counts %d bytes, the delta has %d", plain, id, out.Bytes, want)
			}
		}
	}
}

func TestADownloadWithoutItsZeros(t *testing.T) {
	r := setUp(t, newDual(6), local.Options{Items: 50, Negatives: 4, Sparse: true})
	full, none := r.mem.SparseDown()
	if want := r.plan.BytesDown(0); full != want || none != 0 {
		t.Errorf("without a zero %d bytes, want %d: nothing is lost by asking", full, want)
	}
	v := r.mem.Value(dualItem)
	want, cleared := 0, 0
	for i := range 50 {
		row := v[i*8 : i*8+6]
		clear(row[:i%7])
		cleared += i % 7
		want += sparseBytesOf(row)
	}
	if got, zeros := r.mem.SparseDown(); got != want || got >= full || zeros != float64(cleared)/300 {
		t.Errorf("with %g of zeros %d bytes, want %d, less than %d", zeros, got, want, full)
	}
}

func TestCountingASparseUpdateDoesNotAllocate(t *testing.T) {
	m := newDual(6)
	m.decay = 0.01
	r := setUp(t, m, local.Options{Items: 200, Negatives: 4, Sparse: true, Keep: rows.Int8})
	st, task := r.mem.NewState(nil), &local.Task{Train: []uint32{1, 7, 9, 33}}
	visit := func() { r.Visit(&st, task, 0, false) }
	visit()
	if n := testing.AllocsPerRun(20, visit); n > 0 {
		t.Errorf("a visit allocates %g times, want 0", n)
	}
}
