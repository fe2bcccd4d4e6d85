package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/wire"
)

func TestCatalogueColumnsBecomeFeatures(t *testing.T) {
	items,
		err := readItems(strings.NewReader(
		"id,title,retired,genre,cost\na,A,,drama|war,free\nb,B,yes,,paid\nc,C,,war,free\n"), "items.csv")
	if err != nil || len(items) != 3 || !items[1].Retired || len(items[0].Features) != 2 {
		t.Fatalf("%v, %v", items, err)
	}
	f, err := columnsOf(items, []string{"age=18-24|unknown"}, []string{"daytime=morning|evening"})
	want := &rows.Features{
		User: []rows.Column{{Name: "age", Card: 2, Names: []string{"18-24", "unknown"}}},
		Item: []rows.Column{{
			Name: "genre", Card: 2, Names: []string{"drama", "war"}, Code: []uint32{0, 1, 1},
			Start: []uint32{0, 2, 2, 3},
		}, {
			Name: "cost", Card: 2, Names: []string{"free", "paid"},
			Code: []uint32{0, 1, 0},
		}},
		Row: []rows.Column{{Name: "daytime", Card: 2, Names: []string{"morning", "evening"}}},
	}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Errorf("%+v, %v: want %+v", f, err, want)
	}
	if items[0].Features != nil {
		t.Error("items keep features")
	}
	b, err := wire.Marshal(wire.EncodeFeatures(f))
	if err == nil {
		_, err = wire.ReadFeatures(b, 3)
	}
	if err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"age", "=a|b", "age=a|a"} {
		if _, err := columnsOf(items, []string{bad}, nil); err == nil {
			t.Errorf("%q is a column", bad)
		}
	}
	for text, want := range map[string]string{
		"foo,bar\n1,2\n":                      "no column id",
		"id,title\na,A,,drama\n":              "line 2 of items.csv: 4 fields",
		"id,title,retired\na,A,\nb,B,maybe\n": "line 3 of items.csv: retired = \"maybe\"",
		"id,title\na,A\nb,B\na,C\n":           "line 4 of items.csv: item \"a\" is already in line 2",
		"id,title\n,A\n":                      "the id is empty",
		"id,id\na,A\n":                        "names must be unique",
		"id\n":                                "no items",
	} {
		if _, err := readItems(strings.NewReader(text), "items.csv"); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReadsOwnerFeatures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "me.csv")
	if err := os.WriteFile(file, []byte("age, 25-34\noccupation,\"writer, other\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]map[string]string{
		"":                    {},
		"age=25-34, gender=F": {"age": "25-34", "gender": "F"},
		"age=":                {"age": ""},
		file:                  {"age": "25-34", "occupation": "writer, other"},
	} {
		if got, err := readFeatures("features", text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, %v: want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"no such file", "age=1,gender", "=1"} {
		if got, err := readFeatures("features", bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}
