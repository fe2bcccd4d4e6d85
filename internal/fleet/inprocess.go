package fleet

import (
	"bytes"
	"io"
	"net/http"
)

// inProcess carries requests to a handler in this process.
type inProcess struct{ h http.Handler }

func (m inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.RemoteAddr = "127.0.0.1:1"
	w := &response{header: http.Header{}}
	m.h.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, r.Context().Err()
}

// response keeps what a handler writes.
type response struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush does nothing: the client reads when the handler has returned.
func (w *response) Flush() {}
