package data

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func mustLoad(t *testing.T, text string, opt Options) *Set {
	t.Helper()
	s, err := Read(strings.NewReader(text), "test", opt)
	if err != nil {
		t.Fatal(err)
	}
	checkSet(t, s)
	return s
}

// checkSet checks the invariants of every loaded set.
func checkSet(t *testing.T, s *Set) {
	t.Helper()
	n := len(s.Item)
	if s.Start[0] != 0 || s.Start[s.Users()] != n || n == 0 {
		t.Fatalf("start is %d..%d for %d rows", s.Start[0], s.Start[s.Users()], n)
	}
	if s.Value != nil && len(s.Value) != n || s.Time != nil && len(s.Time) != n {
		t.Fatalf("%d items, %d values, %d times", n, len(s.Value), len(s.Time))
	}
	if (s.Time == nil) != (s.Meta.TimeKind == NoTime) {
		t.Fatalf("time kind is %v, times are %v", s.Meta.TimeKind, s.Time)
	}
	if len(s.Meta.UserID) != s.Users() || len(s.Meta.ItemID) != s.NumItems {
		t.Fatalf("%d user and %d item identifiers for %d and %d", len(s.Meta.UserID), len(s.Meta.ItemID), s.Users(),
			s.NumItems)
	}
	seen := make([]bool, s.NumItems)
	for u := range s.Users() {
		a, b := s.Start[u], s.Start[u+1]
		if a >= b {
			t.Fatalf("user %d has rows %d to %d, want at least one", u, a, b)
		}
		for k := a; k < b; k++ {
			seen[s.Item[k]] = true
			if s.Time != nil && k > a && s.Time[k] < s.Time[k-1] {
				t.Fatalf("user %d: time %d comes after %d", u, s.Time[k], s.Time[k-1])
			}
		}
	}
	for i, ok := range seen {
		if !ok {
			t.Fatalf("item %d has no row", i)
		}
	}
}

