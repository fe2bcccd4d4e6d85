package coordinator

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/internal/openmetrics"
)

var processStart = time.Now()

// writeProcessMetrics writes metrics of the process and of the disk of the state folder. Those that the system does
// not offer are missing.
func writeProcessMetrics(w *openmetrics.Writer, dir string) {
	gauge := func(name, unit, help string, value float64) { w.One(name, openmetrics.Gauge, unit, help, value) }
	w.Family("tacit_build_info", openmetrics.Gauge, "", "The program; the value is always 1.")
	w.Sample(1, buildLabels()...)
	gauge("process_start_time_seconds", "seconds", "Start of the process, in Unix time.",
		float64(processStart.UnixMilli())/1000)
	gauge("go_goroutines", "", "Goroutines.", float64(runtime.NumGoroutine()))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	gauge("go_memstats_alloc_bytes", "bytes", "Bytes of live and unswept heap objects.", float64(m.Alloc))
	var pages, resident uint64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if n, _ := fmt.Sscan(string(b), &pages, &resident); n == 2 {
			bytes := float64(resident) * float64(os.Getpagesize())
			gauge("process_resident_memory_bytes", "bytes", "Resident memory.", bytes)
		}
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		gauge("process_open_fds", "", "Open file descriptors.", float64(len(open)))
	}
	if most, ok := maxFiles(); ok {
		gauge("process_max_fds", "", "Limit of open file descriptors.", float64(most))
	}
	if free, size, ok := diskSpace(dir); ok {
		gauge("tacit_state_disk_free_bytes", "bytes", "Free space on the disk of the state folder.", float64(free))
		gauge("tacit_state_disk_size_bytes", "bytes", "Size of the disk of the state folder.", float64(size))
	}
}

func buildLabels() []openmetrics.Label {
	version, revision := "unknown", "unknown"
	if b, ok := debug.ReadBuildInfo(); ok {
		version = strings.Trim(b.Main.Version, "()")
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return []openmetrics.Label{
		{Name: "version", Value: version},
		{Name: "revision", Value: revision},
		{Name: "go_version", Value: runtime.Version()},
	}
}
