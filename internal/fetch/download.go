package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	infoExt      = ".json"
	maxTries     = 5 // in a row without a new byte
	maxRedirects = 5
)

var (
	errStalled = errors.New("the server sent no data")
	errChanged = errors.New("the file on the server has changed")
)

// permanent is an error that a retry cannot fix.
type permanent struct{ error }

func (e permanent) Unwrap() error { return e.error }

func newClient() *http.Client {
	dial := &net.Dialer{Timeout: 15 * time.Second}
	return &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 1 << 16,
		},
	}
}

func checkRedirect(to *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return permanent{fmt.Errorf("more than %d redirects", maxRedirects)}
	}
	if to.URL.Scheme != "https" && (via[0].URL.Scheme == "https" || to.URL.Scheme != "http") {
		return permanent{fmt.Errorf("redirect from %s to %s refused: must be https", via[0].URL.Host,
			to.URL.Redacted())}
	}
	return nil
}

// partInfo identifies the file that a partial download belongs to, so that it is only completed from the same file.
type partInfo struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong ETag, otherwise the Last-Modified time
	Total     int64  `json:"total"`     // 0 if unknown
}

// download returns the path of the complete archive.
func (g *fetcher) download(ctx context.Context, address string) (string, error) {
	part := filepath.Join(g.Dir, "."+g.Folder+".zip.part")
	before, _ := g.partial(part, address)
	g.resumed = before
	g.OnEvent(Started{From: address, Have: before})
	heard := false
	for tries := 1; ; tries++ {
		answered, err := g.attempt(ctx, address, part)
		if err == nil {
			return part, nil
		}
		heard = heard || answered
		have, _ := g.partial(part, address)
		kept := ""
		if have > 0 {
			kept = fmt.Sprintf("%d bytes are kept; resume with: %s; ", have, g.resumeCommand())
		}
		if stop := ctx.Err(); stop != nil {
			return "", g.fail(stop, strings.TrimSuffix(kept, "; "))
		}
		if have > before {
			before, tries = have, 1
		}
		var never permanent
		switch {
		case errors.As(err, &never):
			return "", g.fail(err, "see "+g.Home+"; "+g.manualHint())
		case !heard || tries >= maxTries:
			return "", g.fail(fmt.Errorf("cannot download %s: %w", address, err), kept+g.manualHint())
		}
		wait := g.pause << (tries - 1)
		g.OnEvent(Retrying{Err: err, Done: have, Wait: wait})
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// partial is the number of downloaded bytes that can be resumed.
func (g *fetcher) partial(part, address string) (int64, partInfo) {
	var n partInfo
	st, err := os.Stat(part)
	if err != nil || !st.Mode().IsRegular() || st.Size() > g.maxArchive {
		return 0, n
	}
	b, err := os.ReadFile(part + infoExt)
	if err != nil || json.Unmarshal(b, &n) != nil || n.URL != address || n.Validator == "" || n.Total > 0 &&
		st.Size() > n.Total {
		return 0, partInfo{}
	}
	return st.Size(), n
}

// attempt appends one response to the partial file. It returns nil if the archive is complete; answered reports
// whether the server responded.
func (g *fetcher) attempt(ctx context.Context, address, part string) (answered bool, err error) {
	have, n := g.partial(part, address)
	if have > 0 && have == n.Total {
		return true, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(g.stall, func() { cancel(errStalled) })
	defer timer.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, permanent{err}
	}
	req.Header.Set("User-Agent", "tacit")
	req.Header.Set("Accept-Encoding", "identity") // the checksum is that of the uncompressed transfer
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", n.Validator)
	}
	resp, err := g.client.Do(req)
	if err == nil {
		answered = true
		defer resp.Body.Close()
		err = g.receive(resp, &stallReader{resp.Body, timer, g.stall}, part, have)
	}
	if err != nil && context.Cause(ctx) == errStalled {
		err = fmt.Errorf("%w for %v", errStalled, g.stall)
	}
	var wrapped *url.Error // repeats the address
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return answered, err
}

// stallReader resets a timer whenever bytes arrive.
type stallReader struct {
	io.Reader
	alarm *time.Timer
	stall time.Duration
}

func (w *stallReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.alarm.Reset(w.stall)
	return n, err
}

// receive appends the body of a response to the partial file.
func (g *fetcher) receive(resp *http.Response, body io.Reader, part string, have int64) error {
	from, total, err := answer(resp, have)
	if errors.Is(err, errChanged) {
		os.Remove(part + infoExt) // the next attempt starts from the beginning
	}
	if err != nil {
		return err
	}
	address := resp.Request.URL.Redacted()
	if total > g.maxArchive || g.Archive.Size > 0 && total > 0 && total != g.Archive.Size {
		return permanent{fmt.Errorf("%s has %d bytes, expected %s", address, total, g.expectedSize())}
	}
	g.resumed = min(g.resumed, from)
	return g.save(body, part, from, partInfo{g.address(), validator(resp.Header), total})
}

func (g *fetcher) expectedSize() string {
	if g.Archive.Size > 0 {
		return fmt.Sprintf("%d", g.Archive.Size)
	}
	return fmt.Sprintf("at most %d", g.maxArchive)
}

// answer returns the offset of the body and the total number of bytes (0 if unknown).
func answer(resp *http.Response, have int64) (from, total int64, err error) {
	switch code := resp.StatusCode; {
	case code == http.StatusOK: // the range is ignored, or the file has changed
		return 0, max(resp.ContentLength, 0), nil
	case code == http.StatusPartialContent && have > 0:
		first, all, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || first != have {
			return 0, 0, fmt.Errorf("the server sent the range %q, expected the bytes from %d: %w",
				resp.Header.Get("Content-Range"), have, errChanged)
		}
		return have, all, nil
	case code == http.StatusRequestedRangeNotSatisfiable && have > 0:
		return 0, 0, fmt.Errorf("the file on the server is shorter than %d bytes: %w", have, errChanged)
	case code >= http.StatusInternalServerError, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return have, 0, fmt.Errorf("the server responded %s", resp.Status)
	}
	return have, 0, permanent{fmt.Errorf("%s: the server responded %s", resp.Request.URL.Redacted(), resp.Status)}
}

// contentRange parses "bytes 5-9/10"; all is 0 for "bytes 5-9/*".
func contentRange(s string) (first, all int64, ok bool) {
	var last int64
	if n, err := fmt.Sscanf(s, "bytes %d-%d/%d", &first, &last, &all); n < 2 || n == 2 &&
		!strings.HasSuffix(s, "/*") || n == 3 && err != nil {
		return 0, 0, false
	}
	return first, all, first >= 0 && last >= first && (all == 0 || last == all-1)
}

// validator is the value for If-Range, which does not accept a weak ETag.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// save writes the body after the first have bytes of the partial file.
func (g *fetcher) save(body io.Reader, part string, have int64, n partInfo) error {
	b, err := json.Marshal(n)
	if err != nil {
		return permanent{err}
	}
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return permanent{err}
	}
	defer f.Close()
	// Truncate before writing the info, so that the info never describes older bytes.
	if err := errors.Join(f.Truncate(have), os.WriteFile(part+infoExt, b, 0o644)); err != nil {
		return permanent{err}
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return permanent{err}
	}
	buf := make([]byte, 64<<10)
	for {
		k, err := body.Read(buf)
		if have += int64(k); have > g.maxArchive || n.Total > 0 && have > n.Total {
			return permanent{errors.Join(fmt.Errorf("the server sent more bytes than announced, expected %s",
				g.expectedSize()),
				f.Truncate(0))}
		}
		if _, err := f.Write(buf[:k]); err != nil {
			return permanent{err}
		}
		if k > 0 {
			g.OnEvent(Progress{have, n.Total})
		}
		switch {
		case err == io.EOF && (n.Total == 0 || have == n.Total):
			return f.Sync()
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
