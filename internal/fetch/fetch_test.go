package fetch

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
)

// entry is one file of an archive.
type entry struct {
	name, text string
	mode       os.FileMode
}

func zipOf(entries ...entry) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		w, err := z.CreateHeader(h)
		if err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// mlArchive is an archive with the shape of ml-100k's, too large for one read.
func mlArchive() []byte {
	r := rng.New(3, rng.Test)
	var rows strings.Builder
	for range 40000 {
		fmt.Fprintf(&rows, "%d\t%d\t%d\t%d\n", 1+r.Uint32n(900), 1+r.Uint32n(1600), 1+r.Uint32n(5), 8e8+r.Uint32n(9e7))
	}
	return zipOf(entry{name: "ml-100k/"}, entry{name: "ml-100k/README", text: "not needed"},
		entry{name: "ml-100k/u.data", text: rows.String()},
		entry{name: "ml-100k/u.genre", text: "unknown|0\n"}, entry{name: "__MACOSX/ml-100k/u.data", text: "\x00"})
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func known(t *testing.T, name string) data.KnownSet {
	t.Helper()
	for _, k := range data.KnownSets() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no set is called %s", name)
	return data.KnownSet{}
}

// quick is a getter for ml-100k from an address, without the waits.
func quick(t *testing.T, address string, archive []byte) *fetcher {
	t.Helper()
	k := known(t, "ml-100k")
	k.Archive = data.Archive{URL: "https://owner.invalid/ml-100k.zip", SHA256: sum(archive)}
	return &fetcher{
		KnownSet: k, Options: Options{
			Dir: t.TempDir(), From: address, OnEvent: func(any) {},
			RetryCommand: "tacit data fetch ml-100k",
		},
		client: newClient(), pause: time.Millisecond, stall: 5 * time.Minute, maxArchive: 1 << 24, maxFiles: 1 << 24,
	}
}

// mirror serves an archive; its fields make it misbehave.
type mirror struct {
	mu      sync.Mutex
	body    []byte
	tag     string
	cuts    []int // what the next answers stop after, in bytes
	hold    bool  // an answer that stops waits for the client to go away
	noRange bool
	status  int
	asked   []string // the Range of each request
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, r.Header.Get("Range"))
	if m.status != 0 {
		http.Error(w, "no", m.status)
		return
	}
	if m.tag != "" {
		w.Header().Set("ETag", m.tag)
	}
	if m.noRange {
		r.Header.Del("Range")
	}
	if len(m.cuts) > 0 {
		cut := m.cuts[0]
		m.cuts = m.cuts[1:]
		w = &cutter{w, cut, r.Context(), m.hold}
	}
	http.ServeContent(w, r, "x.zip", time.Time{}, bytes.NewReader(m.body))
}

// cutter breaks the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
	ctx  context.Context
	hold bool
}

