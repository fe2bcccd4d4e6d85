package coordinator

import (
	"os"
	"syscall"
	"time"
)

// Variables with which tacit fleet --chaos disturbs a coordinator. Each names a file.
const (
	ClockVariable    = "TACIT_TEST_CLOCK"     // holds by how much the clock is set off, such as -1h
	DiskFullVariable = "TACIT_TEST_DISK_FULL" // while the file exists, the disk counts as full
)

// wallClock is the time of day, without the monotonic reading.
func wallClock() time.Time {
	now := time.Now().Round(0)
	if path := os.Getenv(ClockVariable); path != "" {
		b, _ := os.ReadFile(path)
		off, _ := time.ParseDuration(string(b))
		now = now.Add(off)
	}
	return now
}

// refusedWrites is the error of a disk that counts as full.
func refusedWrites() func() error {
	path := os.Getenv(DiskFullVariable)
	if path == "" {
		return nil
	}
	return func() error {
		if _, err := os.Stat(path); err == nil {
			return syscall.ENOSPC
		}
		return nil
	}
}