// dump writes a set in a form that is easy to compare: one line per user.
func dump(s *Set) string {
	var b strings.Builder
	var h History
	for u := range s.Users() {
		s.History(u, &h)
		b.WriteString(s.Meta.UserID[u] + ":")
		for k, i := range h.Items {
			b.WriteString(" " + s.Meta.ItemID[i])
			if h.Values != nil {
				fmt.Fprintf(&b, "=%v", h.Values[k])
			}
			if h.Times != nil {
				fmt.Fprintf(&b, "@%d", h.Times[k])
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func TestEveryFormatOfTheSameRowsGivesTheSameSet(t *testing.T) {
	rows := "7\tx\t3\t200\n8\ty\t4.5\t100\n7\ty\t1\t150\n"
	want := dump(mustLoad(t, rows, Options{}))
	if want != "7: y=1@150 x=3@200\n8: y=4.5@100\n" {
		t.Fatalf("tab rows read as\n%s", want)
	}
	hash := mustLoad(t, rows, Options{}).Meta.Hash
	by := func(sep string) string { return strings.ReplaceAll(rows, "\t", sep) }
	for name, c := range map[string]struct {
		text string
		opt  Options
	}{
		"colons":       {by("::"), Options{}},
		"comma":        {by(","), Options{}},
		"semicolon":    {by(";"), Options{}},
		"pipe":         {by("|"), Options{}},
		"space":        {by(" "), Options{}},
		"spaces":       {by("   "), Options{}},
		"comma, space": {by(", "), Options{}},
		"named":        {by("|"), Options{Sep: "pipe"}},
		"literal":      {by("|"), Options{Sep: "|", Header: "auto"}},
		"CRLF":         {strings.ReplaceAll(rows, "\n", "\r\n"), Options{}},
		"no last end":  {strings.TrimSuffix(rows, "\n"), Options{}},
		"blank lines":  {"\n" + strings.ReplaceAll(rows, "\n", "\n\n  \n"), Options{}},
		"BOM":          {"\xef\xbb\xbf" + rows, Options{}},
		"gzip":         {zipped(rows), Options{}},
		"gzip and BOM": {zipped("\xef\xbb\xbf" + by(",")), Options{}},
		"quoted":       {"\"7\",\"x\",3,200\n\"8\",\"y\",\"4.5\",100\n7,y,\"1\" , \"150\"\n", Options{}},
		"header":       {"user_id,movieId,Rating,timestamp\n" + by(","), Options{}},
		"odd header":   {"wer\twas\twieviel\twann\n" + rows, Options{Columns: "user,item,rating,time"}},
		"BOM header": {
			"\xef\xbb\xbfuserId,movieId,rating,timestamp\r\n" + strings.ReplaceAll(by(","), "\n", "\r\n"),
			Options{},
		},
		"other order": {"timestamp;rating;item;user\n200;3;x;7\n100;4.5;y;8\n150;1;y;7\n", Options{}},
		"by index":    {"200;3;x;7\n100;4.5;y;8\n150;1;y;7\n", Options{Columns: "user=4,item=3,rating=2,time=1"}},
		"by name": {
			"wann;n;was;wer\n200;3;x;7\n100;4.5;y;8\n150;1;y;7\n",
			Options{Columns: "user=wer, item=was, rating=n, time=wann"},
		},
		"by place":     {"200;3;-;x;7\n100;4.5;-;y;8\n150;1;-;y;7\n", Options{Columns: "time,value,_,item,user"}},
		"header asked": {"1,2,3,4\n" + by(","), Options{Header: "yes", Columns: "user,item,rating,time"}},
		"no dedup":     {rows, Options{Dedup: "none"}},
		"space at end": {strings.ReplaceAll(by(" "), "200\n", "200  \n"), Options{}},
		"extra name":   {"uid,movie,note,stars,when,ts\n7,x,-,3,-,200\n8,y,-,4.5,-,100\n7,y,-,1,-,150\n", Options{}},
		"shorter line": {strings.Replace(rows, "200\n", "200\tmore\n", 1), Options{}},
		"extra column": {strings.ReplaceAll(rows, "\n", "\tmore\n"), Options{}},
		"float time":   {strings.ReplaceAll(rows, "200", "2e2"), Options{}},
		"exponent":     {strings.ReplaceAll(rows, "4.5", "+45.0e-1"), Options{}},
	} {
		s := mustLoad(t, c.text, c.opt)
		if got := dump(s); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		} else if s.Meta.Hash != hash {
			t.Errorf("%s: hash %s, want %s", name, s.Meta.Hash, hash)
		}
	}
}

func TestTheSeparatorIsTheLikelyOne(t *testing.T) {
	for text, want := range map[string]sep{
		"1;2;3,5\n2;2;4,5\n":                  ";",
		"1,2,a|b\n2,2,c|d\n":                  ",",
		"1\t2\tUnited States of America\n":    "\t",
		"1::2::a, b, c, d, e\n":               "::",
		"1,2,Toy Story\n1,3,Four Rooms\n":     ",",
		"1,2,\"a,b,c\"\n1,3,\"d\"\n":          ",",
		"1|2|3\n1|2|3|more\n":                 "|",
		"1 2 3\n":                             " ",
		"anna;the quick fox\nberta;the dog\n": ";",
	} {
		head := [][]byte{}
		for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
			head = append(head, []byte(l))
		}
		if got, _ := findSep("", head); got != want {
			t.Errorf("%q is cut at %q, want %q", text, got, want)
		}
	}
}

func TestQuotedFieldsMayHoldSeparatorsAndQuotes(t *testing.T) {
	s := mustLoad(t, "user,item,rating\n1,\"a, b\",3\n1,\"say \"\"hi\"\"\",4\n1,\"\"\"\",5\n2,5\" disk,1\n", Options{})
	if want := []string{"a, b", `say "hi"`, `"`, `5" disk`}; !reflect.DeepEqual(s.Meta.ItemID, want) {
		t.Fatalf("items are %q, want %q", s.Meta.ItemID, want)
	}
}

func TestLatin1BecomesUTF8(t *testing.T) {
	s := mustLoad(t, "1\tMis\xe9rables\n1\tCaf\xc3\xa9\n", Options{})
	if want := []string{"Misérables", "Café"}; !reflect.DeepEqual(s.Meta.ItemID, want) {
		t.Fatalf("items are %q, want %q", s.Meta.ItemID, want)
	}
}

func TestTwoAndThreeColumnsAreEnough(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1 a\n2 a\n1 b\n", "1: b a\n2: a\n"},
		{"uid,app\n1,a\n1,b\n", "1: b a\n"},
		{"1 a 5\n1 b 4\n", "1: b=4 a=5\n"},
		{"1 a 978300760\n1 b 978300000\n", "1: b@978300000 a@978300760\n"},
		{"user,item,when\n1,a,978300760\n1,b,978300000\n", "1: b a\n"}, // a header that names user and item is believed
		{"user,item,timestamp\n1,a,5\n1,b,7\n", "1: a@5 b@7\n"},
	} {
		if got := dump(mustLoad(t, c.text, Options{})); got != c.want {
			t.Errorf("%q: got\n%swant\n%s", c.text, got, c.want)
		}
	}
}

func TestIdentifiersAreTextNotNumbers(t *testing.T) {
	s := mustLoad(t, "1 1\n01 1\n1 01\n1 1000000\n1 -1\n1 0\n1 00\n", Options{})
	if want := []string{"1", "01"}; !reflect.DeepEqual(s.Meta.UserID, want) {
		t.Errorf("users are %q, want %q", s.Meta.UserID, want)
	}
	if want := []string{"1", "01", "1000000", "-1", "0", "00"}; !reflect.DeepEqual(s.Meta.ItemID, want) {
		t.Errorf("items are %q, want %q", s.Meta.ItemID, want)
	}
}

func TestFirstOfMixedIdentifiersIsNotAHeader(t *testing.T) {
	s := mustLoad(t, "anna,77\n12,77\n13,B0001\n", Options{})
	if s.Users() != 3 {
		t.Fatalf("users are %q, want anna among them", s.Meta.UserID)
	}
}

func TestTimesHaveTheirKind(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       TimeKind
	}{
		{"no column", "1 a 3\n1 b 4\n", NoTime},
		{"all the same", "1 a 3 9\n2 b 4 9\n", NoTime},
		{"one row", "1 a 3 9\n", NoTime},
		{"from 1", "1 a 3 2\n1 b 3 1\n2 a 3 1\n", OrderOnly},
		{"from 0", "1 a 3 0\n1 b 3 1\n2 a 3 0\n", OrderOnly},
		{"from 0 or 1", "1 a 3 0\n1 b 3 1\n2 a 3 1\n", OrderOnly},
		{"a gap", "1 a 3 1\n1 b 3 3\n", RealTime},
		{"0 to n", "1 a 3 0\n1 b 3 2\n", RealTime},
		{"n to 0", "1 a 3 2\n1 b 3 0\n", RealTime},
		{"twice", "1 a 3 1\n1 b 3 1\n1 c 3 2\n", RealTime},
		{"negative", "1 a 3 -1\n1 b 3 0\n", RealTime},
		{"fraction", "1 a 3 1\n1 b 3 1.5\n", RealTime},
		{"unix", "1 a 3 881250949\n1 b 3 881250950\n", RealTime},
	} {
		if s := mustLoad(t, c.text, Options{}); s.Meta.TimeKind != c.want {
			t.Errorf("%s: time kind is %v, want %v", c.name, s.Meta.TimeKind, c.want)
		}
	}
}

