package data

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

type badCase struct {
	name, text string
	opt        Options
	want       string
}

func wantBad(t *testing.T, cases []badCase) {
	t.Helper()
	for _, c := range cases {
		s, err := Read(strings.NewReader(c.text), "u.data", c.opt)
		var bad *InputError
		if !errors.As(err, &bad) || s != nil {
			t.Errorf("%s: got %v, %v, want a BadInput and no set", c.name, s, err)
		} else if err.Error() != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, err, c.want)
		}
	}
}

func TestInputErrorsNameLineAndExpectation(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	wantBad(t, []badCase{
		{
			"rating", "1\t2\t3\n1\t3\tabc\n",
			Options{},
			`u.data line 2: found "abc", expected a number in column 3 (rating)`,
		},
		{
			"rating in line 1", "1\t2\tabc\n1\t3\tabd\n",
			Options{},
			`u.data line 1: found "abc", expected a number in column 3 (rating)`,
		},
		{
			"line after blanks and header", "\nuser,item,rating\n\n1,2,3\n\n1,3,\n",
			Options{},
			`u.data line 6: found "", expected a number in column 3 (rating)`,
		},
		{
			"infinite", "1 2 3\n1 3 inf\n",
			Options{},
			`u.data line 2: found "inf", expected a number in column 3 (rating)`,
		},
		{
			"not a number", "1 2 3\n1 3 NaN\n",
			Options{},
			`u.data line 2: found "NaN", expected a number in column 3 (rating)`,
		},
		{
			"hexadecimal", "1 2 3\n1 3 0x1p3\n",
			Options{},
			`u.data line 2: found "0x1p3", expected a number in column 3 (rating)`,
		},
		{
			"only signs", "1 2 3\n1 3 +-.\n",
			Options{},
			`u.data line 2: found "+-.", expected a number in column 3 (rating)`,
		},
		{
			"beyond float64", "1 2 3\n1 3 1e999\n",
			Options{},
			`u.data line 2: found "1e999", expected a number in column 3 (rating)`,
		},
		{
			"beyond float32", "1 2 3\n1 3 1e39\n",
			Options{},
			`u.data line 2: found "1e39", expected a number in column 3 (rating)`,
		},
		{
			"time", "1::2::3::4\n1::3::3::2014-03-01\n",
			Options{},
			`u.data line 2: found "2014-03-01", expected a number in column 4 (time); write times as ISO 8601 dates or as Unix seconds, or name the columns to use`,
		},
		{
			"beyond int64", "1 2 3 4\n1 3 3 1e19\n",
			Options{},
			`u.data line 2: found "1e19", expected a number in column 4 (time); write times as ISO 8601 dates or as Unix seconds, or name the columns to use`,
		},
		{"no user", "1,2,3\n,3,3\n", Options{}, `u.data line 2: found "", expected an identifier in column 1 (user)`},
		{
			"no item", "1,2,3\n1, ,3\n",
			Options{},
			`u.data line 2: found "", expected an identifier in column 2 (item)`,
		},
		{
			"short line", "1,2,3\n1,3\n",
			Options{},
			`u.data line 2: found "1,3", expected at least 3 columns separated by comma`,
		},
		{
			"open quote", "1,2,3\n1,\"3,3\n",
			Options{Sep: ","},
			`u.data line 2: found "1,\"3,3", expected a closing quote before the next separator`,
		},
		{
			"text after quote", "1,2,3\n1,\"3\"x,3\n",
			Options{},
			`u.data line 2: found "1,\"3\"x,3", expected a closing quote before the next separator`,
		},
		{"long line", "1 2 3\n" + long, Options{Sep: "space"}, `u.data line 2: found "` + long[:60] +
			`...", expected a line of at most 1048576 bytes`},
		{
			"long first line", long + " 1\n",
			Options{Sep: "space", Columns: "user,item"},
			`u.data line 1: found "` + long[:60] + `...", expected a line of at most 1048576 bytes`,
		},
		{"empty", "", Options{}, `u.data: found "", expected at least one row`},
		{"blank", "\n \r\n", Options{}, `u.data: found "", expected at least one row`},
		{
			"header only", "user,item\n",
			Options{},
			`u.data line 1: found "", expected at least one row after the header`,
		},
		{
			"one column", "abc\ndef\n",
			Options{},
			`u.data line 1: found "abc", expected at least two columns separated by one of tab, ::, comma, semicolon, pipe, space; set --sep`,
		},
		{
			"zip", "PK\x03\x04more",
			Options{},
			`u.data: found "PK\x03\x04", expected text; unpack the zip archive first`,
		},
		{
			"UTF-16", "\xff\xfe1\x00",
			Options{},
			`u.data: found "\xff\xfe", expected UTF-8 or Latin-1 text; convert the file from UTF-16`,
		},
	})
}

