//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A coordinator with few file descriptors serves operators and keeps its files open while strangers hold more
// connections than it has descriptors.
func TestServesWithFewFileDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a coordinator: run without -short")
	}
	dir := filepath.Join(t.TempDir(), "state")
	words := fmt.Sprintf("ulimit -n 100 && exec %s serve -d world --world users=8,items=40,mean-rows=8 -m fedmf "+
		"--state %s --listen 127.0.0.1:0", os.Args[0], dir)
	c := exec.Command("sh", "-c", words)
	start(t, c)
	var w *localAccess
	until(t, "the coordinator starts", func() bool {
		var err error
		w, err = readLocalAccess(dir)
		return err == nil && w.URL != ""
	})
	for range 150 {
		s, err := net.DialTimeout("tcp", strings.TrimPrefix(w.URL, "https://"), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	for range 3 {
		if code, out, errs := tacit("admin", "status", "--state", dir, "--format", "json"); code != 0 {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if code, out, errs := tacit("admin", "token", "--state", dir, "--uses", "3"); code != 0 { // writes to the disk
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	}
}
