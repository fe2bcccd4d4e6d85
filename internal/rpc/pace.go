package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// minSpeed is how slow a client may be: a time at no rate, and from then on a lowest one.
// The server's deadlines are real time, whatever clock its caller gives.
type minSpeed struct {
	grace time.Duration
	rate  float64 // bytes a second
}

func (p minSpeed) after(bytes int) time.Duration {
	return p.grace + time.Duration(float64(bytes)/p.rate*float64(time.Second))
}

// timedBody moves the read deadline of its request as bytes come, and takes it away at
// the end: a handler may be slow, a client may not.
type timedBody struct {
	io.ReadCloser
	ctl   *http.ResponseController
	pace  minSpeed
	start time.Time
	read  int
}

func newTimedBody(w http.ResponseWriter, r *http.Request, p minSpeed) *timedBody {
	return &timedBody{ReadCloser: r.Body, ctl: http.NewResponseController(w), pace: p, start: time.Now()}
}

func (b *timedBody) Read(p []byte) (int, error) {
	// Not every server has deadlines: in a test there is no connection.
	_ = b.ctl.SetReadDeadline(b.start.Add(b.pace.after(b.read)))
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if errors.Is(err, io.EOF) {
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

// memoryBudget is the memory that bodies may have, all together.
type memoryBudget struct{ left atomic.Int64 }

func (b *memoryBudget) take(n int) bool {
	if b.left.Add(int64(-n)) < 0 {
		b.left.Add(int64(n))
		return false
	}
	return true
}

func (b *memoryBudget) give(n int) { b.left.Add(int64(n)) }

var errMemory = errors.New("the memory for bodies is used up")

// readBody reads all of a body, which must be no longer than most. Memory is taken as
// bytes come, from the budget; held is what must be given back.
func readBody(body io.Reader, most int, b *memoryBudget) (all []byte, held int, err error) {
	for {
		if len(all) == cap(all) {
			size := min(max(1024, 2*cap(all)), most+1)
			if len(all) > most {
				return nil, held, &http.MaxBytesError{Limit: int64(most)}
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
		case len(all) > most:
			return nil, held, &http.MaxBytesError{Limit: int64(most)}
		case errors.Is(err, io.EOF):
			return all, held, nil
		case err != nil:
			return nil, held, err
		}
	}
}

// isSlow reports whether a read ended at its deadline.
func isSlow(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// response is a response whose reader must keep pace, and whose refusals are counted.
type response struct {
	http.ResponseWriter
	server *Server
	ctl    *http.ResponseController
	wrote  bool
}

func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *response) WriteHeader(status int) {
	if a.wrote {
		return
	}
	a.wrote = true
	if status >= 400 {
		h := a.Header()
		if h.Get(codeHeader) == "" {
			h.Set(codeHeader, codeOf(status))
		}
		a.server.count(h.Get(codeHeader))
	}
	a.extend(0)
	a.ResponseWriter.WriteHeader(status)
}

func (a *response) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	a.extend(len(p))
	return a.ResponseWriter.Write(p)
}

// Flush is called between the parts of a stream: from then on its reader waits for the
// server, and not the other way round.
func (a *response) Flush() {
	a.extend(0)
	_ = a.ctl.Flush()
	_ = a.ctl.SetWriteDeadline(time.Time{})
}

func (a *response) extend(n int) {
	_ = a.ctl.SetWriteDeadline(time.Now().Add(a.server.limits.minSpeed().after(n)))
}

// codeOf is the word of a refusal that Connect made by itself.
func codeOf(status int) string {
	switch {
	case status == 499: // Connect's for a call that was cancelled
		return CutOff
	case status == http.StatusRequestEntityTooLarge, status == http.StatusTooManyRequests:
		return Oversized
	case status < 500, status == http.StatusNotImplemented:
		return Malformed
	}
	return Internal
}