func (c *cutter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	if c.left -= n; c.left <= 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		if c.hold {
			<-c.ctx.Done()
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/ml-100k.zip"
}

// clean checks that a folder holds the set whole, or nothing of it, and no
// working files unless they may be left.
func clean(t *testing.T, g *fetcher, there, partMayStay bool) {
	t.Helper()
	if got := g.Find(os.DirFS(g.Dir)); (got != "") != there {
		t.Errorf("the set is at %q, want it there: %v", got, there)
	}
	entries, err := os.ReadDir(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !(partMayStay && strings.Contains(e.Name(), ".part")) {
			t.Errorf("%s is left behind", e.Name())
		}
	}
	if there {
		if _, err := data.Open(os.DirFS(g.Dir), g.Name, data.Options{}); err != nil {
			t.Error(err)
		}
	}
}

func TestFetchesASetOnce(t *testing.T) {
	body := mlArchive()
	m := &mirror{body: body, tag: `"a"`}
	g := quick(t, serve(t, m), body)
	var done, total int64
	g.OnEvent = func(e any) {
		if p, ok := e.(Progress); ok {
			done, total = p.Done, p.Total
		}
	}
	r, err := g.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clean(t, g, true, false)
	if done != int64(len(body)) || total != done || r.Bytes != done || r.SHA256 != sum(body) || r.Pinned ||
		r.Rows != 40000 || r.AsPublished {
		t.Errorf("told of %d of %d bytes, got %+v", done, total, r)
	}
	var names []string
	for _, f := range r.Files {
		names = append(names, filepath.Base(f))
	}
	if want := []string{"archive.sha256", "u.data", "u.genre"}; !slices.Equal(names, want) {
		t.Errorf("the folder holds %v, want only what the set needs: %v", names, want)
	}
	asked := len(m.asked)
	if r, err := g.get(t.Context()); err != nil || !r.AlreadyThere || len(m.asked) != asked {
		t.Errorf("a second call gives %+v, %v after %d requests, want nothing done", r, err, len(m.asked)-asked)
	}
	g.Force = true
	if r, err := g.get(t.Context()); err != nil || r.AlreadyThere || len(m.asked) != asked+1 {
		t.Errorf("with force: %+v, %v", r, err)
	}
}

func TestResumesAnInterruptedTransfer(t *testing.T) {
	body := mlArchive()
	m := &mirror{body: body, tag: `"a"`, cuts: []int{100_000, 50_000}}
	g := quick(t, serve(t, m), body)
	again := 0
	g.OnEvent = func(e any) {
		if _, ok := e.(Retrying); ok {
			again++
		}
	}
	if _, err := g.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	clean(t, g, true, false)
	if want := []string{"", "bytes=100000-", "bytes=150000-"}; !slices.Equal(m.asked, want) || again != 2 {
		t.Errorf("asked for %q and told of %d cuts, want %q and 2", m.asked, again, want)
	}
}

func TestResumesTheDownloadOfAnEarlierCall(t *testing.T) {
	body := mlArchive()
	m := &mirror{body: body, tag: `"a"`, cuts: []int{150_000}, hold: true}
	g := quick(t, serve(t, m), body)
	ctx, cancel := context.WithCancel(t.Context())
	g.OnEvent = func(e any) {
		if p, ok := e.(Progress); ok && p.Done > 100_000 {
			cancel()
		}
	}
	_, err := g.get(ctx)
	var failed *Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || !strings.Contains(failed.Hint,
		"bytes are kept; resume with: tacit data fetch ml-100k") {
		t.Fatalf("got %v, %+v, want the kept bytes and how to resume", err, failed)
	}
	clean(t, g, false, true)
	g.OnEvent = func(any) {}
	r, err := g.get(t.Context())
	if err != nil || r.Resumed <= 100_000 || m.asked[1] != fmt.Sprintf("bytes=%d-", r.Resumed) {
		t.Fatalf("got %+v, %v after %q", r, err, m.asked)
	}
	clean(t, g, true, false)
}

func TestRestartsWithoutRangesOrAfterAChange(t *testing.T) {
	body := mlArchive()
	for _, c := range []struct {
		name   string
		change func(m *mirror)
		first  []string
	}{
		{"no ranges", func(m *mirror) { m.noRange = true }, []string{"", "bytes=100000-"}},
		{"another tag", func(m *mirror) { m.tag = `"b"` }, []string{"", "bytes=100000-"}},
		{"no tag", func(m *mirror) { m.tag = "" }, []string{"", ""}},
		{"a weak tag", func(m *mirror) { m.tag = `W/"a"` }, []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &mirror{body: append([]byte("old"), body[3:]...), tag: `"a"`, cuts: []int{100_000}}
			if strings.HasSuffix(c.name, " tag") && c.name != "another tag" {
				c.change(m)
			}
			g := quick(t, serve(t, m), body)
			g.OnEvent = func(e any) {
				if _, ok := e.(Retrying); ok {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.body = body
					c.change(m)
				}
			}
			r, err := g.get(t.Context())
			if err != nil || r.Resumed != 0 {
				t.Fatalf("got %+v, %v", r, err)
			}
			if !slices.Equal(m.asked, c.first) {
				t.Errorf("asked for %q, want %q", m.asked, c.first)
			}
			clean(t, g, true, false)
		})
	}
}

