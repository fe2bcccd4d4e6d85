package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/docs"
	"github.com/tacit-rec/tacit/internal/site"
	"github.com/tacit-rec/tacit/internal/study/format"
)

const docsLong = `
The documentation is part of the program: serve shows it without a network, and site writes it as static
files. The other commands generate pages of the repository from code or from measurements.`

func (a *app) docsCmd() *cobra.Command {
	return group(&cobra.Command{
		Use: "docs", Short: "Show the documentation, and generate its pages", Long: docsLong,
		Example: "  tacit docs serve\n  tacit docs site -o site",
	}, a.docsServeCmd(), a.docsSiteCmd(), a.methodPagesCmd(), a.parityCmd(), a.privacyDocsCmd(), a.leaderboardCmd())
}

func (a *app) docsServeCmd() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use: "serve", Short: "Show the documentation in a browser, without a network", Args: noArgs,
		Example: "  tacit docs serve\n  tacit docs serve --listen 127.0.0.1:8080",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := site.New(docs.Files)
			if err != nil {
				return err
			}
			if _, _, err := net.SplitHostPort(listen); err != nil {
				return input(fmt.Errorf("--listen %s: must be host:port", listen), "example: --listen 127.0.0.1:8080")
			}
			l, err := net.Listen("tcp", listen)
			switch {
			case errors.Is(err, syscall.EADDRINUSE):
				return failed(fmt.Errorf("cannot serve the documentation on %s: the port is in use%s", listen,
					portOwner(listen)), "choose another address with --listen")
			case err != nil:
				return failed(fmt.Errorf("cannot serve the documentation on %s: %w", listen, err), "")
			}
			url := "http://" + l.Addr().String() + "/"
			err = a.resultLine(map[string]string{"url": url}, "documentation: %s (stop with Ctrl-C)", url)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			return a.serveDocs(c.Context(), l, s)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7635", "serve on this address; port 0 selects a free one")
	return c
}

// serveDocs serves the site until the context ends.
func (a *app) serveDocs(ctx context.Context, l net.Listener, s *site.Site) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return failed(fmt.Errorf("the documentation is no longer served: %w", err), "")
	}
	return nil
}

func (a *app) docsSiteCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "site", Short: "Write the documentation as static files", Args: noArgs,
		Long: "\nEvery page, drawing and style is a file with relative links, for any web server.\nFiles of an " +
			"earlier site in the folder are replaced.",
		Example: "  tacit docs site -o site",
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return input(errors.New("-o is missing"), "tacit docs site -o DIR, with the folder to write to")
			}
			s, err := site.New(docs.Files)
			if err != nil {
				return err
			}
			size, err := s.Write(dir)
			if err != nil {
				return failed(err, "")
			}
			return a.resultLine(map[string]any{"folder": dir, "pages": s.Pages(), "bytes": size},
				"wrote %s (%.1f MB) to %s; open it with a web server, or read it with tacit docs serve",
				format.Plural(s.Pages(), "page"), float64(size)/1e6, dir)
		},
	}
	c.Flags().StringVarP(&dir, "out", "o", "", "write the site to this folder")
	return c
}
