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
	noteExt      = ".json"
	mostTries    = 5 // in a row without a new byte
	mostRedirect = 5
)

var (
	errStalled = errors.New("the server sends nothing")
	errChanged = errors.New("the file is another one now")
)

// final is an error that another try would not mend.
type final struct{ error }

func (e final) Unwrap() error { return e.error }

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
	if len(via) > mostRedirect {
		return final{fmt.Errorf("more than %d redirects", mostRedirect)}
	}
	if to.URL.Scheme != "https" && (via[0].URL.Scheme == "https" || to.URL.Scheme != "http") {
		return final{fmt.Errorf("a redirect from %s to %s is not followed: want https", via[0].URL.Host,
			to.URL.Redacted())}
	}
	return nil
}

// note is what is known of a part of a file, so that the rest is taken from the
// same file or not at all.
type note struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong ETag, or else the time of the last change
	Total     int64  `json:"total"`     // 0: not known
}

// download returns the file that holds the whole archive.
func (g *getter) download(ctx context.Context, address string) (string, error) {
	part := filepath.Join(g.Dir, "."+g.Folder+".zip.part")
	before, _ := g.left(part, address)
	g.resumed = before
	g.Tell(Started{From: address, Have: before})
	heard := false
	for tries := 1; ; tries++ {
		answered, err := g.attempt(ctx, address, part)
		if err == nil {
			return part, nil
		}
		heard = heard || answered
		have, _ := g.left(part, address)
		kept := ""
		if have > 0 {
			kept = fmt.Sprintf("%d bytes are kept; go on with: %s; ", have, g.again())
		}
		if stop := ctx.Err(); stop != nil {
			return "", g.fail(stop, strings.TrimSuffix(kept, "; "))
		}
		if have > before {
			before, tries = have, 1
		}
		var never final
		switch {
		case errors.As(err, &never):
			return "", g.fail(err, "look at "+g.Home+"; "+g.byHand())
		case !heard || tries >= mostTries:
			return "", g.fail(fmt.Errorf("%s cannot be downloaded: %w", address, err), kept+g.byHand())
		}
		wait := g.pause << (tries - 1)
		g.Tell(Again{Err: err, Done: have, Wait: wait})
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// left is how much of the archive is here and may be gone on with.
func (g *getter) left(part, address string) (int64, note) {
	var n note
	st, err := os.Stat(part)
	if err != nil || !st.Mode().IsRegular() || st.Size() > g.mostArchive {
		return 0, n
	}
	b, err := os.ReadFile(part + noteExt)
	if err != nil || json.Unmarshal(b, &n) != nil || n.URL != address || n.Validator == "" || n.Total > 0 &&
		st.Size() > n.Total {
		return 0, note{}
	}
	return st.Size(), n
}

// attempt adds to the part what one answer of the server brings. It is nil when
// the archive is whole, and answered when the server said anything.
func (g *getter) attempt(ctx context.Context, address, part string) (answered bool, err error) {
	have, n := g.left(part, address)
	if have > 0 && have == n.Total {
		return true, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(g.stall, func() { cancel(errStalled) })
	defer timer.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, final{err}
	}
	req.Header.Set("User-Agent", "tacit")
	req.Header.Set("Accept-Encoding", "identity") // the sum is of the file as it is
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", n.Validator)
	}
	resp, err := g.client.Do(req)
	if err == nil {
		answered = true
		defer resp.Body.Close()
		err = g.take(resp, &watched{resp.Body, timer, g.stall}, part, have)
	}
	if err != nil && context.Cause(ctx) == errStalled {
		err = fmt.Errorf("%w for %v", errStalled, g.stall)
	}
	var wrapped *url.Error // says the address again
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return answered, err
}

// watched puts an alarm off for as long as bytes come.
type watched struct {
	io.Reader
	alarm *time.Timer
	stall time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.alarm.Reset(w.stall)
	return n, err
}

// take adds the body of an answer to the part.
func (g *getter) take(resp *http.Response, body io.Reader, part string, have int64) error {
	from, total, err := answer(resp, have)
	if errors.Is(err, errChanged) {
		os.Remove(part + noteExt) // so that the next try starts anew
	}
	if err != nil {
		return err
	}
	address := resp.Request.URL.Redacted()
	if total > g.mostArchive || g.Archive.Size > 0 && total > 0 && total != g.Archive.Size {
		return final{fmt.Errorf("%s offers %d bytes, want %s", address, total, g.wantSize())}
	}
	g.resumed = min(g.resumed, from)
	return g.save(body, part, from, note{g.address(), validator(resp.Header), total})
}

func (g *getter) wantSize() string {
	if g.Archive.Size > 0 {
		return fmt.Sprintf("%d", g.Archive.Size)
	}
	return fmt.Sprintf("at most %d", g.mostArchive)
}

// answer says from which byte on the body is, and how many bytes there are in
// all (0: not known).
func answer(resp *http.Response, have int64) (from, total int64, err error) {
	switch code := resp.StatusCode; {
	case code == http.StatusOK: // the range is ignored, or the file has changed
		return 0, max(resp.ContentLength, 0), nil
	case code == http.StatusPartialContent && have > 0:
		first, all, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || first != have {
			return 0, 0, fmt.Errorf("the server sends the range %q, want the bytes from %d on: %w",
				resp.Header.Get("Content-Range"), have, errChanged)
		}
		return have, all, nil
	case code == http.StatusRequestedRangeNotSatisfiable && have > 0:
		return 0, 0, fmt.Errorf("the server has no byte %d: %w", have, errChanged)
	case code >= http.StatusInternalServerError, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return have, 0, fmt.Errorf("the server answers %s", resp.Status)
	}
	return have, 0, final{fmt.Errorf("%s: the server answers %s", resp.Request.URL.Redacted(), resp.Status)}
}

// contentRange reads "bytes 5-9/10"; all is 0 for "bytes 5-9/*".
func contentRange(s string) (first, all int64, ok bool) {
	var last int64
	if n, err := fmt.Sscanf(s, "bytes %d-%d/%d", &first, &last, &all); n < 2 || n == 2 &&
		!strings.HasSuffix(s, "/*") || n == 3 && err != nil {
		return 0, 0, false
	}
	return first, all, first >= 0 && last >= first && (all == 0 || last == all-1)
}

// validator is what If-Range takes: a weak ETag is not for ranges.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// save writes the body behind the first have bytes of the part.
func (g *getter) save(body io.Reader, part string, have int64, n note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return final{err}
	}
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return final{err}
	}
	defer f.Close()
	// The part is cut before the note is written: a note is never of older bytes.
	if err := errors.Join(f.Truncate(have), os.WriteFile(part+noteExt, b, 0o644)); err != nil {
		return final{err}
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return final{err}
	}
	buf := make([]byte, 64<<10)
	for {
		k, err := body.Read(buf)
		if have += int64(k); have > g.mostArchive || n.Total > 0 && have > n.Total {
			return final{errors.Join(fmt.Errorf("the server sends more than it said, want %s bytes", g.wantSize()),
				f.Truncate(0))}
		}
		if _, err := f.Write(buf[:k]); err != nil {
			return final{err}
		}
		if k > 0 {
			g.Tell(Progress{have, n.Total})
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
