package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/coordinator"
)

// memoryShare is the part of the control group's memory that the Go runtime may use. The rest is for what the
// runtime does not count.
const memoryShare = 0.9

// limitMemory gives the Go runtime a part of the memory that the control group of the process may use, so that the
// state low-memory comes before the kernel ends the process. GOMEMLIMIT takes precedence.
func (a *app) limitMemory(root string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := groupMemory(root); limit > 0 {
		ours := int64(float64(limit) * memoryShare)
		debug.SetMemoryLimit(ours)
		a.log.Info("memory limit set", "bytes", ours, "control_group_bytes", limit)
	}
}

// groupMemory is the smallest memory limit of the control groups that this process is in; 0 without a limit. root is
// the file system's root.
func groupMemory(root string) (limit int64) {
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path, such as 0::/system.slice/tacit.service, or 4:memory:/docker/12ab of version 1
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		if strings.Contains(","+part[1]+",", ",memory,") {
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if part[1] != "" {
			continue
		}
		// A container may see the path of its host, which it does not have, and its own group at the top.
		for group := filepath.Clean("/" + part[2]); ; group = filepath.Dir(group) {
			n := readLimit(filepath.Join(root, folder, group, file))
			if n > 0 && (limit == 0 || n < limit) {
				limit = n
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit reads a limit in bytes; 0 for none. Version 1 writes a number close to the largest for none.
func readLimit(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n > math.MaxInt64/2 {
		return 0
	}
	return n
}

// warnOfTests warns of variables with which tests disturb a coordinator.
func (a *app) warnOfTests() {
	for _, name := range []string{coordinator.ClockVariable, coordinator.DiskFullVariable} {
		if v := os.Getenv(name); v != "" {
			a.log.Warn(fmt.Sprintf("%s=%s is set: for tests only, since the file can set the clock or stop writes; "+
				"unset the variable", name, v))
		}
	}
}