func TestMalformedLinesAreRejected(t *testing.T) {
	wantBad(t, []badCase{
		{
			"wide line", "a,b,c\n\n1,2,3\n1,3\n1,2,3,4\n",
			Options{Columns: "user,item", Header: "yes"},
			`u.data line 5: found "4 columns", expected 3 columns separated by comma, as in line 3`,
		},
		{
			"separator at the end", "1\t2\t3\n1\t3\t3\t\n",
			Options{},
			`u.data line 2: found "4 columns", expected 3 columns separated by tab, as in line 1`,
		},
		{
			"NUL", "1,2,3\n\n1,\x003,3\n",
			Options{},
			`u.data line 3: found "1,\x003,3", expected text without NUL bytes; convert the file to UTF-8 text`,
		},
		{
			"NUL far down", strings.Repeat("1,2,3\n", 99) + "1,3,\x00\n",
			Options{},
			`u.data line 100: found "1,3,\x00", expected text without NUL bytes; convert the file to UTF-8 text`,
		},
	})
}

func TestUnknownHeaderIsRejected(t *testing.T) {
	hint := "; set --columns user=NAME,item=NAME"
	wantBad(t, []badCase{
		{
			"words", "\nwer,was,wieviel\n1,2,3\n",
			Options{},
			`u.data line 2: found "wer was wieviel", expected columns named user and item` + hint,
		},
		{
			"no item", "uid,thing,stars\n1,2,3\n",
			Options{},
			`u.data line 1: found "uid thing stars", expected columns named user and item` + hint,
		},
		{
			"no user", "who,movie,stars\n1,2,3\n",
			Options{},
			`u.data line 1: found "who movie stars", expected columns named user and item` + hint,
		},
		{
			"asked for", "1,2,3\n1,2,3\n",
			Options{Header: "yes"},
			`u.data line 1: found "1 2 3", expected columns named user and item` + hint,
		},
		{
			"user twice", "user,user,rating,time\n1,2,3,4\n",
			Options{},
			`u.data line 1: found "user user rating time", expected a header that names one column for user` + hint,
		},
		{
			"time twice", "user,item,time,date\n1,2,3,4\n",
			Options{},
			`u.data line 1: found "user item time date", expected a header that names one column for time` + hint +
				",time=NAME",
		},
	})
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	wantBad(t, []badCase{
		{
			"sep", "1 2\n",
			Options{Sep: "dash"},
			`u.data: found "dash", expected a separator among tab, ::, comma, semicolon, pipe, space`,
		},
		{"header", "1 2\n", Options{Header: "maybe"}, `u.data: found "maybe", expected a header among auto, yes, no`},
		{"dedup", "1 2\n", Options{Dedup: "all"}, `u.data: found "all", expected dedup to be none, first or last`},
		{
			"role", "1 2\n",
			Options{Columns: "usr,item"},
			`u.data: found "usr", expected a column role among user, item, rating, time, title, genres, context; did you mean "user"?`,
		},
		{
			"role twice", "1 2\n",
			Options{Columns: "user,item,user"},
			`u.data: found "user,item,user", expected each column role once`,
		},
		{
			"no item role", "1 2\n",
			Options{Columns: "user,rating"},
			`u.data: found "user,rating", expected a column for user and one for item`,
		},
		{
			"mixed columns", "1 2\n",
			Options{Columns: "user=1,item"},
			`u.data: found "item", expected a column after the role, such as user=1 or user=uid`,
		},
		{
			"negative column", "1 2\n",
			Options{Columns: "user=1,item=-1"},
			`u.data: found "item=-1", expected a column number from 1 to 9999`,
		},
		{
			"column zero", "1 2\n",
			Options{Columns: "user=0,item=1"},
			`u.data: found "user=0", expected a column number from 1 to 9999`,
		},
		{
			"column beyond", "1 2\n",
			Options{Columns: "user=1,item=10000"},
			`u.data: found "item=10000", expected a column number from 1 to 9999`,
		},
		{
			"column of no row", "1 2\n",
			Options{Columns: "user=1,item=3"},
			`u.data line 1: found "1 2", expected at least 3 columns separated by space`,
		},
		{
			"name twice", "uid app app\n1 2 3\n",
			Options{Columns: "user=uid,item=app"},
			`u.data line 1: found "uid app app", expected one column named "app"; use the column's number, from 1`,
		},
		{
			"no such name", "\nuid app\n1 2\n",
			Options{Columns: "user=uid,item=apps"},
			`u.data line 2: found "uid app", expected a column named "apps" in the header; did you mean "app"?`,
		},
		{
			"name without header", "1 2\n",
			Options{Columns: "user=a,item=b", Header: "no"},
			`u.data: found "user=a,item=b", expected columns by number, because the file has no header`,
		},
		{
			"narrow header", "uid app\n1 2\n",
			Options{Columns: "user=1,item=8"},
			`u.data line 1: found "2 columns", expected at least 8 columns`,
		},
		{
			"no rating", "1 2\n",
			Options{Threshold: 3, HasThreshold: true},
			`u.data: found "no rating column", expected a rating column to compare with the threshold`,
		},
		{
			"nothing left", "1 2 3\n2 2 2\n",
			Options{Threshold: 3, HasThreshold: true, MinRows: 2},
			`u.data: found "0 of 2 rows", expected at least one row after the filters; dropped: 1 rows with a value below 3, 1 users with fewer than 2 rows (1 rows)`,
		},
	})
}

