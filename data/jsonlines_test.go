package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestJSONLinesAreReadLikeText(t *testing.T) {
	const text = `{"user_id":"u1","movie":10,"rating":4.5,"timestamp":"2000-03-03T00:00:00Z","title":"Al\u00eden","genres":["Horror","Sci-Fi"],"x":{"y":1}}

{"movie":11,"user_id":"u1","rating":3,"timestamp":"2000-04-07T00:00:00+00:00","title":null,"late":true}
{"user_id":"u2","movie":10,"rating":1e0,"timestamp":"2000-03-03"}
`
	for name, in := range map[string]string{"plain": text, "gzip": zipped(text)} {
		s := mustLoad(t, in, Options{})
		if want := "u1: 10=4.5@952041600 11=3@955065600\nu2: 10=1@952041600\n"; dump(s) != want {
			t.Errorf("%s: got %s, want %s", name, dump(s), want)
		}
		if want := []string{"Alíen", "item 11"}; !slices.Equal(s.Meta.Title, want) {
			t.Errorf("titles are %q, want %q", s.Meta.Title, want)
		}
		if g := s.Meta.Genres; !slices.Equal(g[0], []string{"Horror", "Sci-Fi"}) {
			t.Errorf("genres are %q", g)
		}
		if c := s.Meta.Columns; !strings.HasSuffix(c, "; JSON lines") || !strings.Contains(c, "item=movie") {
			t.Errorf("columns are %s", c)
		}
		if n := s.Meta.Notes; !slices.Equal(n, []string{"unused columns: x, late"}) {
			t.Errorf("notes are %q", n)
		}
	}
	csv := mustLoad(t, "user_id,movie,rating,timestamp,genres\nu1,10,4.5,952041600,Horror|Sci-Fi\n"+
		"u1,11,3,955065600,\nu2,10,1,952041600,\n", Options{})
	if s := mustLoad(t, text, Options{}); s.Meta.Hash != csv.Meta.Hash {
		t.Error("the same rows as JSON lines and as text have different hashes")
	}
	s := mustLoad(t, text, Options{Columns: "user=movie,item=user_id"})
	if want := "10: u2 u1\n11: u1\n"; dump(s) != want {
		t.Errorf("got %s, want %s", dump(s), want)
	}
}

// Only the first 32 objects say which columns a file has. Keys that appear later are named.
func TestKeysThatAppearTooLateAreNamed(t *testing.T) {
	many := strings.Repeat(`{"user":1,"item":2}`+"\n", 32)
	for _, c := range []struct{ rest, want string }{
		{`{"user":1,"item":2}`, ""},
		{
			`{"user":1,"item":2,"rating":3,"a\u001b":1}` + "\n" + `{"rating":3,"item":2,"user":1}`,
			"unused columns, which the first 32 objects lack: a, rating; to use one, move an object that has it to " +
				"the beginning of the file",
		},
		{
			`{"user":1,"item":2,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}` + "\n" + `{"user":1,"item":2,"i":1}`,
			"unused columns, which the first 32 objects lack: a, b, c, d, e, f, g, h and more; to use one, move an " +
				"object that has it to the beginning of the file",
		},
	} {
		if got := strings.Join(mustLoad(t, many+c.rest, Options{}).Meta.Notes, "\n"); got != c.want {
			t.Errorf("notes are %q, want %q", got, c.want)
		}
	}
}

func TestMalformedJSONLinesNameTheLine(t *testing.T) {
	ok := `{"user":1,"item":2}` + "\n"
	many := strings.Repeat(ok, 40)
	for _, c := range []struct{ text, want string }{
		{ok + "\n" + `{"user":1,`, `f line 3: found "{\"user\":1,", expected a JSON object; write each object on one line`},
		{many + "[1]", `f line 41: found "[1]", expected a JSON object`},
		{many + `{"user":1}`, `f line 41: found "", expected an identifier in column 1 (item)`},
		{many + `{"user":"a\u0000b","item":3}`, `f line 41: found "a\x00b", expected an identifier in column 2 (user)`},
		{`[{"user":1,"item":2}]`, `f line 1: found "[{\"user\":1,\"item\":2}]", expected one JSON object per line`},
		{`{"user":1}`, `f: found "1 columns", expected 2 to 2000 columns`},
		{"{}", `f: found "0 columns"`},
		{"{\n}", `f line 1: found "{", expected a JSON object; write each object on one line`},
		{`{"who":1,"what":2}`, `f: found "what who", expected columns named user and item; set --columns`},
	} {
		_, err := Read(strings.NewReader(c.text), "f", Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	long := `{"user":"` + strings.Repeat("x", maxLine)
	if _, err := Read(strings.NewReader("\n"+long), "f", Options{}); err == nil ||
		!strings.HasSuffix(err.Error(), "expected a line of at most 1048576 bytes") ||
		!strings.HasPrefix(err.Error(), "f line 2:") {
		t.Errorf("error is %v", err)
	}
	var wide strings.Builder
	for k := range maxColumns {
		fmt.Fprintf(&wide, `,"k%d":1`, k)
	}
	if _, err := Read(strings.NewReader(`{"user":1`+wide.String()+"}"), "f", Options{}); err == nil ||
		!strings.Contains(err.Error(), "2 to 2000 columns") {
		t.Errorf("error is %v", err)
	}
}

func FuzzJSONLines(f *testing.F) {
	f.Add(`{"user":1,"item":"b","time":"2000-03-03T10:00:00Z","title":"x","genres":["a",["b"]],"c":null}`+"\n", "")
	f.Add(`{"user":1,"item":2,"rating":1e400}`+"\n\n"+`{"item":2,"user":true}`, "user=item,item=user,context=user")
	f.Add("{}\n{", "")
	f.Fuzz(func(t *testing.T, text, columns string) {
		s, err := Read(strings.NewReader("{"+text), "fuzz", Options{Columns: columns})
		checkRead(t, "fuzz", s, err)
	})
}
