package experiment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// environ returns the content of env.json: the machine and the program.
func environ(j *Job) map[string]any {
	return map[string]any{
		"version": j.Version, "commit": j.Commit, "go": runtime.Version(),
		"os": runtime.GOOS, "arch": runtime.GOARCH, "cpu": CPU(), "cores": runtime.NumCPU(), "jobs": j.Jobs,
		"data_hash": j.Source.Info().Hash, "references": !j.NoReferences, "figures": j.Figures,
	}
}

// readEnviron takes from the run folder of a resumed run whether it skips the reference rows and the figures.
func (j *Job) readEnviron(dir string) {
	var env struct {
		References *bool `json:"references"`
		Figures    *bool `json:"figures"`
	}
	b, err := os.ReadFile(filepath.Join(dir, envFile))
	if err != nil || json.Unmarshal(b, &env) != nil {
		return
	}
	if env.References != nil && !*env.References {
		j.NoReferences = true
	}
	if env.Figures != nil && !*env.Figures {
		j.Figures = false
	}
}

// CPU returns the name of the processor, or "unknown".
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

// peakRSS returns the peak memory of the process in bytes; 0 if the system does not report it.
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
