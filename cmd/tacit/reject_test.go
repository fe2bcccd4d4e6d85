package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// serving starts a coordinator in another process and returns its state folder.
func serving(t *testing.T, words ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	c := exec.Command(os.Args[0], append([]string{
		"serve", "--state", dir, "--listen", "127.0.0.1:0", "--max-interval", "200ms", // devices of tests come soon
	}, words...)...)
	c.Env = append(os.Environ(), "TACIT_TEST_MAIN=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-ended })
	for {
		if w, err := readLocalAccess(dir); err == nil && w.URL != "" {
			return dir
		}
		select {
		case <-ended:
			t.Fatalf("the coordinator ended: %s", errs.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// rejected checks that a command exits with 2 and explains why, without internals.
func rejected(t *testing.T, want string, words ...string) {
	t.Helper()
	code, out, errs := tacit(words...)
	if code != exitInput || !strings.Contains(errs, want) {
		t.Errorf("%s: exit %d, want 2 and %q in\n%s%s", strings.Join(words, " "), code, want, out, errs)
	}
	for _, inside := range []string{
		"failed_precondition", "invalid_argument", "not_found", "coordinator:", "privacy:", "rpc:", "store:",
		`{"`,
	} {
		if strings.Contains(errs, inside) {
			t.Errorf("%s: %q is of no use in\n%s", strings.Join(words, " "), inside, errs)
		}
	}
}

// What a coordinator rejects is bad input, explained in plain words.
func TestCoordinatorErrorsAreBadInput(t *testing.T) {
	dir := serving(t)
	world := []string{"-d", "world", "--world", small, "-m", "fedmf", "--state", dir}
	rejected(t, "no run has begun", "admin", "rollback", "3", "--state", dir)
	rejected(t, "cohort = 5000: must be at most devices = 80", append([]string{"admin", "begin", "--cohort", "5000"},
		world...)...)
	if code, _, errs := tacit(append([]string{"admin", "begin", "--rounds", "3"}, world...)...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	rejected(t, "it has rounds = 3, not 4", append([]string{"admin", "begin", "--rounds", "4"}, world...)...)
	rejected(t, "version 99 is not on disk", "admin", "rollback", "99", "--state", dir)
	rejected(t, "device 77 is not enrolled", "admin", "revoke", "77", "--state", dir)
}

// Too few bits are rejected, few cause a note, and bits without effect cause a note.
func TestNotesOnBits(t *testing.T) {
	words := []string{
		"run", "-m", "ials", "-d", "world", "--world", small, "rounds=2", "--no-references", "--no-figures", "-q",
	}
	with := func(more ...string) []string { return append(append([]string{}, words...), more...) }
	rejected(t, "sums of 11 bits leave each of 80 devices 12 levels; use at least 12 bits for 16 levels, or better "+
		"16 bits for 256", with("sums=integer", "bits=11")...)
	for _, c := range []struct {
		want  string
		words []string
	}{
		{
			"sums of 12 bits leave each of 80 devices 25 levels, which costs accuracy: use 16 bits or more",
			[]string{"sums=integer", "bits=12"},
		},
		{"", []string{"sums=integer", "bits=16"}},
		{"", []string{"-m", "pfedrec", "sums=integer"}},
		{"bits has no effect: pfedrec does not declare the range of its numbers", []string{
			"-m", "pfedrec", "sums=integer",
			"bits=20",
		}},
		{"bits has no effect without sums=integer", []string{"bits=20"}},
	} {
		code, _, errs := tacit(with(c.words...)...)
		if code != 0 || !strings.Contains(errs, c.want) || c.want == "" && errs != "" {
			t.Errorf("%v: exit %d, want %q in %q", c.words, code, c.want, errs)
		}
	}
	dir := filepath.Join(t.TempDir(), "state")
	rejected(t, "sums of 11 bits leave", "serve", "-m", "ials", "-d", "world", "--world", small, "bits=11",
		"--state", dir)
	dir = serving(t)
	code, _, errs := tacit("admin", "begin", "-d", "world", "--world", small, "-m", "pfedrec", "bits=20", "--state",
		dir)
	if code != 0 || !strings.Contains(errs, "pfedrec does not declare the range of its numbers") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// An evaluation that can never happen is rejected before a run starts.
func TestRejectsImpossibleEvaluation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		want  string
		words string
	}{
		{"eval-every = -1", "--eval-every -1"},
		{"at least 10 devices", "--eval-every 2 --devices 9"},
		{"add metrics=5 to --dp", "--eval-every 2 --dp epsilon=8 --cohort poisson:0.5"},
		{"use trust=central", "--eval-every 2 --dp epsilon=8,trust=distributed --secagg on"},
	} {
		rejected(t, c.want, append([]string{"serve", "-d", "world", "--world", small, "-m", "fedmf", "--state", dir},
			strings.Fields(c.words)...)...)
	}
	rejected(t, "add metrics=5 to --dp", "fleet", "--parity", "-d", "world", "--world", small, "-m", "fedmf",
		"--eval-every", "2", "--dp", "epsilon=8", "--cohort", "poisson:0.5")
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused run has left a folder")
	}
}

// The fleet and the status show evaluations with the standard deviation of their noise.
func TestEvaluationsShowTheirNoise(t *testing.T) {
	dir := serving(t)
	words := []string{
		"fleet", "-d", "world", "--world", small, "-m", "fedmf", "--state", dir, "--rounds", "2",
		"--eval-every", "1",
	}
	code, out, errs := tacit(words...)
	if code != 0 || !strings.Contains(out, "evaluation after round 1: HR@10 ") ||
		!strings.Contains(out, "evaluation after round 2: HR@10 ") || !strings.Contains(out, " ± 0.02") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	_, out, _ = tacit("admin", "status", "--state", dir)
	if !strings.Contains(out, "HR@10 ") || !strings.Contains(out, " ± 0.02") { // 2 of about 80 devices
		t.Errorf("the status is\n%s", out)
	}
	_, out, _ = tacit("admin", "status", "--state", dir, "--format", "json")
	last := decode(t, out)["data"].(map[string]any)["evaluations"].([]any)[1].(map[string]any)
	if share := last["noise_share"].(float64); share < 0.02 || share > 0.03 {
		t.Errorf("the noise is %v", last)
	}
	s := coordinator.Status{
		State: coordinator.Evaluating, Message: "evaluation after round 5",
		RunStatus: coordinator.RunStatus{Counted: 312, Expected: 600},
	}
	if got := evaluationProgress(&s); got != "evaluation after round 5: 312 of 600" {
		t.Error(got)
	}
}

// Flags of a server without a meaning are rejected before anything is created.
func TestRejectsImpossibleServerFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for words, want := range map[string]string{
		"--open-enrolment -1":     "--open-enrolment -1: must be 0 or more",
		"--check-in-rate 0":       "--check-in-rate 0: must be above 0",
		"--idle-interval -5s":     "--idle-interval -5s: must be above 0s",
		"--max-interval 0s":       "--max-interval 0s: must be above 0s",
		"--connections 0":         "--connections 0: must be 1 or more",
		"--address-connections 0": "--address-connections 0: must be 1 or more",
		"--runs 0 -d world":       "--runs 0: must be 1 or more",
		"--cert x":                "--cert and --cert-key must be set together",
		"--cert-key x":            "--cert and --cert-key must be set together",
		"--schedule now":          "--schedule",
		"--state=":                "--state (empty): must be a folder",
	} {
		rejected(t, want, append([]string{"serve", "--state", dir, "--listen", "127.0.0.1:0"},
			strings.Fields(words)...)...)
	}
	for _, words := range []string{"--duty 2", "--memory 0", "--keep-last -5", "--keep-days -7"} {
		rejected(t, words+": must be ", append([]string{"device", "--state", dir}, strings.Fields(words)...)...)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a rejected start has left a folder")
	}
}

// Without a token a device enrols if enrolment is open, and otherwise learns how to get one.
func TestDeviceEnrolsWithoutAToken(t *testing.T) {
	t.Setenv("TACIT_STATE", t.TempDir())
	for _, c := range []struct {
		perMinute, want string
		code            int
	}{{"0", "enrolment requires a token", exitInput}, {"5", "waiting for devices: 1 of 2", 0}} {
		w, err := readLocalAccess(serving(t, "-d", "world", "--world", small, "--devices", "2", "--open-enrolment",
			c.perMinute))
		if err != nil {
			t.Fatal(err)
		}
		code, out, errs := tacit("device", "--once", "--server", w.URL, "--pin", w.Pin, "--state",
			filepath.Join(t.TempDir(), "my.state"))
		if code != c.code || !strings.Contains(out+errs, c.want) ||
			code != 0 && !strings.Contains(errs, "--token-file") {
			t.Errorf("open enrolment of %s: exit %d, want %q in %s%s", c.perMinute, code, c.want, out, errs)
		}
	}
}

// Impossible devices are rejected before a coordinator is called.
func TestRejectsImpossibleFleet(t *testing.T) {
	for words, want := range map[string]string{
		"--lie 3":                         "--lie 3: must be from 0 to 1",
		"--drop=-0.1":                     "--drop -0.1: must be from 0 to 1",
		"--comes=-3s":                     "--check-in-every -3s",
		"--hosts 0":                       "--hosts 0",
		"--leave 0.1,0":                   "must be four fractions",
		"--leave 0.1,0,0,1.5":             "must be four fractions",
		"--leave 0.1,0,0,0 --parity":      "needs masked sums",
		"--lie NaN":                       "--lie NaN: must be from 0 to 1",
		"--cohort 5000 -m fedmf --parity": "cohort = 5000: must be at most devices = 80",
	} {
		rejected(t, want, append([]string{"fleet", "-d", "world", "--world", small, "--state", t.TempDir()},
			strings.Fields(words)...)...)
	}
}

// A plan with a cohort larger than the users is rejected, and an interrupted plan leaves no folder.
func TestRejectsPlanWithTooLargeCohort(t *testing.T) {
	rejected(t, "--cohort 5000 exceeds the 1000 users", "privacy", "plan", "--target-epsilon", "8", "--users",
		"1000", "--cohort", "5000", "--rounds", "10")
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs}
	root := a.root()
	root.SetArgs(strings.Fields("privacy plan --target-epsilon 8 --cohort all --rounds 3 -m fedmf -d world --quick"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code := a.fail(root.ExecuteContext(ctx)); code != exitStopped || strings.Contains(errs.String(), "-o DIR") ||
		!strings.Contains(errs.String(), "run the command again") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

// An invalid file of items changes nothing, and a valid one reports its own counts.
func TestRejectsInvalidItems(t *testing.T) {
	dir := serving(t, "-d", "world", "--world", small, "-m", "fedmf")
	file := filepath.Join(t.TempDir(), "new.csv")
	items := func(text string) []string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"admin", "items", file, "--state", dir}
	}
	rejected(t, "the first line has no column id", items("foo,bar\n1,2\n")...)
	rejected(t, `column "titel": the method of this run reads no features`, items("id,titel\n1,2\n")...)
	for _, c := range []struct{ text, want string }{
		{"id,title\nx,X\ny,Y\nz,Z\n", "added 3 items and changed 0, from the next round on (catalogue version 2)\n"},
		// The first ones wait, or they are in the catalogue already.
		{"id,title\nw,W\nx,Other\n", "added 1 item and changed 1, from the next round on (catalogue version "},
	} {
		if code, out, errs := tacit(items(c.text)...); code != 0 || !strings.HasPrefix(out, c.want) {
			t.Errorf("exit %d, %q%s, want %q", code, out, errs, c.want)
		}
	}
}

// serve rejects a folder with other files, and creates no folder if its port is in use.
func TestServeLeavesOtherFoldersAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rejected(t, "letter.txt is in it", "serve", "--state", dir, "--listen", "127.0.0.1:0")
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("the folder has %v, %v", all, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir = filepath.Join(t.TempDir(), "state")
	code, _, errs := tacit("serve", "--state", dir, "--listen", l.Addr().String())
	if code != exitFailed || !strings.Contains(errs, "another coordinator may be running") {
		t.Errorf("exit %d, so that systemd does not try again: %s", code, errs)
	}
	if runtime.GOOS == "linux" && !strings.Contains(errs, fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("it does not name this process: %s", errs)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder is left")
	}
}
