//go:build unix

package rpc

import "syscall"

// maxDescriptors returns the number of file descriptors that the process may have, or 0 if it is unknown.
func maxDescriptors() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int(min(uint64(r.Cur), 1<<30))
}
