package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
)

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAcceptsALocalArchive(t *testing.T) {
	body := mlArchive()
	path := write(t, "ml.zip", body)
	g := quick(t, path, body)
	if _, err := g.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	clean(t, g, true, false)
	wrong := quick(t, path, []byte("another"))
	if _, err := wrong.get(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA-256 is") {
		t.Errorf("got %v, want the sums", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the user's file is gone: %v", err)
	}
	for _, from := range []string{filepath.Join(t.TempDir(), "nothing.zip"), t.TempDir()} {
		if _, err := quick(t, from, body).get(t.Context()); err == nil {
			t.Errorf("%s is taken for an archive", from)
		}
	}
}

func TestRecordsAnUnknownChecksumAndChecksItLater(t *testing.T) {
	first := zipOf(entry{name: "ratings.txt", text: "1 1 2\n1 2 3.5\n2 1 4\n"})
	other := zipOf(entry{name: "ratings.txt", text: "1 1 2\n"})
	k, dir := known(t, "filmtrust"), t.TempDir()
	get := func(archive []byte) (*Result, error) {
		return Get(context.Background(), k, Options{Dir: dir, From: write(t, "filmtrust.zip", archive), Force: true})
	}
	r, err := get(first)
	if err != nil || !r.Pinned || r.Rows != 3 {
		t.Fatalf("got %+v, %v", r, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "filmtrust", sumFile))
	if want := sum(first) + "  filmtrust.zip\n"; err != nil || string(b) != want {
		t.Errorf("written down: %q, %v, want %q", b, err, want)
	}
	if _, err = get(first); err != nil {
		t.Errorf("the same archive again: %v", err)
	}
	_, err = get(other)
	var failed *Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "expected "+sum(first)) ||
		!strings.Contains(failed.Hint,
			sumFile) {
		t.Errorf("another archive: %v", err)
	}
	if s, err := data.Open(os.DirFS(dir), "filmtrust", data.Options{}); err != nil || len(s.Item) != 3 {
		t.Errorf("the set that was there is gone: %v", err)
	}
}

