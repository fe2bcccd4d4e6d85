//go:build !js

package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
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

	mu    sync.Mutex
	ended bool // see end
}

func newTimedBody(w http.ResponseWriter, r *http.Request, p minSpeed) *timedBody {
	return &timedBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), speed: p, start: time.Now()}
}

// errEnded means that the server ended a body to make room for other calls.
var errEnded = errors.New("the server ended the body")

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.extend() {
		return 0, errEnded
	}
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if errors.Is(err, io.EOF) {
		_ = b.ctl.SetReadDeadline(time.Time{})
	} else if err != nil && b.hasEnded() {
		err = errEnded
	}
	return n, err
}

// extend moves the deadline, unless the body has ended.
func (b *timedBody) extend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		// The error is ignored because tests have no connection.
		_ = b.ctl.SetReadDeadline(b.start.Add(b.speed.timeFor(b.read)))
	}
	return !b.ended
}

// end makes the current and all later reads fail. Another goroutine than the reader calls it, while the request is
// being handled.
func (b *timedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	_ = b.ctl.SetReadDeadline(time.Now().Add(-time.Second))
}

func (b *timedBody) hasEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

var errMemory = errors.New("the memory for bodies is exhausted")

// readBody reads a body that should have size bytes, and at most one byte more. It takes memory as bytes arrive,
// so that a body that is announced and never sent takes little; the caller must give held back.
func readBody(body io.Reader, size int, take func(int) bool) (all []byte, held int, err error) {
	for {
		if len(all) == cap(all) {
			next := min(max(1024, 2*cap(all)), size+1)
			if len(all) > size {
				return all, held, nil // too long: the caller compares the length
			}
			if !take(next - cap(all)) {
				return nil, held, errMemory
			}
			held += next - cap(all)
			all = append(make([]byte, 0, next), all...)
		}
		n, err := body.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		switch {
		case errors.Is(err, io.EOF) || len(all) > size:
			return all, held, nil
		case err != nil:
			return nil, held, err
		}
	}
}

// isSlow reports whether a read exceeded its deadline.
func isSlow(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
