// Package disktest mounts small file systems for tests of full disks.
package disktest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// Small mounts a file system of a few megabytes until the end of the test, and returns its folder.
func Small(t *testing.T, megabytes int) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("SKIPPED: a small file system requires Linux and root")
	}
	dir := t.TempDir()
	size := fmt.Sprintf("size=%dm", megabytes)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "tacit-test", dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: a small file system requires mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}
