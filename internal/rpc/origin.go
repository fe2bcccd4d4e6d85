//go:build !js

package rpc

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"connectrpc.com/connect"
)

// CheckOrigin returns an error if a text is not an origin, such as https://shop.example or http://localhost:8080.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
		return fmt.Errorf("origin %.200q: must be scheme, host and port, such as https://shop.example", origin)
	}
	return nil
}

// checkOrigin refuses the requests of pages that neither this server nor an allowed origin serves, and tells the
// browser that it may show the answer to an allowed page. Programs other than browsers send no origin.
func (s *Server) checkOrigin(a *response, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && u.Host == r.Host {
		return nil
	}
	a.Header().Add("Vary", "Origin")
	if !slices.Contains(s.config.Origins, origin) {
		return Refuse(Forbidden, connect.CodePermissionDenied,
			"pages of %.200q may not call this coordinator; its operator can allow them with --allow-origin", origin)
	}
	h := a.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", codeHeader+", "+clockHeader+", Retry-After")
	return nil
}

// answerPreflight answers the request by which a browser asks what a page of an allowed origin may send.
func answerPreflight(a *response) {
	h := a.Header()
	h.Set("Access-Control-Allow-Methods", http.MethodPost)
	h.Set("Access-Control-Allow-Headers", "Content-Type, Connect-Protocol-Version, "+authHeader)
	h.Set("Access-Control-Max-Age", "3600") // seconds
	a.WriteHeader(http.StatusNoContent)
}
