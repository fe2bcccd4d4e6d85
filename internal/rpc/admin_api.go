package rpc

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// serveAdmin checks a request of the admin API.
func (s *Server) serveAdmin(a *response, r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	expected := ""
	if s.config.AdminToken != nil {
		expected = s.config.AdminToken()
	}
	// Hashes have the same length, so that the time of the comparison does not reveal the token's.
	got := sha256.Sum256([]byte(token))
	must := sha256.Sum256([]byte(expected))
	if same := subtle.ConstantTimeCompare(got[:], must[:]); !ok || expected == "" || same != 1 {
		return Refuse(BadToken, connect.CodeUnauthenticated, "the admin API requires the header \"Authorization: "+
			"Bearer TOKEN\" with the operator's token")
	}
	err := checkContentType(r, "application/proto", "application/json", "application/connect+proto",
		"application/connect+json")
	if err != nil {
		return err
	}
	if err := checkSize(r, s.limits.AdminBytes); err != nil {
		return err
	}
	timed := newTimedBody(a, r, s.limits.minSpeed())
	r.Body = http.MaxBytesReader(a.ResponseWriter, timed, int64(s.limits.AdminBytes))
	s.next.ServeHTTP(a, r)
	return nil
}
