package experiment

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// environ describes the machine and the program, for env.json.
func environ(j *Job) map[string]any {
	return map[string]any{
		"version": j.Version, "commit": j.Commit, "go": runtime.Version(),
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cpu": CPU(), "cores": runtime.NumCPU(), "jobs": j.Jobs,
		"data_hash": j.Source.Info().Hash,
	}
}

// CPU names the processor, where the system tells.
func CPU() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// peakRSS is the most memory the process has had, in bytes; 0 where the system
// does not tell.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return 0
}
