//go:build unix

package fleet_test

import (
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A round of 300 devices over sockets, with everything on disk. It reports load-independent counts of what a
// round and a report cost, for devices and coordinator together. They include enrolment and the first rounds:
// use -benchtime 15x or more.
func BenchmarkRound(b *testing.B) {
	split := splitOf(b, "users=300,items=1700,mean-rows=100,seed=3")
	for name, params := range map[string][]string{"fedmf": {"dim", "32"}, "ials-next": {"dim", "32"}} {
		b.Run(name, func(b *testing.B) {
			s := settings(split, name, params...)
			s.Rounds = max(b.N, 4)
			r := open(b, filepath.Join(b.TempDir(), "state"), split, &s)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cpu := used(b)
			b.ResetTimer()
			f := r.run(nil, uint32(s.Rounds))
			b.StopTimer()
			cpu = used(b) - cpu
			runtime.ReadMemStats(&after)
			st, n := r.status(), float64(f.Stats().Counted)
			b.ReportMetric(1000*cpu/float64(s.Rounds), "cpu-ms/round")
			b.ReportMetric(1e6*cpu/n, "cpu-us/report")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/report")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n/1024, "alloc-kB/report")
			b.ReportMetric(float64(st.Synced.Syncs)/float64(s.Rounds), "syncs/round")
			b.ReportMetric(float64(st.Counts["check_ins"])/n, "check-ins/report")
			b.ReportMetric(float64(f.Stats().Bytes)/n, "bytes/report")
		})
	}
}

// used returns the processor time of this process in seconds.
func used(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
