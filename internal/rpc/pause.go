package rpc

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxDelay is the longest delay between two tries.
const maxDelay = 30 * time.Second

// pause waits before the next try: twice as long each time, with a random part, so that devices that lost their
// connections together do not return together, and at least the seconds that the coordinator asks for. It returns
// false if ctx is done.
func pause(ctx context.Context, first time.Duration, try, seconds int) bool {
	d := min(first<<min(try-1, 20), maxDelay)
	asked := min(time.Duration(seconds)*time.Second, maxDelay)
	d = max(d/2+time.Duration(rand.Int64N(int64(d)+1)), asked)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
