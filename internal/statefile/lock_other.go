//go:build !unix

package statefile

import (
	"fmt"
	"os"
	"time"
)

// stale is the age at which a lock file counts as abandoned.
const stale = time.Minute

// lock creates a lock file exclusively and refreshes its time while the lock is held. The lock file
// of a killed process is removed after a minute.
func lock(path string, wait bool) (func(), error) {
	for range 100 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			f.Close()
			done := make(chan struct{})
			go func() {
				tick := time.NewTicker(stale / 4)
				defer tick.Stop()
				for {
					select {
					case <-done:
						return
					case now := <-tick.C:
						_ = os.Chtimes(path, now, now)
					}
				}
			}()
			return func() { close(done); os.Remove(path) }, nil
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(path)
			continue
		}
		if !wait {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("%w: %s", ErrInUse, path)
}
