//go:build unix

package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock takes a lock that the system releases when the process ends.
func lock(path string, wait bool) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	return func() { f.Close() }, nil
}
