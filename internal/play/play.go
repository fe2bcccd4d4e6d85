// Package play runs a whole federation in one process, for people who want to see one: a coordinator with its pages on
// loopback addresses, and simulated devices that reach it over real sockets. It measures nothing by itself: all
// accuracy comes from evaluations by the devices.
package play

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/web"
)

// Config describes the federation. Devices are the first users of the split, as many as the settings plan for.
type Config struct {
	Dir      string // an empty folder for the coordinator's state
	Split    *data.Split
	Settings coordinator.Settings
	Items    []*pb.Item
	Workers  int    // devices that compute at the same time
	Pages    string // folder of the device page; empty if it was not built
	// Intro returns the text above the dashboard; it may be nil. Its argument is the address of the device page, empty
	// without one.
	Intro func(devicePage string) *coordinator.DashboardIntro
	Event func(coordinator.Event) // receives an event after each round; may be nil
	Warn  func(string)            // receives warnings; may be nil
}

// Federation is a coordinator and its devices. Start makes one, and Close ends it.
type Federation struct {
	cfg         Config
	coordinator *coordinator.Coordinator
	fleet       *fleet.Fleet
	pages       *web.Handler
	servers     []*http.Server
	dashboard   string
	device      string
	cancel      context.CancelFunc
	working     sync.WaitGroup
	failed      chan error
	began       time.Time
}

// Start opens the coordinator, serves its pages and lets the devices check in. The caller calls Close.
func Start(cfg Config) (_ *Federation, err error) {
	f := &Federation{cfg: cfg, failed: make(chan error, 4), began: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	f.coordinator, err = coordinator.Open(coordinator.Options{
		Dir: cfg.Dir, Event: cfg.Event, Warn: cfg.Warn, Features: cfg.Settings.Features,
		// Devices in the same process may come often: a person waits.
		CheckIns: coordinator.CheckIns{
			MinInterval: 500 * time.Millisecond, IdleInterval: 2 * time.Second, MaxInterval: maxInterval,
		},
	})
	if err != nil {
		return nil, err
	}
	if err := f.coordinator.Begin(cfg.Settings, cfg.Items); err != nil {
		return nil, err
	}
	token, err := f.coordinator.Token(cfg.Settings.Devices+1000, 24*time.Hour, "play")
	if err != nil {
		return nil, err
	}
	url, err := f.serveDevices()
	if err != nil {
		return nil, err
	}
	if cfg.Pages != "" {
		f.device = url + web.Path + "/#token=" + token // browsers do not send what is behind a #
	}
	if err := f.serveDashboard(); err != nil {
		return nil, err
	}
	// Every device of a masked sum may have a call that waits for the others.
	transport, err := rpc.NewTransport("", cfg.Settings.Devices+16)
	if err != nil {
		return nil, err
	}
	f.fleet, err = fleet.New(fleet.Config{
		Server: rpc.Options{URL: url, Insecure: true, Transport: transport},
		Token:  token, Split: cfg.Split, Users: cfg.Settings.Devices,
		Workers: cfg.Workers,
	})
	if err != nil {
		return nil, err
	}
	f.work(func() error { return f.coordinator.Run(ctx) })
	f.work(func() error { return f.fleet.Run(ctx, 0) })
	return f, nil
}

// work runs a part of the federation until Close. An error ends Wait.
func (f *Federation) work(part func() error) {
	f.working.Go(func() {
		if err := part(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) {
			f.failed <- err
		}
	})
}

// serveDevices serves the device API and the device page, and returns their address. The operator's token is made
// here and written nowhere, so that only this process is an operator.
func (f *Federation) serveDevices() (url string, err error) {
	if f.pages, err = web.New(f.cfg.Pages); err != nil {
		return "", err
	}
	var secret [24]byte
	rand.Read(secret[:])
	f.coordinator.SetAdminToken(hex.EncodeToString(secret[:]))
	config := f.coordinator.Config()
	config.Limits = rpc.Limits{AddressRate: -1, KeyRate: 1000, Grace: time.Minute, Call: time.Minute} // one address
	config.Mounts = append(config.Mounts, rpc.Mount{
		Prefix: web.Path, Open: true, Handler: func(w http.ResponseWriter, r *http.Request) error {
			f.pages.ServeHTTP(w, r)
			return nil
		},
	})
	server, err := rpc.NewServer(config)
	if err != nil {
		return "", err
	}
	f.coordinator.CountRefusals(server.Refused)
	l, err := listen()
	if err != nil {
		return "", err
	}
	h := server.HTTP(nil)
	f.servers = append(f.servers, h)
	f.work(func() error { return h.Serve(server.Listener(l)) })
	return "http://" + l.Addr().String(), nil
}

// serveDashboard serves the pages that everybody on this machine may read.
func (f *Federation) serveDashboard() error {
	l, err := listen()
	if err != nil {
		return err
	}
	var intro *coordinator.DashboardIntro
	if f.cfg.Intro != nil {
		intro = f.cfg.Intro(f.device)
	}
	h := &http.Server{
		Handler: f.coordinator.Dashboard(intro), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	f.servers = append(f.servers, h)
	f.dashboard = "http://" + l.Addr().String() + coordinator.DashboardPath
	f.work(func() error { return h.Serve(l) })
	return nil
}

func listen() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen on a loopback address: %w", err)
	}
	return l, nil
}

// Dashboard is the address of the dashboard.
func (f *Federation) Dashboard() string { return f.dashboard }

// DevicePage is the address of the device page with an enrolment token; empty without one.
func (f *Federation) DevicePage() string { return f.device }

// Wait waits until all rounds are done. It returns ctx.Err() if ctx ends before that.
func (f *Federation) Wait(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if s := f.coordinator.Status(); s.State.Over() {
				return nil
			}
		}
	}
}

// Stay waits until ctx ends or a part of the federation fails. If a visitor's device is there after the last round,
// another run begins, from the newest model, so that late visitors take part too. Stay then calls again with the
// number of the run.
func (f *Federation) Stay(ctx context.Context, again func(run int)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s := f.coordinator.Status()
			if !s.State.Over() || !f.visited(now) {
				continue
			}
			if err := f.coordinator.BeginNext(); err != nil {
				return err
			}
			again(s.RunNumber + 1)
		}
	}
}

// visited reports whether a device that is not simulated checked in lately. Its ID follows those of the simulated
// ones.
func (f *Federation) visited(now time.Time) bool {
	for _, d := range f.coordinator.Devices(uint32(f.cfg.Settings.Devices), 100).Devices {
		if d.LastSeen != nil && now.Sub(*d.LastSeen) < 2*maxInterval {
			return true
		}
	}
	return false
}

// maxInterval is the longest time between two check-ins of a device.
const maxInterval = 5 * time.Second

// Close ends the devices, the pages and the coordinator. It may be called twice.
func (f *Federation) Close() {
	f.cancel()
	for _, h := range f.servers {
		_ = h.Close()
	}
	f.servers = nil
	f.working.Wait()
	if f.fleet != nil {
		f.fleet.Close()
	}
	if f.pages != nil {
		_ = f.pages.Close()
		f.pages = nil
	}
	if f.coordinator != nil {
		_ = f.coordinator.Close() // its folder is deleted
		f.coordinator = nil
	}
}
