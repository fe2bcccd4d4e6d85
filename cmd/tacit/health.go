package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const metricsHint = "a check is http://HOST:PORT/healthz or /readyz, with the address of tacit serve --metrics and without TLS"

// healthCmd is the health check of a container, which has no other program.
func (a *app) healthCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "health [URL]", Short: "Check the health of a coordinator that serves metrics",
		Long: `It fetches a check of tacit serve --metrics and exits with 0 if the coordinator is well, otherwise
with 1. It is the health check of our container image.`,
		Example: "  tacit health\n  tacit health http://127.0.0.1:9633/readyz",
		Args:    maxArgs(1),
	}
	a.describe(c, "")
	c.RunE = func(c *cobra.Command, words []string) error {
		url := "http://127.0.0.1:9633/healthz"
		if len(words) > 0 {
			url = words[0]
		}
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return input(fmt.Errorf("%s: must begin with http:// or https://", url),
				"example: tacit health http://127.0.0.1:9633/readyz")
		}
		r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, url, nil)
		if err != nil {
			return input(err, "")
		}
		client := http.Client{Timeout: 2 * healthPatience}
		answer, err := client.Do(r)
		if err != nil {
			if inner := new(neturl.Error); errors.As(err, &inner) {
				err = fmt.Errorf("%s does not answer: %w", url, inner.Err)
			}
			if r.URL.Scheme == "https" {
				return failed(err, metricsHint)
			}
			return failed(err, "start the coordinator with tacit serve --metrics "+r.URL.Host)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			hint := ""
			if answer.StatusCode != http.StatusServiceUnavailable { // not a check
				hint = metricsHint
			}
			return failed(errors.New(strings.TrimSpace(string(text))), hint)
		}
		return a.resultLine(map[string]any{"url": url, "ok": true, "checked": time.Now().UTC()}, "ok")
	}
	return c
}
