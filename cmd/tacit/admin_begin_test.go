package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that names some settings keeps the others of the run before, and its items: above all the privacy guarantee.
func TestBeginKeepsSettingsThatItDoesNotName(t *testing.T) {
	dir := serving(t)
	items := writeTemp(t, "films.csv", "id,title\na,A\nb,B\nc,C\n")
	rejected(t, "the first run needs items", "admin", "begin", "-m", "fedmf", "--devices", "5", "--state", dir)
	rejected(t, "--devices is missing", "admin", "begin", "--catalogue", items, "--state", dir)
	admin(t, dir, "begin", "--catalogue", items, "-m", "fedmf", "--devices", "20", "--cohort", "poisson:0.5", "--dp",
		"epsilon=8", "--rounds", "3", "--runs", "20", "dim=4")
	state := func(words string) map[string]any {
		t.Helper()
		admin(t, dir, append([]string{"begin"}, strings.Fields(words)...)...)
		s := decode(t, admin(t, dir, "status", "--json"))["data"].(map[string]any)
		if s["items"] != 3.0 && words != "--catalogue "+items || s["devices"] != 20.0 {
			t.Errorf("%s: %v", words, s)
		}
		return s
	}
	// With another guarantee, cohort, method or number of rounds the budget period would refuse these runs.
	for _, words := range []string{"", "--deadline 20s", "--name other", "--least-share 0.2", "--catalogue " + items} {
		admin(t, dir, "end")
		if s := state(words); s["method"] != "fedmf" || s["rounds"] != 3.0 || s["policy"] == "none" ||
			(s["name"] == "other") != (words != "" && words != "--deadline 20s") {
			t.Errorf("%s: %v", words, s)
		}
	}
	admin(t, dir, "end")
	for words, want := range map[string]string{
		"--goal 7": "goal = 7", "--eval-every 2": "eval-every = 2", "--group-size 7": "group-size = 7",
		"--count-items": "count-items", "--devices 30": "devices = 30", "--runs 3": "runs = 3", "dim=8": "dim=8",
		"--sep tab": "--sep is for the items of a run", "--user-column age=x|y": "--user-column is for the items",
		"--dp none --runs 1": "dp = none", "nothing=1": "unknown",
	} {
		rejected(t, want, append([]string{"admin", "begin", "--state", dir}, strings.Fields(words)...)...)
	}
	if out := admin(t, dir, "reset-budget", "--reason", "test"); !strings.Contains(out, "model version 7 tells") {
		t.Errorf("the version of the reset: %s", out)
	}
	if s := state("--rounds 4"); s["rounds"] != 4.0 || s["policy"] == "none" {
		t.Errorf("another number of rounds: %v", s)
	}
	admin(t, dir, "end")
	admin(t, dir, "reset-budget", "--reason", "test")
	if s := state("-m ials --dp none --runs 1"); s["method"] != "ials" || s["rounds"] != 4.0 || s["policy"] != "none" {
		t.Errorf("another method: %v", s)
	}
}

// A setting of a run without its items is refused, not forgotten.
func TestServeRefusesSettingsOfNoRun(t *testing.T) {
	for _, words := range []string{"--devices 3", "--deadline 20s", "--name x", "--count-items", "--readout 3"} {
		rejected(t, "the settings of a run need its items",
			append([]string{"serve", "--state", t.TempDir()}, strings.Fields(words)...)...)
	}
}

// A device that knows no coordinator leaves no state file behind.
func TestAFailedStartLeavesNoDevice(t *testing.T) {
	t.Setenv("TACIT_STATE", t.TempDir())
	state := filepath.Join(t.TempDir(), "d.state")
	rejected(t, "no coordinator given", "device", "--once", "--state", state, "--history",
		writeTemp(t, "h.csv", "item\na\n"))
	if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a state file: %v", err)
	}
}
