package web_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/web"
)

// patience is how long a test waits for others: a busy machine is slow.
const patience = 3 * time.Minute

// titles are words of the items' titles. The last one must not become an element of the page.
var titles = []string{"Harbour", "Lantern", "Winter", "Orchard", "Signal", `<img src=x onerror="alert(1)">`}

// items returns a catalogue of n items.
func items(n int) []*pb.Item {
	var out []*pb.Item
	for i := range n {
		out = append(out, &pb.Item{Id: fmt.Sprintf("f%d", i), Title: fmt.Sprintf("%s %d", titles[i%len(titles)], i)})
	}
	return out
}

// settings returns those of a run with a number of devices.
func settings(method string, devices, rounds int) coordinator.Settings {
	return coordinator.Settings{
		Name: "films", Method: method, Params: map[string]string{},
		Config: round.Config{
			Rounds: rounds, Batch: 64, Negatives: 4, Keep: "f32", Bits: 24, Cohort: round.Cohort{Kind: "all"},
			Mean: aggregate.PerCohort, Server: aggregate.Rule{Kind: "sgd", Rate: 1},
		},
		Devices: devices, Goal: 1, Minimum: 0.5, Deadline: patience, Seed: 7,
	}
}

// federation is a coordinator that serves a folder of the device page.
type federation struct {
	c          *coordinator.Coordinator
	url, token string
	stop       func()
}

func serve(t *testing.T, s coordinator.Settings, dir string, origins ...string) *federation {
	t.Helper()
	c, err := coordinator.Open(coordinator.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Begin(s, items(60)); err != nil {
		t.Fatal(err)
	}
	f := &federation{c: c}
	if f.token, err = c.Token(1000, time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.Limits = rpc.Limits{AddressRate: -1, KeyRate: 1000, Grace: patience, Call: patience}
	config.Origins = origins
	pages, err := web.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	config.Mounts = append(config.Mounts, rpc.Mount{
		Prefix: web.Path, Open: true,
		Handler: func(w http.ResponseWriter, r *http.Request) error { pages.ServeHTTP(w, r); return nil },
	})
	server, err := rpc.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + l.Addr().String()
	h := server.HTTP(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- h.Serve(server.Listener(l)) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		h.Close()
		<-ended
		<-ended
		c.Close()
		pages.Close()
	}
	t.Cleanup(f.stop)
	return f
}

// join runs native devices with histories of their own until the test ends.
func (f *federation) join(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, n)
	for x := range n {
		d, err := device.Open(device.Options{
			Server: device.Server{URL: f.url, Insecure: true}, Token: f.token,
		})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 8 {
			if err := d.Add(device.Event{Item: fmt.Sprintf("f%d", (x*7+k*k+k)%60), Time: int64(k)}); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			_ = d.Run(ctx, nil) // ends with the context
			ended <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			<-ended
		}
	})
}
