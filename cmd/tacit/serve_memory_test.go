package main

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/coordinator"
)

// serve takes the memory limit of its control group, unless GOMEMLIMIT is set.
func TestServeTakesTheMemoryLimitOfItsGroup(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"systemd", map[string]string{
			"proc/self/cgroup": "0::/system.slice/tacit.service\n", "sys/fs/cgroup/system.slice/memory.max": "max\n",
			"sys/fs/cgroup/system.slice/tacit.service/memory.max": "536870912\n",
		}, 512 << 20},
		{"a lower limit above", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000\n",
			"sys/fs/cgroup/a/b/memory.max": "2000\n",
		}, 1000},
		{"a container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "2000\n"}, 2000},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"version 1", map[string]string{
			"proc/self/cgroup":                                  "5:cpu,cpuacct:/x\n4:memory:/docker/12ab\n0::/none\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":        "3000\n",
			"sys/fs/cgroup/cpu,cpuacct/x/memory.max":            "1\n",
			"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": "9223372036854771712\n",
		}, 3000},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := groupMemory(root); got != c.want {
			t.Errorf("%s: the limit is %d, want %d", c.name, got, c.want)
		}
		if c.name != "systemd" {
			continue
		}
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
		var out bytes.Buffer
		a := &app{log: slog.New(slog.NewTextHandler(&out, nil))}
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("GOMEMLIMIT", "off")
		a.limitMemory(root)
		if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
			t.Errorf("GOMEMLIMIT is set, and the limit is %d", got)
		}
		t.Setenv("GOMEMLIMIT", "")
		a.limitMemory(root)
		if got := debug.SetMemoryLimit(-1); got <= 256<<20 || got >= 512<<20 {
			t.Errorf("the limit is %d", got)
		}
		if !strings.Contains(out.String(), "control_group_bytes=536870912") {
			t.Errorf("the log says %q", out.String())
		}
	}
}

// A coordinator that tests can disturb says so.
func TestServeWarnsOfTestVariables(t *testing.T) {
	var out bytes.Buffer
	a := &app{log: slog.New(slog.NewTextHandler(&out, nil))}
	a.warnOfTests()
	if out.Len() > 0 {
		t.Errorf("without variables: %q", out.String())
	}
	for _, name := range []string{coordinator.ClockVariable, coordinator.DiskFullVariable} {
		t.Setenv(name, "/tmp/x")
	}
	a.warnOfTests()
	text := out.String()
	if strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "TACIT_TEST_CLOCK=/tmp/x") {
		t.Errorf("%q", text)
	}
}
