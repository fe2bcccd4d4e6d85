//go:build linux || darwin

package coordinator

import "syscall"

// diskSpace returns the free bytes and the size of the disk of a folder.
func diskSpace(dir string) (free, size uint64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), true
}

// maxFiles returns the limit of open file descriptors.
func maxFiles() (uint64, bool) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return uint64(r.Cur), err == nil
}
