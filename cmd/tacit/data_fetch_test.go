package main

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// filmTrust is an archive with the layout of the owner's. Its rows do not compress well, so that a
// download has several pieces.
func filmTrust(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "ratings.txt", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(strings.Repeat("1 1 2\n1 2 3.5\n1 3 4\n2 1 4\n2 2 1\n2 3 2\n", 20000))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFetchedSetIsReadyToUse(t *testing.T) {
	body := filmTrust(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}))
	defer s.Close()
	dir := t.TempDir()
	words := []string{"data", "fetch", "filmtrust", "--data-dir", dir, "--from", s.URL + "/filmtrust.zip"}
	code, out, errs := tacit(words...)
	if code != 0 || !strings.Contains(out, "2 users, 3 items, 120000 interactions, which differs from the published "+
		"size") ||
		!strings.Contains(out, "tacit data describe filmtrust") {
		t.Fatalf("exit %d, prints %q and %q", code, out, errs)
	}
	licence, progress := strings.Index(errs, "licence   "), strings.Index(errs, "100%")
	if licence < 0 || progress < licence {
		t.Errorf("want the licence and then progress: %q", errs)
	}
	if code, out, _ := tacit("data", "describe", "filmtrust", "--data-dir", dir); code != 0 ||
		!strings.Contains(out, "120000") {
		t.Errorf("describe exits %d and prints %q", code, out)
	}
	if _, out, _ := tacit("data", "list", "--data-dir", dir); !strings.Contains(out, filepath.Join(dir, "filmtrust",
		"ratings.txt")) || !strings.Contains(out, "tacit data fetch ml-100k") {
		t.Errorf("the list does not say what is there and how to get the rest: %s", out)
	}
	if code, out, errs := tacit(words...); code != 0 || !strings.Contains(out, "filmtrust is already in") ||
		errs != "" {
		t.Errorf("a second time: exit %d, %q, %q", code, out, errs)
	}
	code, out, _ = tacit(append(words, "--force", "--format", "json")...)
	v := decode(t, out)["data"].(map[string]any)
	if code != 0 || v["dataset"] != "filmtrust" || v["already_there"] != false || v["pinned"] != true ||
		v["bytes"] != float64(len(body)) || v["licence"] == "" {
		t.Errorf("exit %d, envelope %v", code, v)
	}
}

func TestFailedFetchSaysWhatToDo(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	const closed = "http://127.0.0.1:1" // that is not given to whoever asks for a free port
	wrong := filepath.Join(t.TempDir(), "wrong.zip")
	if err := os.WriteFile(wrong, filmTrust(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string
		code  int
		want  []string
	}{
		{"tafeng", 2, []string{"kaggle.com", "D11, D12, D01 and D02", "--from FILE.zip"}},
		{"frappe", 2, []string{"https://www.baltrunas.info/context-aware", "frappe.csv"}},
		{"qb-article-clicks", 2, []string{"QB-article.csv", "qb-article"}},
		{"ml-100", 2, []string{"did you mean ml-100k?"}},
		{"", 2, []string{"missing argument: expected tacit data fetch NAME"}},
		{"ml-100k --from nothing.zip", 2, []string{"nothing.zip"}},
		{"filmtrust --from http://example.org/x.zip", 2, []string{"must be https"}},
		{
			"ml-100k --from " + gone.URL + "/x.zip", 1,
			[]string{"404 Not Found", "https://grouplens.org/datasets/movielens/100k/"},
		},
		{"ml-100k --from " + closed + "/x.zip", 1, []string{
			"cannot download",
			"without a network, download https://files.grouplens.org/datasets/movielens/ml-100k.zip",
			"--from FILE.zip",
		}},
		{"ml-100k --from " + wrong, 1, []string{
			"SHA-256 is ",
			"expected 50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
		}},
	} {
		dir := t.TempDir()
		words := append(append([]string{"data", "fetch"}, strings.Fields(c.words)...), "--data-dir", dir)
		code, out, errs := tacit(words...)
		if code != c.code || out != "" {
			t.Errorf("%s: exit %d, want %d; prints %q", c.words, code, c.code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%s: says %q, want %q in it", c.words, errs, w)
			}
		}
		code, out, _ = tacit(append(words, "--format", "json")...)
		if v := decode(t, out); code != c.code || v["error"].(map[string]any)["hint"] == "" {
			t.Errorf("%s --format json: exit %d, %v", c.words, code, v)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s leaves %s behind", c.words, left[0].Name())
		}
	}
}

func TestMissingSetNamesFetchCommand(t *testing.T) {
	for name, want := range map[string]string{
		"ml-100k":           "tacit data fetch ml-100k",
		"lastfm-2k-artists": "tacit data fetch lastfm-2k-artists", "tafeng": "put ta_feng_all_months_merged.csv",
	} {
		if code, _, errs := tacit("run", "-d", name, "--data-dir", t.TempDir()); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, says %q, want %q in it", name, code, errs, want)
		}
	}
	if _, out, _ := tacit("doctor"); !strings.Contains(out, "tacit data fetch ml-1m") {
		t.Errorf("the doctor does not say how to get ml-1m: %s", out)
	}
}

func TestInterruptedDownloadResumes(t *testing.T) {
	body := filmTrust(t)
	started, whole := make(chan struct{}, 9), make(chan struct{})
	var ranges []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"1"`)
		select {
		case <-whole:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
		default:
			_, _ = w.Write(body[:200_000])
			w.(http.Flusher).Flush()
			started <- struct{}{}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close) // when the program is gone
	dir := t.TempDir()
	words := []string{"data", "fetch", "filmtrust", "--data-dir", dir, "--from", s.URL}
	cmd := exec.Command(os.Args[0], words...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start(t, cmd)
	<-started
	until(t, "what was sent is kept", func() bool {
		st, err := os.Stat(filepath.Join(dir, ".filmtrust.zip.part"))
		return err == nil && st.Size() == 200_000
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitStopped || !strings.Contains(errs.String(),
		"200000 bytes are kept; resume with: tacit data fetch filmtrust --data-dir "+dir+" --from "+s.URL) {
		t.Fatalf("exit %d (%v), says %q", code, err, errs.String())
	}
	close(whole)
	code, out, said := tacit(append(words, "--format", "json")...)
	if v := decode(t, out)["data"].(map[string]any); code != 0 || v["resumed_bytes"] != 200000.0 ||
		ranges[1] != "bytes=200000-" || !strings.Contains(said, "resuming  after 200 kB") {
		t.Errorf("exit %d, %v after %q; says %q", code, v, ranges, said)
	}
}
