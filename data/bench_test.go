package data

import (
	"bytes"
	"io/fs"
	"testing"
)

func BenchmarkLoadML1M(b *testing.B) {
	text, err := fs.ReadFile(realData(b), "ml-1m/ratings.dat")
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(text), "ratings.dat", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWorldHistory(b *testing.B) {
	for _, s := range []string{"users=600", "users=1000000,items=100000,mean-rows=60"} {
		b.Run(s, func(b *testing.B) {
			w := mustWorld(b, s)
			var h History
			u, rows := 0, 0
			for b.Loop() {
				w.History(u, &h)
				u = (u + 1) % w.Users()
				rows += len(h.Items)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}

func BenchmarkNewWorld(b *testing.B) {
	cfg, _ := ParseWorld("items=10000")
	for b.Loop() {
		if _, err := NewWorld(cfg); err != nil {
			b.Fatal(err)
		}
	}
}
