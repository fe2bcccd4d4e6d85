package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// dashboardAddress checks --dashboard. Only this machine may reach the address, because its pages need no token.
func dashboardAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return input(fmt.Errorf("--dashboard %s: must be host:port", address), "example: --dashboard 127.0.0.1:7634")
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return input(fmt.Errorf("--dashboard %s: must be a loopback address, because its pages need no token", address),
			"from other machines, open "+coordinator.DashboardPath+" on the address of --listen and sign in")
	}
	return nil
}

// openDashboard listens on the address of --dashboard; nil without one.
func openDashboard(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	if err := dashboardAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, failed(fmt.Errorf("cannot serve the dashboard on %s: the port is in use%s", address,
			portOwner(address)), "choose another address with --dashboard")
	case err != nil:
		return nil, failed(fmt.Errorf("cannot serve the dashboard on %s: %w", address, err), "")
	}
	return l, nil
}

// serveDashboard serves the pages of a coordinator on l until stop is called; l may be nil.
func (a *app) serveDashboard(c *coordinator.Coordinator, l net.Listener) (stop func()) {
	if l == nil {
		return func() {}
	}
	h := &http.Server{
		Handler: c.Dashboard(nil), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: a.errorLog(),
	}
	a.log.Info("serving the dashboard", "address", l.Addr().String())
	go func() { _ = h.Serve(l) }() // stop ends it
	return func() { _ = h.Close() }
}

// dashboardURL is where an operator on this machine opens the dashboard.
func (f *serveFlags) dashboardURL(coordinatorURL string) string {
	if f.dashboard != "" {
		return "http://" + f.dashboard + coordinator.DashboardPath
	}
	return coordinatorURL + coordinator.DashboardPath
}
