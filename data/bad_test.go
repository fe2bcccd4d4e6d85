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
		s, err := Delimited(strings.NewReader(c.text), "u.data", c.opt)
		var bad *BadInput
		if !errors.As(err, &bad) || s != nil {
			t.Errorf("%s: got %v, %v, want a BadInput and no set", c.name, s, err)
		} else if err.Error() != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, err, c.want)
		}
	}
}

func TestWrongInputSaysWhereAndWhat(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	wantBad(t, []badCase{
		{
			"rating", "1\t2\t3\n1\t3\tabc\n",
			Options{},
			`data: u.data line 2: found "abc", want a number in column 3 (rating)`,
		},
		{
			"rating in line 1", "1\t2\tabc\n1\t3\tabd\n",
			Options{},
			`data: u.data line 1: found "abc", want a number in column 3 (rating)`,
		},
		{
			"line after blanks and header", "\nuser,item,rating\n\n1,2,3\n\n1,3,\n",
			Options{},
			`data: u.data line 6: found "", want a number in column 3 (rating)`,
		},
		{
			"infinite", "1 2 3\n1 3 inf\n",
			Options{},
			`data: u.data line 2: found "inf", want a number in column 3 (rating)`,
		},
		{
			"not a number", "1 2 3\n1 3 NaN\n",
			Options{},
			`data: u.data line 2: found "NaN", want a number in column 3 (rating)`,
		},
		{
			"hexadecimal", "1 2 3\n1 3 0x1p3\n",
			Options{},
			`data: u.data line 2: found "0x1p3", want a number in column 3 (rating)`,
		},
		{
			"only signs", "1 2 3\n1 3 +-.\n",
			Options{},
			`data: u.data line 2: found "+-.", want a number in column 3 (rating)`,
		},
		{
			"beyond float64", "1 2 3\n1 3 1e999\n",
			Options{},
			`data: u.data line 2: found "1e999", want a number in column 3 (rating)`,
		},
		{
			"beyond float32", "1 2 3\n1 3 1e39\n",
			Options{},
			`data: u.data line 2: found "1e39", want a number in column 3 (rating)`,
		},
		{
			"time", "1::2::3::4\n1::3::3::2014-03-01\n",
			Options{},
			`data: u.data line 2: found "2014-03-01", want a number in column 4 (time); write times as Unix seconds, or name the columns to use`,
		},
		{
			"beyond int64", "1 2 3 4\n1 3 3 1e19\n",
			Options{},
			`data: u.data line 2: found "1e19", want a number in column 4 (time); write times as Unix seconds, or name the columns to use`,
		},
		{"no user", "1,2,3\n,3,3\n", Options{}, `data: u.data line 2: found "", want an identifier in column 1 (user)`},
		{
			"no item", "1,2,3\n1, ,3\n",
			Options{},
			`data: u.data line 2: found "", want an identifier in column 2 (item)`,
		},
		{
			"short line", "1,2,3\n1,3\n",
			Options{},
			`data: u.data line 2: found "1,3", want at least 3 columns separated by comma`,
		},
		{
			"open quote", "1,2,3\n1,\"3,3\n",
			Options{Sep: ","},
			`data: u.data line 2: found "1,\"3,3", want a closing quote before the next separator`,
		},
		{
			"text after quote", "1,2,3\n1,\"3\"x,3\n",
			Options{},
			`data: u.data line 2: found "1,\"3\"x,3", want a closing quote before the next separator`,
		},
		{"long line", "1 2 3\n" + long, Options{Sep: "space"}, `data: u.data line 2: found "` + long[:60] +
			`...", want a line of at most 1048576 bytes`},
		{
			"long first line", long + " 1\n",
			Options{Sep: "space", Columns: "user,item"},
			`data: u.data line 1: found "` + long[:60] + `...", want a line of at most 1048576 bytes`,
		},
		{"empty", "", Options{}, `data: u.data: found "", want at least one row`},
		{"blank", "\n \r\n", Options{}, `data: u.data: found "", want at least one row`},
		{
			"header only", "user,item\n",
			Options{},
			`data: u.data line 1: found "", want at least one row after the header`,
		},
		{
			"one column", "abc\ndef\n",
			Options{},
			`data: u.data line 1: found "abc", want at least two columns separated by one of tab, ::, comma, semicolon, pipe, space; name the separator`,
		},
		{
			"zip", "PK\x03\x04more",
			Options{},
			`data: u.data: found "PK\x03\x04", want text; unpack the zip archive first`,
		},
		{
			"UTF-16", "\xff\xfe1\x00",
			Options{},
			`data: u.data: found "\xff\xfe", want UTF-8 or Latin-1 text; convert the file from UTF-16`,
		},
	})
}

func TestLinesThatCannotBeRowsAreRefused(t *testing.T) {
	wantBad(t, []badCase{
		{
			"wide line", "a,b,c\n\n1,2,3\n1,3\n1,2,3,4\n",
			Options{Columns: "user,item", Header: "yes"},
			`data: u.data line 5: found "4 columns", want 3 columns separated by comma, as in line 3`,
		},
		{
			"separator at the end", "1\t2\t3\n1\t3\t3\t\n",
			Options{},
			`data: u.data line 2: found "4 columns", want 3 columns separated by tab, as in line 1`,
		},
		{
			"NUL", "1,2,3\n\n1,\x003,3\n",
			Options{},
			`data: u.data line 3: found "1,\x003,3", want text without NUL bytes; convert the file to UTF-8 text`,
		},
		{
			"NUL far down", strings.Repeat("1,2,3\n", 99) + "1,3,\x00\n",
			Options{},
			`data: u.data line 100: found "1,3,\x00", want text without NUL bytes; convert the file to UTF-8 text`,
		},
	})
}

