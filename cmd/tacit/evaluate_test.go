package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// evaluated runs tacit evaluate and returns its data.
func evaluated(t *testing.T, words ...string) map[string]any {
	t.Helper()
	code, out, errs := tacit(append([]string{"evaluate", "--format", "json", "--no-references", "-q"}, words...)...)
	if code != 0 {
		t.Fatalf("tacit evaluate %q exits %d: %s", words, code, errs)
	}
	data := decode(t, out)["data"].(map[string]any)
	s := readSchema(t)
	def := "result"
	if data["runs"] != nil {
		def = "repeated"
	}
	for _, problem := range s.errors(def, data) {
		t.Errorf("tacit evaluate %q: %s", words, problem)
	}
	return data
}

// runIn runs an experiment on a small world, and returns its data and its folder.
func runIn(t *testing.T, words ...string) (data map[string]any, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	code, out, errs := tacit(append([]string{
		"run", "-d", "world", "--world", small, "--format", "json", "-q", "--no-references", "--no-figures", "-o", dir,
	}, words...)...)
	if code != 0 {
		t.Fatalf("tacit run %q exits %d: %s", words, code, errs)
	}
	return decode(t, out)["data"].(map[string]any), dir
}

// The stored ranks give the run's own metrics, for every kind of method, also if an earlier round was selected.
func TestEvaluatingAgainGivesTheRunsOwnMetrics(t *testing.T) {
	for _, words := range [][]string{
		{"-m", "fedmf", "rounds=12"},
		{"-m", "pfedrec", "rounds=4", "--protocol", "paper"},
		{"-m", "ials", "--no-preset"},
	} {
		run, dir := runIn(t, words...)
		again := evaluated(t, "--run", dir)
		for _, key := range []string{"valid", "test", "protocol", "selected_round", "leaks"} {
			if !reflect.DeepEqual(again[key], run[key]) {
				t.Errorf("%q: %s is %v, the run's own %v", words, key, again[key], run[key])
			}
		}
	}
}

// Protocol complete trains as deployed does, so a run of one evaluated under the other equals a run of the other.
func TestEvaluatingUnderAnotherProtocolEqualsItsRun(t *testing.T) {
	settings := []string{"-m", "ials", "--no-preset", "rounds=3", "--seeds", "2"}
	_, deployed := runIn(t, settings...)
	complete, _ := runIn(t, append(settings, "--protocol", "complete")...)
	out := filepath.Join(t.TempDir(), "again")
	again := evaluated(t, "--run", deployed, "--protocol", "complete", "-o", out)
	for i, run := range complete["runs"].([]any) {
		for _, key := range []string{"valid", "test", "protocol", "leaks", "selected_round"} {
			want, got := run.(map[string]any)[key], again["runs"].([]any)[i].(map[string]any)[key]
			if !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: %s is %v, that of a run under complete %v", i+1, key, got, want)
			}
		}
	}
	if code, text, errs := tacit("compare", out, out, "--format", "json"); code != 0 {
		t.Errorf("compare exits %d: %s%s", code, text, errs)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs := tacit("report", out, "-o", page); code != 0 {
		t.Errorf("report exits %d: %s", code, errs)
	}
	if b, _ := os.ReadFile(page); !strings.Contains(string(b), "Evaluated again without training") {
		t.Error("the report does not say that the model was evaluated again")
	}
}

// Under another rule for negatives the result says so, leaks as the training did, and is not compared with others.
func TestEvaluatingNamesTheTrainingProtocol(t *testing.T) {
	_, paper := runIn(t, "-m", "fedmf", "rounds=3", "--protocol", "paper")
	_, deployed := runIn(t, "-m", "fedmf", "rounds=3")
	out := filepath.Join(t.TempDir(), "again")
	again := evaluated(t, "--run", paper, "--protocol", "deployed", "-o", out)
	if again["leaks"] != true || again["protocol"] != "deployed" || again["test"].(map[string]any)["full"] == nil {
		b, _ := json.Marshal(again)
		t.Errorf("%s", b)
	}
	from := again["evaluated_again"].(map[string]any)
	if from["trained_under"] != "paper" || from["other_negatives"] != true || from["round"] != 3.0 {
		t.Errorf("evaluated_again is %v", from)
	}
	code, _, errs := tacit("compare", deployed, out)
	if code != exitInput || !strings.Contains(errs, "trained under protocol") {
		t.Errorf("compare exits %d: %s", code, errs)
	}
}

func TestEvaluatingRefusesWhatRequiresTraining(t *testing.T) {
	_, dir := runIn(t, "-m", "fedmf", "rounds=2")
	_, other := runIn(t, "-m", "pfedrec", "rounds=2", "infer=random")
	_, bare := runIn(t, "-m", "fedmf", "rounds=2", "--keep-model", "never")
	for line, want := range map[string]string{
		"--run " + dir + " --protocol temporal":   "temporal on the rows before a cut in time",
		"--run " + dir + " --protocol fedrecgel":  "fedrecgel on all rows of a user but the last one",
		"--run " + dir + " --protocol privrec":    "four fifths of the users",
		"--run " + dir + " --protocol papr":       `did you mean "paper"?`,
		"--run " + other + " --protocol complete": "tables of other devices",
		"--run " + bare + " --protocol complete":  "has no model",
		"--run " + dir + "x":                      "did you mean",
		"--protocol paper":                        "--run is missing",
		"--run " + dir + " --at 7":                "must be one of",
	} {
		code, _, errs := tacit(append([]string{"evaluate"}, strings.Fields(line)...)...)
		if code != exitInput || !strings.Contains(errs, want) {
			t.Errorf("tacit evaluate %s exits %d, without %q: %s", line, code, want, errs)
		}
	}
}
