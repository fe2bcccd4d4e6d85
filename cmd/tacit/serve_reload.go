package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// followCertificate keeps the pin in local.json that of --cert: programs on this machine trust the certificate by it.
// The server loads renewed files by itself; SIGHUP only makes local.json follow at once, and is otherwise ignored.
func (a *app) followCertificate(ctx context.Context, f *serveFlags, w localAccess) {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			a.log.Info("SIGHUP: renewed certificates are loaded")
		case <-tick.C:
		}
		if f.cert == "" || f.insecure {
			continue
		}
		_, pin, err := rpc.LoadTLS(f.cert, f.key, func(error) {})
		if err != nil || pin == w.Pin {
			continue // the server warns about files that it cannot load
		}
		w.Pin = pin
		if err := w.save(f.state); err != nil {
			a.log.Warn("local.json does not have the renewed certificate's pin", "error", err)
			continue
		}
		a.log.Info("the certificate's key has changed", "pin", pin)
	}
}
