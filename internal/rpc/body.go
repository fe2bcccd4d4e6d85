package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// minSpeed is the minimum speed of a client: rate, after a grace period. Deadlines use the system's
// clock, whatever clock the server is configured with.
type minSpeed struct {
	grace time.Duration
	rate  float64 // bytes per second
}

// timeFor returns the time that a client may take for a number of bytes.
func (p minSpeed) timeFor(bytes int) time.Duration {
	return p.grace + time.Duration(float64(bytes)/p.rate*float64(time.Second))
}

// timedBody moves the read deadline of a request as bytes arrive, and removes it at the end, so that
// it limits the client and not the handler.
type timedBody struct {
	io.ReadCloser
	ctl   *http.ResponseController
	speed minSpeed
	start time.Time
	read  int
}

func newTimedBody(w http.ResponseWriter, r *http.Request, p minSpeed) *timedBody {
	return &timedBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), speed: p, start: time.Now()}
}

func (b *timedBody) Read(p []byte) (int, error) {
	// The error is ignored because tests have no connection.
	_ = b.ctl.SetReadDeadline(b.start.Add(b.speed.timeFor(b.read)))
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if errors.Is(err, io.EOF) {
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

// memoryBudget limits the memory of all bodies together.
type memoryBudget struct{ left atomic.Int64 }

func (b *memoryBudget) take(n int) bool {
	if b.left.Add(int64(-n)) < 0 {
		b.left.Add(int64(n))
		return false
	}
	return true
}

func (b *memoryBudget) give(n int) { b.left.Add(int64(n)) }

var errMemory = errors.New("the memory for bodies is exhausted")

// readBody reads a whole body of at most limit bytes. It takes memory from the budget as bytes arrive;
// the caller must give held back.
func readBody(body io.Reader, limit int, b *memoryBudget) (all []byte, held int, err error) {
	for {
		if len(all) == cap(all) {
			size := min(max(1024, 2*cap(all)), limit+1)
			if len(all) > limit {
				return nil, held, &http.MaxBytesError{Limit: int64(limit)}
			}
			if !b.take(size - cap(all)) {
				return nil, held, errMemory
			}
			held += size - cap(all)
			all = append(make([]byte, 0, size), all...)
		}
		n, err := body.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		switch {
		case len(all) > limit:
			return nil, held, &http.MaxBytesError{Limit: int64(limit)}
		case errors.Is(err, io.EOF):
			return all, held, nil
		case err != nil:
			return nil, held, err
		}
	}
}

// isSlow reports whether a read exceeded its deadline.
func isSlow(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
