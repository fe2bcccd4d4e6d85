package local_test

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// The update that a device would send, written out, is what a visit counts.
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
			u := r.Delta(1)
			want := (&rows.Update{}).Size()
			for _, p := range u.Parts {
				s := p
				s.Sparse = true
				empty := (&rows.Update{}).Size()
				want += min((&rows.Update{Parts: []rows.Part{p}}).Size(), (&rows.Update{Parts: []rows.Part{s}}).Size(),
					rows.PartSize(200*p.Dim, 0)+empty) - empty
			}
			if out.Bytes != want {
				t.Fatalf("plain %v, device %d: a visit counts %d bytes, the update has %d", plain, id, out.Bytes, want)
			}
		}
	}
}

func TestADownloadWithoutItsZeros(t *testing.T) {
	r := setUp(t, newDual(6), local.Options{Items: 50, Negatives: 4, Sparse: true})
	full, none := r.mem.SparseDown()
	if want := r.plan.BytesDown(0) + r.plan.MaxBytesUp() - 4*50*6; full != want || none != 0 {
		t.Errorf("without a zero %d bytes, want %d: nothing is lost by asking", full, want)
	}
	v := r.mem.Value(dualItem)
	p, cleared := rows.Part{Dim: 6, Sparse: true}, 0
	for i := range 50 {
		row := v[i*8 : i*8+6]
		clear(row[:i%7])
		cleared += i % 7
		p.Data = append(p.Data, row...)
	}
	b, err := (&rows.Update{Parts: []rows.Part{p}}).AppendBinary(nil)
	if got, zeros := r.mem.SparseDown(); err != nil || got != len(b) || got >= full || zeros != float64(cleared)/300 {
		t.Errorf("with %g of zeros %d bytes, want %d, less than %d: %v", zeros, got, len(b), full, err)
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
