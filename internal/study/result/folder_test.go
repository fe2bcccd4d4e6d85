package result_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

const headerOfUsers = "user,rows,valid_rank,test_rank,valid_full_rank,test_full_rank"

func TestLoadReadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	want := resulttest.Run("pfedrec", "paper", 1, 20, 30)
	want.Dir = dir
	want.Users[0] = result.User{ID: "a \"quoted\",\nid", Rows: 0, ValidRank: 0, TestRank: 3, ValidFull: 7, TestFull: 9}
	resulttest.Save(t, dir, want.Result, want.Points, want.Users)
	got, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("loaded\n%+v\nwant\n%+v", got, want)
	}
}

func TestLoadReadsTheEnvelope(t *testing.T) {
	dir := t.TempDir()
	want := resulttest.Run("pfedrec", "paper", 1, 20, 30)
	resulttest.Save(t, dir, map[string]any{"schema_version": 1, "status": "ok", "exit_code": 0, "data": want.Result},
		nil, nil)
	got, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Result, want.Result) {
		t.Errorf("loaded %+v, want %+v", got.Result, want.Result)
	}
}

func TestLoadReadsAllSeeds(t *testing.T) {
	dir := t.TempDir()
	runs := resulttest.Seeds("pfedrec", "paper", 3)
	var results []*result.Result
	for _, r := range runs {
		results = append(results, r.Result)
	}
	resulttest.Save(t, dir, result.CombineSeeds(results), runs[0].Points, runs[0].Users)
	resulttest.Save(t, filepath.Join(dir, "seed-2"), results[1], runs[1].Points, runs[1].Users)
	got, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Seeds) != 3 || len(result.EachSeed([]*result.Run{got})) != 3 {
		t.Fatalf("loaded %d runs, want 3", len(got.Seeds))
	}
	for i, want := range []int{100, 100, 0} {
		if n := len(got.Seeds[i].Points); n != want {
			t.Errorf("seed %d has %d points, want %d", i+1, n, want)
		}
	}
}

func TestLoadErrorsNameFileLineAndCommand(t *testing.T) {
	good := resulttest.Run("pfedrec", "paper", 1, 3, 3)
	for _, c := range []struct{ file, text, want string }{
		{"", "", "has no finished run (no result.json); finish it with `tacit run --resume "},
		{"result.json", "{\n\"method\": x}", "result.json:2: invalid character 'x'"},
		{"result.json", "{\n\"method\": 7}", "result.json:2: method is a JSON number, expected a string"},
		{"result.json", "[]", "result.json:1: the document is a JSON array, expected an object"},
		{"result.json", "{}", "all three must be set; write it again with `tacit run "},
		{"result.json", "{\"runs\": []}", "has 0 runs, expected 1 to 1000"},
		{
			"result.json",
			"{\"runs\": [\n{\"method\":\"m\",\"dataset\":\"d\",\"protocol\":\"p\"},\n" +
				"{\"method\":\"m\",\"rounds\":1.5}]}",
			"result.json:3: rounds is a JSON number 1.5, expected an integer",
		},
		{
			"result.json", `{"method":"m","dataset":"d","protocol":"p","test":{"sampled":{"hr@10":1.5}}}`,
			"test.sampled.hr@10 is 1.5, expected a fraction from 0 to 1",
		},
		{
			"result.json", `{"method":"m","dataset":"d","protocol":"p","selected_round":5}`,
			"selected_round is 5, expected at most 0",
		},
		{
			"result.json", `{"method":"m","dataset":"d","protocol":"p","rounds":100,"chosen_on_test":{"round":101}}`,
			"chosen_on_test.round is 101, expected 1 to 100",
		},
		{"result.json", `{"status":"error","error":{"message":"boom"}}`, `contains the error "boom"`},
		{"metrics.jsonl", "{\"round\":1}\n{\"round\":1}\n", "metrics.jsonl:2: round 1 after round 1"},
		{"metrics.jsonl", "{\"round\":1}\n\n{\"round\":", "metrics.jsonl:3: unexpected end of JSON input; remove " +
			"the file to continue without it"},
		{"metrics.jsonl", strings.Repeat(" ", 1<<20+1), "metrics.jsonl:1: bufio.Scanner: token too long"},
		{"per_user.csv", "", "per_user.csv:1: empty file"},
		{"per_user.csv", "user,rows\n", "per_user.csv:1: header \"user,rows\", expected \"user,rows,valid_rank"},
		{
			"per_user.csv", headerOfUsers + "\na,1,1,1,,\nb,1,-1,1,,\n",
			`per_user.csv:3: valid_rank is "-1", expected a non-negative integer`,
		},
		{"per_user.csv", headerOfUsers + "\na,1\n", "per_user.csv:2: 2 cells, expected 6"},
		{"per_user.csv", headerOfUsers + "\n\"a,1\n", "per_user.csv:2: extraneous or missing \""},
	} {
		dir := t.TempDir()
		if c.file != "" {
			resulttest.Save(t, dir, good.Result, good.Points, good.Users)
			resulttest.WriteFile(t, dir, c.file, []byte(c.text))
		}
		_, err := result.Load(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("%s of %.60q: error is\n%v\nwant it to hold\n%s", c.file, c.text, err, c.want)
		}
	}
	if _, err := result.Load(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(),
		"does not exist") {
		t.Errorf("error of a missing folder is %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "result.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Load(dir); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("error of a folder named result.json is %v", err)
	}
}

func TestLoadWorksWithoutPointsAndUsers(t *testing.T) {
	dir := t.TempDir()
	good := resulttest.Run("pfedrec", "paper", 1, 3, 3)
	resulttest.Save(t, dir, good.Result, nil, nil)
	for _, f := range []string{"metrics.jsonl", "per_user.csv"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := result.Load(dir); err != nil {
		t.Error(err)
	}
}