func TestAHeaderThatIsNotUnderstoodIsRefused(t *testing.T) {
	hint := "; give --columns user=NAME,item=NAME"
	wantBad(t, []badCase{
		{
			"words", "\nwer,was,wieviel\n1,2,3\n",
			Options{},
			`data: u.data line 2: found "wer was wieviel", want columns named user and item` + hint,
		},
		{
			"no item", "uid,thing,stars\n1,2,3\n",
			Options{},
			`data: u.data line 1: found "uid thing stars", want columns named user and item` + hint,
		},
		{
			"no user", "who,movie,stars\n1,2,3\n",
			Options{},
			`data: u.data line 1: found "who movie stars", want columns named user and item` + hint,
		},
		{
			"asked for", "1,2,3\n1,2,3\n",
			Options{Header: "yes"},
			`data: u.data line 1: found "1 2 3", want columns named user and item` + hint,
		},
		{
			"user twice", "user,user,rating,time\n1,2,3,4\n",
			Options{},
			`data: u.data line 1: found "user user rating time", want a header that names one column for user` + hint,
		},
		{
			"time twice", "user,item,time,date\n1,2,3,4\n",
			Options{},
			`data: u.data line 1: found "user item time date", want a header that names one column for time` + hint +
				",time=NAME",
		},
	})
}

func TestWrongOptionsSayWhat(t *testing.T) {
	wantBad(t, []badCase{
		{
			"sep", "1 2\n",
			Options{Sep: "dash"},
			`data: u.data: found "dash", want a separator among tab, ::, comma, semicolon, pipe, space`,
		},
		{"header", "1 2\n", Options{Header: "maybe"}, `data: u.data: found "maybe", want a header among auto, yes, no`},
		{"dedup", "1 2\n", Options{Dedup: "all"}, `data: u.data: found "all", want dedup to be none, first or last`},
		{
			"role", "1 2\n",
			Options{Columns: "usr,item"},
			`data: u.data: found "usr", want a column role among user, item, rating, time; did you mean "user"?`,
		},
		{
			"role twice", "1 2\n",
			Options{Columns: "user,item,user"},
			`data: u.data: found "user,item,user", want each column role once`,
		},
		{
			"no item role", "1 2\n",
			Options{Columns: "user,rating"},
			`data: u.data: found "user,rating", want a column for user and one for item`,
		},
		{
			"mixed columns", "1 2\n",
			Options{Columns: "user=1,item"},
			`data: u.data: found "item", want a column after the role, such as user=1 or user=uid`,
		},
		{
			"negative column", "1 2\n",
			Options{Columns: "user=1,item=-1"},
			`data: u.data: found "item=-1", want a column number from 1 to 9999`,
		},
		{
			"column zero", "1 2\n",
			Options{Columns: "user=0,item=1"},
			`data: u.data: found "user=0", want a column number from 1 to 9999`,
		},
		{
			"column beyond", "1 2\n",
			Options{Columns: "user=1,item=10000"},
			`data: u.data: found "item=10000", want a column number from 1 to 9999`,
		},
		{
			"column of no row", "1 2\n",
			Options{Columns: "user=1,item=3"},
			`data: u.data line 1: found "1 2", want at least 3 columns separated by space`,
		},
		{
			"name twice", "uid app app\n1 2 3\n",
			Options{Columns: "user=uid,item=app"},
			`data: u.data line 1: found "uid app app", want one column named "app"; give the column's number, from 1, instead`,
		},
		{
			"no such name", "\nuid app\n1 2\n",
			Options{Columns: "user=uid,item=apps"},
			`data: u.data line 2: found "uid app", want a column named "apps" in the header; did you mean "app"?`,
		},
		{
			"name without header", "1 2\n",
			Options{Columns: "user=a,item=b", Header: "no"},
			`data: u.data: found "user=a,item=b", want columns by number, for there is no header`,
		},
		{
			"narrow header", "uid app\n1 2\n",
			Options{Columns: "user=1,item=8"},
			`data: u.data line 1: found "2 columns", want at least 8 columns`,
		},
		{
			"no rating", "1 2\n",
			Options{Threshold: 3, HasThreshold: true},
			`data: u.data: found "no rating column", want one to compare with the threshold`,
		},
		{
			"nothing left", "1 2 3\n2 2 2\n",
			Options{Threshold: 3, HasThreshold: true, MinRows: 2},
			`data: u.data: found "0 of 2 rows", want at least one row after the filters; left out: 1 rows with a value below 3, 1 users with fewer than 2 rows (1 rows)`,
		},
	})
}

func TestRowsAreBounded(t *testing.T) {
	_, err := load("u.data", []part{{strings.NewReader("1 2\n1 3\n1 4\n"), "u.data"}}, reading{}, 2)
	if want := `data: u.data line 3: found "1 4", want at most 2 rows`; err == nil || err.Error() != want {
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

func TestReadErrorsComeThrough(t *testing.T) {
	broken := errors.New("wire cut")
	_, err := Delimited(io.MultiReader(strings.NewReader("1 2\n1 3\n"), iotest.ErrReader(broken)), "u.data", Options{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestBrokenGzipIsBadInput(t *testing.T) {
	whole := zipped(strings.Repeat("1 2 3\n", 1000))
	cut := `data: u.data: found "the gzip data is cut short", want a whole gzip file; copy or download the file again`
	damaged := strings.Replace(cut, "cut short", "damaged", 1)
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
