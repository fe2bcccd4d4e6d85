package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/play"
)

// lockedBuffer is what another process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var (
	dashboardLine = regexp.MustCompile(`(?m)^dashboard +(http://127\.0\.0\.1:\d+/dashboard/)$`)
	roundsDone    = regexp.MustCompile(`<p class="big">([0-9]+) <small>of 1,000 rounds`)
)

// play trains on a page that says first what the leak is, advances by rounds, and ends with a report and exit code 0
// when it is interrupted.
func TestPlayShowsAFederationUntilItIsInterrupted(t *testing.T) {
	dir, temporary := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "report.html")
	c := exec.Command(os.Args[0], "play", "--devices", "30", "--rounds", "1000", "-o", file)
	c.Env = []string{"TMPDIR=" + temporary}
	var out, errs lockedBuffer
	c.Stdout, c.Stderr = &out, &errs
	start(t, c)
	var url []string
	until(t, "the address of the dashboard", func() bool {
		url = dashboardLine.FindStringSubmatch(out.String())
		return url != nil
	})
	if leak := strings.Index(out.String(), "The leak:"); leak < 0 || leak > strings.Index(out.String(), url[1]) {
		t.Errorf("the leak is not explained before the address:\n%s", out.String())
	}
	var page string
	until(t, "two rounds and an evaluation on the page", func() bool {
		var code int
		code, page = get(t, url[1])
		if code != http.StatusOK {
			t.Fatalf("status %d: %s", code, page)
		}
		done := roundsDone.FindStringSubmatch(page)
		return done != nil && done[1] != "0" && done[1] != "1" && strings.Contains(page, "HR@10 of the model")
	})
	for _, text := range []string{
		"The leak:", "Masking hides a device among others, so it hides nothing here",
		"masked: only sums are visible",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	_ = c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err != nil {
		t.Fatalf("play ended with %v:\n%s%s", err, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "report: "+file) || !strings.Contains(out.String(), "evaluation after round") {
		t.Errorf("the summary lacks the report or an evaluation:\n%s", out.String())
	}
	report, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(report, []byte("The leak, and honest accuracy")) ||
		!bytes.Contains(report, []byte("<svg")) {
		t.Errorf("the report is incomplete: %v\n%.500s", err, report)
	}
	if left, _ := filepath.Glob(filepath.Join(temporary, "tacit-play-*")); len(left) > 0 {
		t.Errorf("the coordinator's folder is left behind: %v", left)
	}
}

// Without a terminal play ends after its last round, and --format json has all evaluations.
func TestPlayEndsAfterItsRounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := tacit("play", "-q", "--format", "json", "--devices", "30", "--rounds", "2", "-o", file)
	if code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	got := decode(t, out)["data"].(map[string]any)["federation"].(map[string]any)
	if at(got, "round") != 2 || at(got, "devices") != 30 || len(got["evaluations"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestPlayRejectsImpossibleSettings(t *testing.T) {
	for _, words := range []string{
		"--devices 29", "--devices 601", "--rounds 0", "--rounds 1001", "--web /none",
		"-o /none/report.html",
	} {
		if code, _, errs := tacit(append([]string{"play"}, strings.Fields(words)...)...); code != exitInput {
			t.Errorf("play %s: exit %d: %s", words, code, errs)
		}
	}
}

// Nobody sits in front of a machine that was reached over SSH or that runs CI.
func TestABrowserIsOpenedOnDesktopsOnly(t *testing.T) {
	for _, c := range []struct {
		env, system string
		want        bool
	}{
		{"", "linux", false},
		{"DISPLAY", "linux", true},
		{"WAYLAND_DISPLAY", "linux", true},
		{"", "darwin", true},
		{"SSH_CONNECTION", "darwin", false},
		{"CI", "darwin", false},
	} {
		got := hasDesktop(func(name string) string {
			if name == c.env {
				return "x"
			}
			return ""
		}, c.system)
		if got != c.want {
			t.Errorf("%s with %q: %v", c.system, c.env, got)
		}
	}
}

// The point of play fits in three lines of a terminal.
func TestThePointHasThreeShortLines(t *testing.T) {
	lines := pointLines(&play.Leak{Rows: []play.LeakRow{{Paper: 0.999, Honest: 0.1}}})
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len(l) > 100 {
			t.Errorf("%d letters: %s", len(l), l)
		}
	}
}
