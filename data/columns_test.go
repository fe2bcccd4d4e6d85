package data

import (
	"strings"
	"testing"
)

func TestInfoNamesTheDetectedColumns(t *testing.T) {
	for _, c := range []struct {
		text, columns, want string
	}{
		{"uid,movie,stars\n1,2,3\n", "", "user=uid (column 1), item=movie (column 2), rating=stars (column 3), " +
			"time=none; header yes; separator comma"},
		{"stars;when;movie;uid\n1;2;3;4\n", "", "user=uid (column 4), item=movie (column 3), rating=stars (column " +
			"1), time=none; header yes; separator semicolon"},
		{"1\t2\n", "", "user=column 1, item=column 2, rating=none, time=none; header no; separator tab"},
		{"1 2 978300760\n1 3 978300761\n", "", "user=column 1, item=column 2, rating=none, time=column 3; header " +
			"no; separator space"},
		{"1::2::3::4\n", "user=4,item=1", "user=column 4, item=column 1, rating=none, time=none; header no; " +
			"separator ::"},
		{"a|Mis\xe9r\x1bables\n1|2\n", "user=a,item=2", "user=a (column 1), item=Misérables (column 2), " +
			"rating=none, time=none; header yes; separator pipe"},
		{strings.Repeat("é", 99) + " b\n1 2\n", "user=1,item=b", "user=" + strings.Repeat("é", 30) +
			"... (column 1), item=b (column 2), rating=none, time=none; header yes; separator space"},
	} {
		s := mustLoad(t, c.text, Options{Columns: c.columns})
		if s.Meta.Columns != c.want || Describe(s).Columns != c.want {
			t.Errorf("%.30q:\ngot  %s\nwant %s", c.text, s.Meta.Columns, c.want)
		}
	}
	if w := mustWorld(t, "users=1"); w.Info().Columns != "" {
		t.Errorf("a world has the columns %q", w.Info().Columns)
	}
}

func TestFineTimesBecomeSeconds(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		want, unit          string
	}{
		{"milliseconds", "978300760999", "978300760998", "1: b@978300760 a@978300760\n", ", in milliseconds"},
		{"microseconds", "978300760999999", "978300761000000", "1: a@978300760 b@978300761\n", ", in microseconds"},
		{"nanoseconds", "978300760999999999", "978300761000000000", "1: a@978300760 b@978300761\n", ", in nanoseconds"},
		{"fractions", "978300760999.75", "978300760999.5", "1: b@978300760 a@978300760\n", ", in milliseconds"},
		{"the first", "100000000001", "100000000002", "1: a@100000000 b@100000000\n", ", in milliseconds"},
		{"one in seconds", "978300760999", "978300760", "1: b@978300760 a@978300760999\n", ""},
		{"at the bound", "100000000000", "100000000001", "1: a@100000000000 b@100000000001\n", ""},
		{"at the bound, fraction", "100000000000", "100000000000.5", "1: a@100000000000 b@100000000000\n", ""},
	} {
		s := mustLoad(t, "user,item,ts\n1,a,"+c.first+"\n1,b,"+c.second+"\n", Options{})
		if dump(s) != c.want {
			t.Errorf("%s: got %swant %s", c.name, dump(s), c.want)
		}
		if want := "user=user (column 1), item=item (column 2), rating=none, time=ts (column 3)" + c.unit +
			"; header yes; separator comma"; s.Meta.Columns != want {
			t.Errorf("%s: got %s, want %s", c.name, s.Meta.Columns, want)
		}
	}
}

func TestFiltersDoNotChangeTheUnitOfTimes(t *testing.T) {
	s := mustLoad(t, "1 a 5 978300760999\n1 b 5 978300760998\n1 c 1 5\n", Options{Threshold: 4, HasThreshold: true})
	if want := "1: b=5@978300760998 a=5@978300760999\n"; dump(s) != want {
		t.Errorf("got %swant %s", dump(s), want)
	}
}

func TestAutoHeaderKeepsAKnownSetsOwn(t *testing.T) {
	// By its look the first line would be a header.
	fsys := files("ml-100k/u.data", "user\titem\t3\t881250949\n186\t302\t3\t891717742\n")
	for _, header := range []string{"", "auto", "no"} {
		s, err := Open(fsys, "ml-100k", Options{Header: header})
		if err != nil {
			t.Fatal(err)
		}
		want := "user=column 1, item=column 2, rating=column 3, time=column 4; header no; separator tab"
		if s.Users() != 2 || s.Meta.Columns != want {
			t.Errorf("header %q: %d users, %s", header, s.Users(), s.Meta.Columns)
		}
	}
}