func TestRestartsIfTheFileShrank(t *testing.T) {
	body := mlArchive()
	m := &mirror{body: body, tag: `"a"`}
	g := quick(t, serve(t, m), body)
	part := filepath.Join(g.Dir, ".ml-100k.zip.part")
	if err := errors.Join(os.WriteFile(part, make([]byte, len(body)+9), 0o600),
		os.WriteFile(part+infoExt, fmt.Appendf(nil, `{"url":%q,"validator":"\"a\""}`, g.From), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r, err := g.get(t.Context()); err != nil || r.Resumed != 0 || len(m.asked) != 2 {
		t.Fatalf("got %+v, %v after %q", r, err, m.asked)
	}
	clean(t, g, true, false)
}

func TestWrongChecksumIsReportedAndTheFileRemoved(t *testing.T) {
	body := mlArchive()
	g := quick(t, serve(t, &mirror{body: append(body[:len(body):len(body)], 0), tag: `"a"`}), body)
	_, err := g.get(t.Context())
	if err == nil || !strings.Contains(err.Error(), "expected "+sum(body)) || !strings.Contains(err.Error(),
		"SHA-256 is "+sum(append(body[:len(body):len(body)], 0))) {
		t.Fatalf("got %v, want both sums", err)
	}
	clean(t, g, false, false)
}

func TestServerErrorsAreReported(t *testing.T) {
	for status, want := range map[int]string{
		404: "404 Not Found", 403: "403 Forbidden", 503: "the server responded 503 Service " +
			"Unavailable",
	} {
		m := &mirror{status: status}
		g := quick(t, serve(t, m), nil)
		_, err := g.get(t.Context())
		var failed *Error
		if !errors.As(err, &failed) || failed.Input || !strings.Contains(err.Error(), want) ||
			!strings.Contains(failed.Hint, "--from FILE.zip") {
			t.Errorf("%d: got %v", status, err)
		}
		if n := map[bool]int{true: maxTries, false: 1}[status >= 500]; len(m.asked) != n {
			t.Errorf("%d: %d requests, want %d", status, len(m.asked), n)
		}
		clean(t, g, false, true)
	}
}

func TestGivesUpOnASilentServer(t *testing.T) {
	release := make(chan struct{})
	g := quick(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("PK"))
		w.(http.Flusher).Flush()
		<-release
	})), nil)
	t.Cleanup(func() { close(release) })
	g.stall = 20 * time.Millisecond
	if _, err := g.get(t.Context()); !errors.Is(err, errStalled) {
		t.Fatalf("got %v", err)
	}
}

func TestWaitsForASlowServer(t *testing.T) {
	body := mlArchive()
	g := quick(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for rest := body; len(rest) > 0; rest = rest[min(len(rest), 50_000):] {
			_, _ = w.Write(rest[:min(len(rest), 50_000)])
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})), body)
	g.stall = time.Minute
	if _, err := g.get(t.Context()); err != nil { // its length is not known either
		t.Fatal(err)
	}
	clean(t, g, true, false)
}

func TestWithoutANetworkErrorsExplainManualInstallation(t *testing.T) {
	// a port that refuses, and that is not given to whoever asks for a free one
	g := quick(t, "http://127.0.0.1:1/x.zip", nil)
	_, err := g.get(t.Context())
	var failed *Error
	if !errors.As(err, &failed) || failed.Input {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"https://owner.invalid/ml-100k.zip", "tacit data fetch ml-100k --from FILE.zip",
		filepath.Join(g.Dir, "ml-100k"), "u.data",
	} {
		if !strings.Contains(failed.Hint, want) {
			t.Errorf("the hint does not say %q: %s", want, failed.Hint)
		}
	}
}

func TestRejectsArchivesThatAreTooLarge(t *testing.T) {
	body := mlArchive()
	for name, change := range map[string]func(g *fetcher){
		"declared":  func(g *fetcher) { g.maxArchive = 1000 },
		"the size":  func(g *fetcher) { g.Archive.Size = 5 },
		"the files": func(g *fetcher) { g.maxFiles = 1000 },
	} {
		g := quick(t, serve(t, &mirror{body: body}), body)
		change(g)
		if _, err := g.get(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		clean(t, g, false, true)
	}
	endless := quick(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})), body)
	endless.maxArchive = 1 << 20
	if _, err := endless.get(t.Context()); err == nil || !strings.Contains(err.Error(), "expected at most 1048576") {
		t.Errorf("got %v", err)
	}
}
