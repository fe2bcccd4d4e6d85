package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/play"
)

// fakePages returns a folder with the names of the files of the device page.
func fakePages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "device"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("index.html page.js view.js sw.js style.css icon.svg manifest.webmanifest " +
		"device/index.js device/store.js device/worker.js device/wasm_exec.js device/tacit.wasm") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A visitor that joins after the last round takes part in another run, in a masked sum with the simulated devices. The
// report counts the rounds of both runs.
func TestALateVisitorTakesPart(t *testing.T) {
	f := playFlags{devices: 30, rounds: 1}
	cfg, err := f.federation()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Pages, cfg.Workers = t.TempDir(), fakePages(t), 2
	fed, err := play.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer fed.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := fed.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	url, token, ok := strings.Cut(fed.DevicePage(), "/device/#token=")
	if !ok {
		t.Fatalf("the address of the device page is %s", fed.DevicePage())
	}
	if code, text := get(t, url+"/device/"); code != 200 || text != "index.html" {
		t.Errorf("the device page: %d %s", code, text)
	}
	visitor, err := device.Open(device.Options{Server: device.Server{URL: url, Insecure: true}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := visitor.Add(device.Event{Item: cfg.Items[i].Id, Time: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var run atomic.Int64
	stayed, left := make(chan error, 1), make(chan error, 1)
	go func() { stayed <- fed.Stay(watching, func(n int) { run.Store(int64(n)) }) }()
	go func() { left <- visitor.Run(watching, nil) }()
	until(t, "a counted report of the visitor", func() bool {
		about, err := visitor.About()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(about.Log, func(r device.LogEntry) bool {
			return r.Kind == "train" && r.State == "counted" && r.Masked
		})
	})
	stop()
	if err := <-stayed; err != nil {
		t.Error(err)
	}
	<-left
	if r := fed.Report(); run.Load() < 2 || r.Others != 1 || r.Rounds < 2 || len(r.Evaluations) == 0 {
		t.Errorf("run %d: %+v", run.Load(), r)
	}
}
