package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/docs"
	"github.com/tacit-rec/tacit/internal/site"
)

func TestDocsSiteWritesThePages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	code, out, errs := tacit("docs", "site", "-o", dir)
	if code != 0 || !strings.Contains(out, " pages (") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "index.html")); err != nil || !bytes.Contains(b, []byte("Start here")) {
		t.Errorf("the first page: %v", err)
	}
	if code, _, errs := tacit("docs", "site"); code != 2 || !strings.Contains(errs, "tacit docs site -o DIR") {
		t.Errorf("without -o: exit %d: %s", code, errs)
	}
	file := filepath.Join(dir, "index.html")
	if code, _, errs := tacit("docs", "site", "-o", file); code != 1 || !strings.Contains(errs, "cannot be written") {
		t.Errorf("into a file: exit %d: %s", code, errs)
	}
}

func TestDocsServeAnswersUntilItIsStopped(t *testing.T) {
	s, err := site.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	go func() { done <- a.serveDocs(ctx, l, s) }()
	r, err := http.Get("http://" + l.Addr().String() + "/guide.html")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("the guide is answered with %s", r.Status)
	}
	address := l.Addr().String()
	code, _, errs := tacit("docs", "serve", "--listen", address)
	if code != 1 || !strings.Contains(errs, "the port is in use") || !strings.Contains(errs, "--listen") {
		t.Errorf("on a port in use: exit %d: %s", code, errs)
	}
	if code, _, errs := tacit("docs", "serve", "--listen", "here"); code != 2 || !strings.Contains(errs, "host:port") {
		t.Errorf("without a port: exit %d: %s", code, errs)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
