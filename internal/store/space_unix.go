//go:build linux || darwin

package store

import "syscall"

// diskSpace is the space of a folder's file system that the process may use, and its size; zeros
// if unknown.
func diskSpace(dir string) (free, size uint64) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0
	}
	return uint64(st.Bavail) * uint64(st.Bsize), uint64(st.Blocks) * uint64(st.Bsize)
}
