package rpc

import "net/http"

// serveAdmin checks a request of the admin API.
func (s *Server) serveAdmin(a *response, r *http.Request) error {
	if err := s.checkToken(r); err != nil {
		return err
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
