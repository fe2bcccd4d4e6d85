//go:build !js

package rpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/wire"
)

// signer is a RoundTripper that signs each request and retries it. Every call of the protocol may be
// repeated.
type signer struct {
	options    *Options
	federation func() []byte
	turn       chan struct{} // one request at a time
	offset     atomic.Int64  // ms by which the coordinator's clock is ahead
	last       int64
	send       func(*http.Request, []byte) (*http.Response, error) // sendOnce, or a replacement in tests
}

// RoundTrip signs and sends a request, with retries.
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	body, err := take(r)
	if err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	corrected := "" // error code that the clock was last corrected for: once each, because the
	// coordinator's clock may still be behind the key's last time
	for try := 1; ; try++ {
		answer, err := s.send(r, body)
		var header http.Header
		if err == nil {
			header = answer.Header
			code := header.Get(codeHeader)
			if corrected != Replayed && corrected != code && s.correctClock(header) {
				corrected = code
				try--
				continue
			}
		}
		done := err == nil && !isRetryable(answer) || err != nil && !isTransient(err)
		seconds, _ := strconv.Atoi(header.Get("Retry-After"))
		if done || try >= s.options.Tries || ctx.Err() != nil || !pause(ctx, s.options.RetryDelay, try, seconds) {
			return answer, err
		}
	}
}

// take reads the body of a request.
func take(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// sendOnce sends a request once and reads the whole response, so that it detects a truncated one.
func (s *signer) sendOnce(r *http.Request, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	q := r.Clone(ctx)
	q.ContentLength = int64(len(body))
	q.GetBody = func() (io.ReadCloser, error) {
		if len(body) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	q.Body, _ = q.GetBody()
	if r.URL.Path != pbconnect.FederationHelloProcedure {
		var nonce [wire.NonceBytes]byte
		rand.Read(nonce[:])
		s.last = max(s.last+1, s.options.Now().UnixMilli()+s.offset.Load())
		q.Header.Set(authHeader, wire.SignRequest(s.options.Key, s.federation(), r.URL.Path, s.last, nonce, body))
	}
	a, err := s.options.Transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	all, err := io.ReadAll(io.LimitReader(a.Body, maxResponseBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the response is truncated: %w", err)
	}
	if len(all) > maxResponseBytes {
		return nil, errTooLong
	}
	a.Body = io.NopCloser(bytes.NewReader(all))
	return a, nil
}

var errTooLong = fmt.Errorf("the response exceeds %d bytes", maxResponseBytes)

// correctClock adopts the coordinator's clock from a response that refused the request's time.
func (s *signer) correctClock(h http.Header) bool {
	if word := h.Get(codeHeader); word != StaleTime && word != Replayed {
		return false
	}
	clock, err := strconv.ParseInt(h.Get(clockHeader), 10, 64)
	if err != nil || clock < 0 || clock > maxClock {
		return false
	}
	s.setClock(clock)
	s.last = 0
	return true
}

func (s *signer) setClock(clock int64) { s.offset.Store(clock - s.options.Now().UnixMilli()) }

// isRetryable reports whether a later try may succeed after this response.
func isRetryable(a *http.Response) bool {
	switch word := a.Header.Get(codeHeader); a.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return word == "" || word == SlowDown || word == TooSlow || word == CutOff
	}
	return false
}

// isTransient reports whether a later try may succeed after this network error.
func isTransient(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	return !errors.Is(err, ErrPin) && !errors.Is(err, http.ErrSchemeMismatch) && !errors.Is(err, errTooLong) &&
		!errors.As(err, &unknown) && !errors.As(err, &invalid) && !errors.As(err, &host)
}
