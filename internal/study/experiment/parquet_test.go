package experiment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	writer "github.com/parquet-go/parquet-go"

	"github.com/tacit-rec/tacit/data"
)

// A Parquet file has the same data hash as the same rows in a text file.
func TestParquetFilesAreReadLikeText(t *testing.T) {
	type row struct {
		User  string  `parquet:"user_id,dict"`
		Item  int64   `parquet:"item_id"`
		Stars float64 `parquet:"rating"`
		Time  int64   `parquet:"timestamp,timestamp(millisecond)"`
		Title string  `parquet:"title"`
	}
	file := filepath.Join(t.TempDir(), "events.parquet")
	if err := writer.WriteFile(file, []row{
		{"a", 1, 4.5, 952041600_000, "Alien"}, {"a", 2, 3, 955065600_000, "Heat"}, {"b", 1, 1, 952041600_000, "Alien"},
	}); err != nil {
		t.Fatal(err)
	}
	s := &Settings{Data: file}
	got, err := OpenData(s, "")
	if err != nil {
		t.Fatal(err)
	}
	text := "user,item,rating,time\na,1,4.5,952041600\na,2,3,955065600\nb,1,1,952041600\n"
	want, err := data.Read(strings.NewReader(text), "f", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := got.Info()
	if in.Hash != want.Meta.Hash || !slices.Equal(in.Title, []string{"Alien", "Heat"}) ||
		!strings.HasSuffix(in.Columns, "times: ISO 8601; Parquet") {
		t.Errorf("hash %s, want %s; titles %q, columns %s", in.Hash, want.Meta.Hash, in.Title, in.Columns)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ReadData(&Settings{}, b, "x"); err != nil || again.Info().Hash != in.Hash {
		t.Errorf("error is %v", err)
	}
	if err := os.WriteFile(file, b[:len(b)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenData(s, ""); err == nil || !strings.HasPrefix(err.Error(), "events.parquet: truncated") {
		t.Errorf("error is %v", err)
	}
}