func TestRowsAreBounded(t *testing.T) {
	_, err := load("u.data", []part{{r: strings.NewReader("1 2\n1 3\n1 4\n"), file: "u.data"}}, reading{}, 2)
	if want := `u.data line 3: found "1", expected at most 2 rows`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestTheLongestLineIsRead(t *testing.T) {
	id := strings.Repeat("x", maxLine-2)
	for _, end := range []string{"", "\n", "\r\n", "\n1 2", "\r\n1 2\r\n"} {
		if s := mustLoad(t, "1 "+id+end, Options{}); s.Meta.ItemID[0] != id {
			t.Fatalf("end %q: the item has %d bytes, want %d", end, len(s.Meta.ItemID[0]), len(id))
		}
	}
}

func TestReadErrorsAreReturned(t *testing.T) {
	broken := errors.New("wire cut")
	_, err := Read(io.MultiReader(strings.NewReader("1 2\n1 3\n"), iotest.ErrReader(broken)), "u.data", Options{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestCorruptGzipIsAnInputError(t *testing.T) {
	whole := zipped(strings.Repeat("1 2 3\n", 1000))
	cut := `u.data: found "truncated gzip data", expected a complete gzip file; copy or download the file again`
	damaged := strings.Replace(cut, "truncated", "corrupt", 1)
	wantBad(t, []badCase{
		{"no checksum", whole[:len(whole)-9], Options{}, cut},
		{"half", whole[:len(whole)/2], Options{}, cut},
		{"no body", whole[:10], Options{}, cut},
		{"half a header", whole[:5], Options{}, cut},
		{"wrong checksum", whole[:len(whole)-8] + "12345678", Options{}, damaged},
		{"wrong header", "\x1f\x8bnothing more", Options{}, damaged},
		{"wrong body", whole[:10] + "\xff\xff\xff\xff", Options{}, damaged},
	})
}

func TestTheNearestNameIsOffered(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"itms", `did you mean "items"?`},
		{"mean_rows", `did you mean "mean-rows"?`},
		{"zzzzzz", ""},
		{"", ""},
		{strings.Repeat("users", 1e5), ""},
	} {
		if got := nearest(c.word, worldKeys); got != c.want {
			t.Errorf("%.20q: got %q, want %q", c.word, got, c.want)
		}
	}
}
