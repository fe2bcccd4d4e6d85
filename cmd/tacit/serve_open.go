package main

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
)

// servePorts are what a coordinator listens on. The monitor is there before the coordinator is.
type servePorts struct {
	devices, pages net.Listener // pages may be nil
	monitor        *monitor
}

// open opens the state folder, begins a run if begins is set, and serves until it is stopped.
func (a *app) open(ctx context.Context, f *serveFlags, opt *coordinator.Options, begins bool,
	settings coordinator.Settings, items []*pb.Item, ports servePorts,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer a.limitStop(ctx, stopWithin, os.Exit)()
	c, err := coordinator.Open(*opt)
	var damage *store.Damage
	if errors.As(err, &damage) {
		return input(err, "tacit serve --repair --state "+f.state)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if begins {
		if err := c.Begin(settings, items); err != nil {
			hint := ""
			if errors.Is(err, coordinator.ErrBegun) {
				hint = "omit -d to resume it; then tacit admin end ends it, and tacit admin begin begins another one"
			}
			return input(err, hint)
		}
	}
	ports.monitor.c.Store(c)
	defer a.serveDashboard(c, ports.pages)()
	err = a.listen(ctx, c, f, ports.devices)
	cancel() // the rest has a limit
	if a.terminated.Load() && errors.Is(err, context.Canceled) {
		return nil // a server that is told to stop has not failed
	}
	return err
}