func TestFiltersDoNotTurnAnOrderIntoTimes(t *testing.T) {
	s := mustLoad(t, "1 a 3 1\n1 b 5 2\n1 c 2 3\n1 d 5 4\n", Options{Threshold: 4, HasThreshold: true})
	if s.Meta.TimeKind != OrderOnly || dump(s) != "1: b=5@2 d=5@4\n" {
		t.Fatalf("got %v, %s", s.Meta.TimeKind, dump(s))
	}
}

func TestFractionsOfATimeDecideTheOrder(t *testing.T) {
	s := mustLoad(t, "1 a 1 -3\n1 b 1 10.75\n1 c 1 10.5\n1 d 1 10\n1 e 1 -2.5\n1 f 1 1234567890123456789\n", Options{})
	if want := "1: a=1@-3 e=1@-3 d=1@10 c=1@10 b=1@10 f=1@1234567890123456768\n"; dump(s) != want {
		t.Fatalf("got  %swant %s", dump(s), want)
	}
}

func TestNanosecondsAreKeptToTheLast(t *testing.T) {
	s := mustLoad(t, "1 a 1 1234567890123456789\n1 b 1 -9223372036854775808\n", Options{})
	if want := "1: b=1@-9223372036854775808 a=1@1234567890123456789\n"; dump(s) != want {
		t.Fatalf("got  %swant %s", dump(s), want)
	}
}
