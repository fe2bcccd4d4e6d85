package secagg

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"
)

var large = flag.Bool("large", false, "also play the round of 10,000 devices: some minutes")

// BenchmarkRound plays whole rounds and reports what one pays for: seconds of the
// server and of one device, bytes of one device beside those of a plain vector of
// 32-bit numbers. Values have 16 bits. The server's seconds are wall time, with as
// many workers as there are cores.
func BenchmarkRound(b *testing.B) {
	const table = 1682 * 32
	for _, c := range []struct{ devices, length int }{{100, table}, {1000, table}, {10000, 1024}} {
		for _, share := range []float64{0, 0.1, 0.3} {
			b.Run(fmt.Sprintf("%d devices of %d, %.0f %% leave", c.devices, c.length, 100*share), func(b *testing.B) {
				if c.devices > 1000 && !*large {
					b.Skip("some minutes: run with -args -large")
				}
				p, err := Plan(c.devices, c.length, 1<<15-1, Risk{Corrupt: 0.1, Dropped: 0.33})
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					benchRound(b, Round{Params: p}, share)
				}
			})
		}
	}
}

func benchRound(b *testing.B, r Round, share float64) {
	var server, last time.Duration
	workers := runtime.GOMAXPROCS(0)
	leave := leavers(1, share, 2)
	s := Session{
		Round: r, Workers: workers, Rand: newStream([keySize]byte{1}), Leave: leave,
		Vector: func(id uint32, dst []int32) error { fill(1, r.Max, id, dst); return nil },
		server: func(f func()) {
			start := time.Now()
			f()
			last = time.Since(start)
			server += last
		},
	}
	start := time.Now()
	got, err := s.Run()
	if err != nil {
		b.Fatal(err)
	}
	whole := time.Since(start)
	n := float64(r.Devices)
	b.ReportMetric(server.Seconds(), "server-s")
	b.ReportMetric(last.Seconds(), "unmask-s")
	b.ReportMetric((whole-last).Seconds()*float64(workers)*1000/n, "device-ms")
	b.ReportMetric(float64(got.Up)/float64(got.Survivors.Count()), "up-B")
	b.ReportMetric(float64(got.Down)/n, "down-B")
	b.ReportMetric(float64(got.Up)/float64(got.Survivors.Count())/float64(4*r.Length), "x-plain")
	b.ReportMetric(float64(r.Degree), "degree")
	b.ReportMetric(float64(r.Bits), "bits")
}

func BenchmarkMask(b *testing.B) {
	var m masker
	dst := make([]uint32, 1682*32)
	b.SetBytes(int64(4 * len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		m.add([keySize]byte{1}, false, dst)
	}
}

func BenchmarkPack(b *testing.B) {
	values := make([]uint32, 1682*32)
	packed := make([]byte, packedSize(len(values), 26))
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(int64(4 * len(values)))
		for b.Loop() {
			pack(values, 26, packed)
		}
	})
	b.Run("add", func(b *testing.B) {
		b.SetBytes(int64(4 * len(values)))
		for b.Loop() {
			addPacked(packed, 26, values)
		}
	})
}
