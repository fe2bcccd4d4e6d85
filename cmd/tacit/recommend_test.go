package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/parquet"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// runFolder runs a small experiment and returns its folder.
func runFolder(t *testing.T, words ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	code, _, errs := tacit(append([]string{
		"run", "-q", "-d", "world", "--world", small, "--no-references", "--no-figures", "-o", dir,
	}, words...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	return dir
}

func TestRecommendFromARun(t *testing.T) {
	dir := runFolder(t, "-m", "ials", "rounds=2", "--preset", "none")
	code, out, errs := tacit("recommend", "--run", dir, "--user", "7", "-n", "300")
	if code != 0 || !strings.Contains(out, "ials on world, seed 1") || !strings.Contains(out, "  test") ||
		!strings.Contains(out, "  validation") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	lists := map[string][]any{}
	history := filepath.Join(t.TempDir(), "seen.csv")
	if err := os.WriteFile(history, []byte("item,time,rating\n3,2,5\n9,1,4\nnone,3,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rated := filepath.Join(t.TempDir(), "rated.csv") // the same items and order, without times
	if err := os.WriteFile(rated, []byte("item,rating\n9,4\n3,5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string][]string{
		"rated": {"--history", rated}, "user": {"--user", "7"},
		"whole": {"--user", "7", "--whole-history"}, "history": {"--history", history},
	} {
		code, out, errs := tacit(append([]string{"recommend", "--run", dir, "-n", "300", "--json"}, words...)...)
		if code != 0 {
			t.Fatal(name, errs)
		}
		data := decode(t, out)["data"].(map[string]any)
		lists[name] = data["items"].([]any)
		if name == "history" && data["unknown_items"] != 1.0 {
			t.Errorf("unknown items of the history: %v", data["unknown_items"])
		}
	}
	if len(lists["whole"]) != len(lists["user"])-2 || len(lists["history"]) != 298 {
		t.Errorf("%d items for the user, %d after the whole history, %d for a history of two", len(lists["user"]),
			len(lists["whole"]), len(lists["history"]))
	}
	if fmt.Sprint(lists["rated"]) != fmt.Sprint(lists["history"]) {
		t.Errorf("the same history with and without times:\n%v\n%v", lists["rated"][0], lists["history"][0])
	}
	for _, list := range lists {
		if first := list[0].(map[string]any); first["title"] == "" || first["id"] == "" || first["score"] == nil {
			t.Errorf("the first item is %v", first)
		}
	}
	for line, want := range map[string]string{
		"--run " + dir: "either --user or --history",
		"--run " + dir + " --user 7 --history " + history:             "either --user or --history",
		"--run " + dir + " --user nobody":                             `unknown user "nobody"`,
		"--run " + dir + " --history " + history + " --whole-history": "requires --user",
		"--run " + dir + " --user 7 --state x":                        "exclude each other",
		"--run " + dir + " --user 7 -n 0":                             "1 or more",
		"--user 7":                                                    "require --run",
		"--run " + dir + "x --user 7":                                 "does not exist",
	} {
		if code, _, errs := tacit(append([]string{"recommend"}, strings.Fields(line)...)...); code != 2 ||
			!strings.Contains(errs, want) {
			t.Errorf("recommend %s: exit %d, %s; expected %q", line, code, errs, want)
		}
	}
}

// A run whose model was not kept says how to keep it, and so does one on data that has changed.
func TestAModelThatIsNotKept(t *testing.T) {
	dir := runFolder(t, "-m", "fedmf", "rounds=1", "--keep-model", "never")
	if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err == nil {
		t.Error("--keep-model never left a checkpoint")
	}
	if code, _, errs := tacit("recommend", "--run", dir, "--user", "7"); code != 2 ||
		!strings.Contains(errs, "has no model") || !strings.Contains(errs, "--keep-model always") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, _ := tacit("run", "--keep-model", "often"); code != 2 {
		t.Errorf("--keep-model often: exit %d", code)
	}
	text := "user,item,time\n"
	for u := range 12 {
		for k := range 5 {
			text += strings.Join([]string{string(rune('a' + u)), string(rune('A' + (u*k+k)%20)), string(rune('0' + k))},
				",") + "\n"
		}
	}
	file := filepath.Join(t.TempDir(), "clicks.csv")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	dir = runFolder(t, "-m", "fedmf", "rounds=1", "-d", file, "--world", "")
	if code, out, errs := tacit("recommend", "--run", dir, "--user", "b"); code != 0 ||
		strings.Contains(out, "title") || !strings.Contains(out, "  id   score") {
		t.Errorf("exit %d, want a table without titles: %s%s", code, out, errs)
	}
	if err := os.WriteFile(file, []byte(text+"a,Z,9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := tacit("recommend", "--run", dir, "--user", "b"); code != 2 ||
		!strings.Contains(errs, "has changed since") {
		t.Errorf("other data: exit %d: %s", code, errs)
	}
}

func TestExportWritesVectorsAndLists(t *testing.T) {
	dir := runFolder(t, "-m", "fedmf", "rounds=1", "dim=4")
	to := t.TempDir()
	for _, as := range []string{"npy", "csv", "parquet"} {
		if code, _, errs := tacit("export", "--run", dir, "-o", to, "--as", as, "-n", "3"); code != 0 {
			t.Fatal(errs)
		}
	}
	for name, want := range map[string][2]int{ // rows with the header, columns
		"items.csv": {301, 5}, "users.csv": {81, 6}, "items_ids.csv": {301, 3}, "users_ids.csv": {81, 2},
		"top.csv": {1 + 3*80, 6},
	} {
		b, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
		if err != nil || len(lines) != want[0] || len(lines[0]) != want[1] {
			t.Errorf("%s: %d lines of %d columns, expected %v, %v", name, len(lines), len(lines[0]), want, err)
		}
	}
	sameAsCSV(t, to, "users", 6)
	sameAsCSV(t, to, "top", 6)
	sameAsCSV(t, to, "metrics", 4)
	if st, err := os.Stat(filepath.Join(to, "items.npy")); err != nil || st.Size() != 128+300*4*4 {
		t.Errorf("items.npy: %v, %v", st, err)
	}
	local := runFolder(t, "-m", "local", "rounds=1")
	code, out, errs := tacit("export", "--run", local, "--format", "json")
	data, _ := decode(t, out)["data"].(map[string]any)
	if left, _ := data["left_out"].([]any); code != 0 || len(left) != 2 || len(data["files"].([]any)) != 2 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, line := range []string{
		"export", "export --run " + dir + " --only lists", "export --run " + dir + " --as arrow",
		"export --run " + dir + " -n 0", "export --run " + local + " --only users",
	} {
		if code, _, errs := tacit(strings.Fields(line)...); code != 2 || errs == "" {
			t.Errorf("%s: exit %d, %s", line, code, errs)
		}
	}
}

// The metrics need no model, and name every seed and round.
func TestExportWritesMetricsForTrackers(t *testing.T) {
	dir := runFolder(t, "-m", "fedmf", "rounds=3", "--seeds", "2", "--keep-model", "never")
	if code, _, errs := tacit("export", "--run", dir, "--only", "metrics"); code != 0 {
		t.Fatal(errs)
	}
	b, err := os.ReadFile(filepath.Join(dir, "export", "metrics.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil || !slices.Equal(lines[0], []string{"seed", "round", "name", "value"}) {
		t.Fatal(lines[0], err)
	}
	n := map[string]int{}
	for _, line := range lines[1:] {
		n[line[0]+" "+line[2]]++
	}
	for name, want := range map[string]int{
		"1 train_loss": 3, "2 valid.sampled.hr@10": 3, "2 valid.full.ndcg@10": 3, "1 test.full.hr@10": 1,
	} {
		if n[name] != want {
			t.Errorf("seed and name %q have %d rows, want %d", name, n[name], want)
		}
	}
	stored, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := strconv.FormatFloat(stored.Seeds[1].Result.Test.Full["hr@10"], 'g', -1, 64)
	if !slices.ContainsFunc(lines, func(line []string) bool {
		return line[0] == "2" && line[2] == "test.full.hr@10" && line[3] == want
	}) {
		t.Errorf("no row has the test metric %s of seed 2", want)
	}
}

// The hint for a corrupt run folder does not suggest the same folder.
func TestACorruptRunFolderIsNotSuggested(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"export --only metrics --run ", "report ", "compare "} {
		code, _, errs := tacit(strings.Fields(command + dir)...)
		if code != exitInput || strings.Contains(errs, "did you mean") {
			t.Errorf("%s: exit %d, %s", command, code, errs)
		}
	}
}

// sameAsCSV checks that the Parquet file of an export has the cells of the CSV file.
func sameAsCSV(t *testing.T, dir, name string, columns int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Columns(), lines[0]) || len(lines[0]) != columns {
		t.Fatalf("%s: columns %q, in the CSV file %q", name, f.Columns(), lines[0])
	}
	for i, line := range lines[1:] {
		fields, err := f.Next()
		if err != nil {
			t.Fatalf("%s: row %d: %v", name, i, err)
		}
		for k, cell := range line {
			x, wrong := strconv.ParseFloat(cell, 64)
			y, _ := strconv.ParseFloat(string(fields[k]), 64)
			if cell != string(fields[k]) && (wrong != nil || x != y) {
				t.Fatalf("%s: row %d, column %s is %q, in the CSV file %q", name, i, lines[0][k], fields[k], cell)
			}
		}
	}
	if _, err := f.Next(); err != io.EOF {
		t.Errorf("%s has more rows than the CSV file: %v", name, err)
	}
}

func TestExportStopsIfItIsInterrupted(t *testing.T) {
	dir := runFolder(t, "-m", "fedmf", "rounds=1", "dim=4")
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs}
	root := a.root()
	root.SetArgs([]string{"export", "--run", dir})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code := a.fail(root.ExecuteContext(ctx)); code != exitStopped {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "export", "top.csv")); err == nil {
		t.Error("the interrupted export wrote top.csv")
	}
}
