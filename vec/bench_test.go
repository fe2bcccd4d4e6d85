package vec

import (
	"fmt"
	"testing"
)

func benchArena(n, d int) ([]float32, []uint32, []float32, []float32) {
	a := make([]float32, n*d)
	for i := range a {
		a[i] = float32(i%7) - 3
	}
	rd := make([]uint32, 256)
	g := make([]float32, 256)
	for i := range rd {
		rd[i] = uint32(i*7919) % uint32(n)
		g[i] = 1e-9
	}
	return a, rd, g, make([]float32, d)
}

func BenchmarkDots(b *testing.B) {
	a, rd, g, v := benchArena(1682, 32)
	for b.Loop() {
		Dots(a, 32, rd, v, 0, g)
	}
}

func BenchmarkWSum(b *testing.B) {
	a, rd, g, v := benchArena(1682, 32)
	for b.Loop() {
		WSum(a, 32, rd, g, v)
	}
}

func BenchmarkScat(b *testing.B) {
	a, rd, g, v := benchArena(1682, 32)
	for b.Loop() {
		Scat(a, 32, rd, g, v)
	}
}

func BenchmarkBCEGrad(b *testing.B) {
	_, _, g, _ := benchArena(1682, 32)
	y := make([]float32, len(g))
	for b.Loop() {
		BCEGrad(y, 1, g)
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{
		{128, 256, 256},
		{128, 128, 256},
		{128, 64, 128},
		{128, 32, 64},
		{130, 512, 64},
		{130, 64, 512},
		{130, 128, 384},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), func(b *testing.B) {
			x, y, c, room := make([]float32, s.m*s.k), make([]float32, s.k*s.n), make([]float32, s.m*s.n),
				make([]float32, GemmRoom(s.k))
			for b.Loop() {
				Gemm(s.m, s.n, s.k, Rows(x, s.k), Rows(y, s.n), room, Rows(c, s.n))
			}
			b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}
