package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// splitFiles writes the synthetic world as one file and as the files of the split that protocol deployed makes.
func splitFiles(t *testing.T) (dir string) {
	t.Helper()
	cfg, err := data.ParseWorld("users=60,items=80,mean-rows=12")
	if err != nil {
		t.Fatal(err)
	}
	w, err := data.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"train.csv", "valid.csv", "test.csv", "all.csv"}
	text := make([]strings.Builder, len(names))
	for i := range text {
		text[i].WriteString("user,item,time\n")
	}
	var h data.History
	for u := range w.Users() {
		w.History(u, &h)
		for k, item := range h.Items {
			part := max(0, k-len(h.Items)+3)
			// Times are distinct, so that the order of the file does not matter.
			row := fmt.Sprintf("u%d,i%d,%d\n", u, item, 1_000_000_000+k)
			text[part].WriteString(row)
			text[3].WriteString(row)
		}
	}
	dir = t.TempDir()
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text[i].String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func runOf(t *testing.T, given ...string) *result.Result {
	t.Helper()
	spec, err := Resolve(Pairs("test", given...))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenData(&spec.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	spec.FitTo(src)
	r, err := (&Job{Spec: spec, Source: src, Jobs: 1, NoReferences: true}).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A split by files evaluates the same items as the protocol's own split, and the result says where they come from.
func TestSplitByFilesIsStoredAndMeasured(t *testing.T) {
	dir := splitFiles(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	common := []string{"method=fedmf", "rounds=2", "preset=none"}
	own := runOf(t, append(common, "data="+file("all.csv"))...)
	given := runOf(t, append(common, "data="+file("train.csv"), "valid-file="+file("valid.csv"),
		"test-file="+file("test.csv"))...)
	if own.Users != given.Users || own.Test.Full["users"] != 60 || given.Test.Full["users"] != 60 {
		t.Fatalf("users: %d and %d; evaluated: %v and %v", own.Users, given.Users, own.Test.Full, given.Test.Full)
	}
	if own.DataHash == given.DataHash {
		t.Error("the split is not part of the data hash")
	}
	if s := given.DataSettings; s["test-file"] != "test.csv" || s["valid-file"] != "valid.csv" || s["min-rows"] != 1 ||
		s["test-rows"] != "all" || len(s) != 4 {
		t.Errorf("data settings are %v", s)
	}
	if own.DataSettings != nil {
		t.Errorf("data settings are %v", own.DataSettings)
	}
	cut := runOf(t, append(common, "data="+file("all.csv"), "protocol=temporal", "time-cut=0.7,0.8", "k-core=2")...)
	usual := runOf(t, append(common, "data="+file("all.csv"), "protocol=temporal", "k-core=2")...)
	if cut.DataHash == usual.DataHash || cut.DataSettings["time-cut"] != "0.7,0.8" || cut.DataSettings["k-core"] != 2 {
		t.Errorf("hashes %s and %s, data settings %v", cut.DataHash, usual.DataHash, cut.DataSettings)
	}
}

func TestSplitsThatContradictAreRefused(t *testing.T) {
	for _, c := range []struct{ given, want, hint string }{
		{"valid-file=v.csv", "--valid-file requires --test-file", "tacit run -d train.csv"},
		{"time-cut=0.8,0.9", "--time-cut applies to protocol temporal", "add --protocol temporal"},
		{"time-cut=0.8,0.9 protocol=temporal test-file=t.csv", "two splits", "omit one"},
		{"time-cut=x protocol=temporal", "must be two shares", "--time-cut 0.8,0.9"},
		{"k-core=-1", "k-core = -1: must be 0 or more", ""},
	} {
		_, err := Resolve(Pairs("test", strings.Fields(c.given)...))
		in, ok := err.(*InputError)
		if !ok || !strings.Contains(in.Error(), c.want) || !strings.Contains(in.Hint, c.hint) {
			t.Errorf("%s: error is %#v", c.given, err)
		}
	}
	for _, given := range [][]string{{"test-file=t.csv"}, {"k-core=2"}} {
		spec, err := Resolve(Pairs("test", append(given, "data=world")...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenData(&spec.Settings, ""); err == nil || !strings.Contains(err.Error(), "require a file") {
			t.Errorf("%s on world: error is %v", given, err)
		}
	}
	text := &Settings{}
	text.TestFile = "t.csv"
	if _, err := ReadData(text, []byte("1,2\n"), "f"); err == nil || !strings.Contains(err.Error(), "a train file") {
		t.Errorf("error is %v", err)
	}
	s := &Settings{Data: "ml-100k"}
	s.TestFile = "t.csv"
	if _, err := OpenData(s, t.TempDir()); err == nil || !strings.Contains(err.Error(), "requires a train file") {
		t.Errorf("error is %v", err)
	}
}

// The cut in time is part of the hash of data that did not come from a file, too.
func TestCutIsPartOfTheHashOfATextToo(t *testing.T) {
	hash := func(cut string) string {
		s := &Settings{}
		s.TimeCut = cut
		src, err := ReadData(s, []byte("user,item,time\n1,2,1000000000\n1,3,1000000001\n"), "f")
		if err != nil {
			t.Fatal(err)
		}
		return src.Info().Hash
	}
	if hash("") == hash("0.5,0.6") || hash("0.5,0.6") == hash("0.5,0.7") {
		t.Error("different cuts have the same hash")
	}
}
