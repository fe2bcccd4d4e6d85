//go:build !js

package rpc

import (
	"net/http"
	"time"
)

// response moves the write deadline as the client reads, and counts errors.
type response struct {
	http.ResponseWriter
	server *Server
	ctl    *http.ResponseController
	wrote  bool
}

// Unwrap is for http.ResponseController.
func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader adds an error code to errors and counts them.
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

// Write moves the write deadline.
func (a *response) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	a.extend(len(p))
	return a.ResponseWriter.Write(p)
}

// Flush ends a part of a stream. It removes the deadline, because the client waits for the server from
// then on.
func (a *response) Flush() {
	a.extend(0)
	_ = a.ctl.Flush()
	_ = a.ctl.SetWriteDeadline(time.Time{})
}

func (a *response) extend(n int) {
	_ = a.ctl.SetWriteDeadline(time.Now().Add(a.server.limits.minSpeed().timeFor(n)))
}

// codeOf returns the error code for an error of the Connect library.
func codeOf(status int) string {
	switch {
	case status == 499: // Connect's status for a cancelled call
		return CutOff
	case status == http.StatusRequestEntityTooLarge, status == http.StatusTooManyRequests:
		return Oversized
	case status < 500, status == http.StatusNotImplemented:
		return Malformed
	}
	return Internal
}
