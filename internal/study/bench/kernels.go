package bench

import (
	"context"
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/vec"
)

// Kernel is one kernel on one shape, on one core.
type Kernel struct {
	Name   string  `json:"name"`
	Shape  string  `json:"shape"`
	NS     float64 `json:"ns"`            // per row, element or product
	Per    string  `json:"per"`           // what NS is per
	GFlops float64 `json:"gflops"`        // 0 for kernels without arithmetic
	OfPeak float64 `json:"share_of_roof"` // fraction of the core's peak
	GBs    float64 `json:"gb_per_s"`      // rows read and written
}

// kernels measures the kernels of a round on rows of 32 numbers, and Gemm on typical shapes of MLPs.
func kernels(ctx context.Context, c Config, peak Peak) error {
	add := func(k Kernel, n, flops, bytes int, f func()) {
		if ctx.Err() != nil {
			return
		}
		t := c.best(f)
		k.NS = t * 1e9 / float64(n)
		k.GFlops, k.GBs = giga(flops, t), giga(bytes, t)
		k.OfPeak = k.GFlops / peak.FlopsCore
		c.add(func(r *Report) { r.Kernels = append(r.Kernels, k) })
	}
	const batch, d = 256, 32
	r := rng.New(rng.Test)
	for _, items := range []int{64, 1682, 3706, 100_000} {
		arena, v := make([]float32, items*d), make([]float32, d)
		for i := range arena {
			arena[i] = float32(r.Norm())
		}
		rd, g, y := make([]uint32, 64*batch), make([]float32, batch), make([]float32, batch)
		for i := range rd {
			rd[i] = r.Uint32n(uint32(items))
		}
		at := 0
		next := func() []uint32 { // other rows every time, as in a round
			at = (at + batch) % len(rd)
			return rd[at : at+batch]
		}
		shape := fmt.Sprintf("%d rows of a table of %d × %d", batch, items, d)
		add(Kernel{Name: "Dots", Shape: shape, Per: "row"}, batch, 2*batch*d, 4*batch*d,
			func() { vec.Dots(arena, d, next(), v, 0, g) })
		add(Kernel{Name: "WSum", Shape: shape, Per: "row"}, batch, 2*batch*d, 4*batch*d,
			func() { vec.WSum(arena, d, next(), y, v) })
		add(Kernel{Name: "Scat", Shape: shape, Per: "row"}, batch, 2*batch*d, 8*batch*d,
			func() { vec.Scat(arena, d, next(), y, v) })
	}
	z, y := make([]float32, batch), make([]float32, batch)
	add(Kernel{Name: "BCEGrad", Shape: fmt.Sprint(batch), Per: "logit"}, batch, 0, 12*batch,
		func() { vec.BCEGrad(y, 1, z) })
	var s vec.Stream
	for w := range s {
		for l := range s[w] {
			s[w][l] = uint32(r.Uint64()) | 1
		}
	}
	taken, neg := make([]uint64, 1682/64+1), make([]uint32, 4*batch+vec.Lanes)
	add(Kernel{Name: "Draw", Shape: "negatives of 1682 items", Per: "item"}, 4*batch, 0, 16*batch,
		func() { vec.Draw(&s, 1682, taken, 4*batch, neg) })
	scores, top := make([]float32, 3706), make([]uint32, 10)
	for i := range scores {
		scores[i] = float32(r.Norm())
	}
	add(Kernel{Name: "TopK", Shape: "10 of 3706", Per: "score"}, len(scores), 0, 4*len(scores),
		func() { vec.TopK(scores, top) })
	for _, g := range [][3]int{{128, 256, 256}, {128, 128, 256}, {128, 64, 128}, {128, 32, 64}} {
		m, n, k := g[0], g[1], g[2]
		a, b, out, room := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n),
			make([]float32, vec.GemmRoom(k))
		flops, shape := 2*m*n*k, fmt.Sprintf("%d × %d × %d", m, k, n)
		add(Kernel{Name: "Gemm", Shape: shape, Per: "product"}, 1, flops, 0,
			func() { vec.Gemm(m, n, k, vec.Rows(a, k), vec.Rows(b, n), room, vec.Rows(out, n)) })
		add(Kernel{Name: "Gemm, b transposed", Shape: shape, Per: "product"}, 1, flops, 0,
			func() { vec.Gemm(m, n, k, vec.Rows(a, k), vec.Rows(b, k).T(), room, vec.Rows(out, n)) })
	}
	return ctx.Err()
}