func TestOneFetchServesBothSetsAndKeepsExistingFiles(t *testing.T) {
	tags := "userID\tartistID\ttagID\tday\tmonth\tyear\n" + strings.Repeat("1\t2\t3\t1\t4\t2009\n", 5)
	plays := "userID\tartistID\tweight\n" + strings.Repeat("1\t2\t3\n", 10)
	archive := zipOf(entry{name: "user_taggedartists.dat", text: tags}, entry{name: "user_artists.dat", text: plays},
		entry{name: "artists.dat", text: "id\tname\n2\tB\n"})
	k, dir := known(t, "lastfm-2k-artists"), t.TempDir()
	k.Archive.SHA256 = sum(archive)
	own := filepath.Join(dir, "lastfm-2k", "artists.dat")
	if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o700), os.WriteFile(own, []byte("id\tname\n2\tMine\n"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(t.Context(), k, Options{Dir: dir, From: write(t, "l.zip", archive)}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lastfm-2k", "lastfm-2k-artists"} {
		s, err := data.Open(os.DirFS(dir), name, data.Options{})
		if err != nil || s.Meta.ItemName(0) != "Mine" {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func TestSetsWithoutADownloadNameHomeAndFiles(t *testing.T) {
	for _, name := range []string{"frappe", "amazon-video", "tafeng", "qb-article", "qb-article-clicks"} {
		k, dir := known(t, name), t.TempDir()
		_, err := Get(t.Context(), k, Options{Dir: dir})
		var failed *Error
		if !errors.As(err, &failed) || !failed.Input || !strings.Contains(err.Error(), k.Home) ||
			!strings.Contains(failed.Hint, "Put "+k.Needs()+" into "+filepath.Join(dir, k.Folder)) {
			t.Errorf("%s: got %v, %+v", name, err, failed)
		}
	}
	// The archive that a user got there can be given.
	row := "2000-11-01;1;A;B;1;2;3;4;5\n"
	archive := write(t, "a.zip", zipOf(entry{name: "t/D11", text: row}, entry{name: "t/D12", text: row},
		entry{name: "t/D01", text: row}, entry{name: "t/D02", text: row}))
	if r, err := Get(t.Context(), known(t, "tafeng"), Options{Dir: t.TempDir(), From: archive}); err != nil ||
		r.Rows != 4 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRejectsUnsafeAddresses(t *testing.T) {
	for _, c := range []struct {
		set, from string
		ok        bool
	}{
		{"filmtrust", "https://example.org/x.zip", true},
		{"filmtrust", "http://127.0.0.1:8080/x.zip", true},
		{"filmtrust", "http://localhost/x.zip", true},
		{"filmtrust", "http://example.org/x.zip", false}, // nothing to check it with
		{"ml-100k", "http://example.org/x.zip", true},
		{"ml-100k", "ftp://example.org/x.zip", false},
		{"ml-100k", "file:///etc/passwd", false},
		{"ml-100k", "https://%zz", false},
	} {
		g := &fetcher{KnownSet: known(t, c.set), Options: Options{From: c.from}}
		if err := g.checkAddress(c.from); (err == nil) != c.ok {
			t.Errorf("%s from %s: %v, want it used: %v", c.set, c.from, err, c.ok)
		}
	}
	old := known(t, "ml-100k")
	old.Archive.URL = "http://example.org/x.zip"
	if err := (&fetcher{KnownSet: old}).checkAddress(old.Archive.URL); err == nil {
		t.Error("a table with plain http is used")
	}
}

func TestRedirectsNeverLeaveHTTPS(t *testing.T) {
	for _, c := range []struct {
		from, to string
		hops     int
		ok       bool
	}{
		{"https://a", "https://b", 1, true},
		{"https://a", "http://b", 1, false},
		{"http://a", "http://b", 1, true},
		{"http://a", "https://b", 1, true},
		{"http://a", "ftp://b", 1, false},
		{"https://a", "https://b", 5, true},
		{"https://a", "https://b", 6, false},
	} {
		u, _ := url.Parse(c.to)
		via := []*http.Request{httptest.NewRequest(http.MethodGet, c.from, nil)}
		for len(via) < c.hops {
			via = append(via, via[0])
		}
		if err := checkRedirect(&http.Request{URL: u}, via); (err == nil) != c.ok {
			t.Errorf("%s to %s after %d: %v, want it followed: %v", c.from, c.to, c.hops, err, c.ok)
		}
	}
	g := quick(t, "", nil)
	secure := httptest.NewTLSServer(http.RedirectHandler("http://127.0.0.1:1/x.zip", http.StatusFound))
	t.Cleanup(secure.Close)
	g.client = secure.Client()
	g.client.CheckRedirect = checkRedirect
	g.From = secure.URL
	if _, err := g.get(t.Context()); err == nil || !strings.Contains(err.Error(), "refused: must be https") {
		t.Errorf("got %v", err)
	}
}

func TestParsesContentRanges(t *testing.T) {
	for s, want := range map[string]string{
		"bytes 5-9/10": "5 10 true", "bytes 0-0/1": "0 1 true", "bytes 5-9/*": "5 0 true",
		"bytes 5-8/10": "", "bytes 9-5/10": "", "bytes -5-9/10": "", "bytes */10": "", "": "", "bytes 5-9": "",
		"bytes 5-9/x": "", "items 5-9/10": "",
	} {
		first, all, ok := contentRange(s)
		if got := map[bool]string{true: fmt.Sprint(first, all, ok)}[ok]; got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestRejectsArchivesWithPathsThatLeadElsewhere(t *testing.T) {
	rows := "1 1 2\n"
	big := strings.Repeat("1 1 2\n", 1<<16)
	for name, c := range map[string]struct {
		entries []entry
		want    string
	}{
		"out of the folder": {[]entry{{name: "../ratings.txt", text: rows}}, "leads outside of it"},
		"deep out":          {[]entry{{name: "a/../../ratings.txt", text: rows}}, "leads outside of it"},
		"absolute":          {[]entry{{name: "/etc/ratings.txt", text: rows}}, "leads outside of it"},
		"Windows":           {[]entry{{name: `..\ratings.txt`, text: rows}}, "leads outside of it"},
		"elsewhere beside": {
			[]entry{{name: "ratings.txt", text: rows}, {name: "../x", text: "y"}},
			"leads outside of it",
		},
		"a link": {
			[]entry{{name: "ratings.txt", text: "/etc/passwd", mode: os.ModeSymlink}},
			"not a regular file",
		},
		"twice": {
			[]entry{{name: "a/ratings.txt", text: rows}, {name: "b/ratings.txt", text: rows}},
			"twice",
		},
		"a bomb":               {[]entry{{name: "ratings.txt", text: big}}, "exceeds the limit of 100000 bytes"},
		"nothing that is used": {[]entry{{name: "README", text: rows}}, ""},
	} {
		dir := t.TempDir()
		b := zipOf(c.entries...)
		err := unpack(t.Context(), bytes.NewReader(b), int64(len(b)), dir, []string{"ratings.txt"}, 100_000)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if _, err := os.Lstat(filepath.Join(dir, "..", "ratings.txt")); err == nil {
			t.Fatalf("%s: a file was written outside", name)
		}
	}
}

func TestInvalidArchivesSayWhatIsMissing(t *testing.T) {
	k := known(t, "filmtrust")
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"a page":        {[]byte("<html>please log in</html>"), "not a zip archive"},
		"nothing":       {nil, "not a zip archive"},
		"other files":   {zipOf(entry{name: "u.data", text: "1\t2\n"}), "does not contain ratings.txt"},
		"wrong content": {zipOf(entry{name: "ratings.txt", text: "1 2 x\n"}), `found "x", expected a number`},
	} {
		dir := t.TempDir()
		_, err := Get(t.Context(), k, Options{Dir: dir, From: write(t, "x.zip", c.body)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("%s: %s is left behind", name, entries[0].Name())
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(zipOf(entry{name: "a/ratings.txt", text: "1 1 2\n"}, entry{name: "x", text: "y"}))
	f.Add(zipOf(entry{name: "../ratings.txt", text: "1"}))
	f.Add(zipOf(entry{name: "ratings.txt", text: strings.Repeat("0", 5000)}))
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		inner := filepath.Join(dir, "in")
		if err := os.Mkdir(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		err := unpack(t.Context(), bytes.NewReader(b), int64(len(b)), inner, []string{"ratings.txt", "trust.txt"}, 4096)
		if out, _ := os.ReadDir(dir); len(out) != 1 {
			t.Fatalf("a file was written outside: %v", out)
		}
		size := int64(0)
		in, _ := os.ReadDir(inner)
		for _, e := range in {
			st, serr := e.Info()
			if serr != nil || !st.Mode().IsRegular() || e.Name() != "ratings.txt" && e.Name() != "trust.txt" {
				t.Fatalf("%v was written", e)
			}
			size += st.Size()
		}
		if err == nil && size > 4096 {
			t.Fatalf("%d bytes were written, want at most 4096", size)
		}
	})
}
