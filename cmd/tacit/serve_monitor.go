package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/openmetrics"
)

// monitor serves metrics, health and readiness on an address of its own, without TLS and without tokens. It runs
// before the coordinator does.
type monitor struct {
	c      atomic.Pointer[coordinator.Coordinator]
	server *http.Server
}

// healthPatience is how long a health check waits for a coordinator to react.
const healthPatience = 5 * time.Second

// startMonitor serves on an address until Close; an empty one means no monitor.
func (a *app) startMonitor(address string) (*monitor, error) {
	m := &monitor{}
	if address == "" {
		return m, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, input(fmt.Errorf("--metrics %s: must be host:port", address), "example: --metrics 127.0.0.1:9633")
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, failed(fmt.Errorf("cannot serve metrics on %s: the port is in use%s", address, portOwner(address)),
			"choose another address with --metrics")
	case err != nil:
		return nil, failed(fmt.Errorf("cannot serve metrics on %s: %w", address, err), "")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", m.metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerCheck(w, m.healthy()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerCheck(w, m.ready()) })
	m.server = &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: a.errorLog(),
	}
	a.log.Info("serving metrics", "address", l.Addr().String())
	go func() { _ = m.server.Serve(l) }() // Close ends it
	return m, nil
}

// Close stops serving.
func (m *monitor) Close() {
	if m.server != nil {
		_ = m.server.Close()
	}
}

func (m *monitor) metrics(w http.ResponseWriter, r *http.Request) {
	c := m.c.Load()
	if c == nil {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	isOpen := openmetrics.Accepts(r.Header.Get("Accept"))
	w.Header().Set("Content-Type", openmetrics.PrometheusContentType)
	if isOpen {
		w.Header().Set("Content-Type", openmetrics.ContentType)
	}
	_ = c.WriteMetrics(w, isOpen) // the client has gone
}

// healthy is nil while the program starts: it reads its state folder.
func (m *monitor) healthy() error {
	if c := m.c.Load(); c != nil {
		return c.Healthy(healthPatience)
	}
	return nil
}

func (m *monitor) ready() error {
	c := m.c.Load()
	if c == nil {
		return errors.New("starting")
	}
	if err := c.Healthy(healthPatience); err != nil {
		return err
	}
	return c.Ready()
}

func answerCheck(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
