package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// naiveCore drops users and items until nothing changes.
func naiveCore(rows [][2]int, k, minRows int) [][2]int {
	for {
		users, items := map[int]int{}, map[int]int{}
		for _, r := range rows {
			users[r[0]]++
			items[r[1]]++
		}
		left := slices.DeleteFunc(slices.Clone(rows), func(r [2]int) bool {
			return users[r[0]] < max(k, minRows) || items[r[1]] < k
		})
		if len(left) == len(rows) {
			return rows
		}
		rows = left
	}
}

func rowsText(rows [][2]int) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "u%d,i%d\n", r[0], r[1])
	}
	return b.String()
}

func TestKCoreMatchesRepeatedFilters(t *testing.T) {
	g := rng.New(rng.Test)
	some := 0
	for n := range 90 {
		minRows := n % 3 * 3 // 6 is above k: users whose items are dropped may fall below it
		var rows [][2]int
		for range 150 {
			rows = append(rows, [2]int{int(g.Uint32n(40)), int(g.Uint32n(1 + g.Uint32n(40)))})
		}
		want := naiveCore(rows, 4, minRows)
		s, err := Read(strings.NewReader(rowsText(rows)), "f", Options{Header: "no", KCore: 4, MinRows: minRows})
		if len(want) == 0 {
			if err == nil {
				t.Fatal("an empty core is not reported")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(want) < len(rows) {
			some++
			dropped := fmt.Sprintf("outside the 4-core (%d rows)", len(rows)-len(want))
			if minRows == 0 && !strings.Contains(s.Meta.FilteredOut, dropped) {
				t.Errorf("dropped: %s, want %d rows", s.Meta.FilteredOut, len(rows)-len(want))
			}
		}
		if plain := mustLoad(t, rowsText(want), Options{Header: "no"}); plain.Meta.Hash != s.Meta.Hash {
			t.Fatalf("got %s, want %s", dump(s), dump(plain))
		}
	}
	if some < 10 {
		t.Errorf("only %d cores are smaller than the data", some)
	}
	if _, err := Read(strings.NewReader("1 2\n"), "f", Options{KCore: -1}); err == nil {
		t.Error("a negative core is accepted")
	}
}

func readFiles(t *testing.T, opt Options, train, valid, test string) *Set {
	t.Helper()
	f := Files{
		Train: Input{Name: "train.csv", Text: strings.NewReader(train)},
		Test:  Input{Name: "test.csv", Text: strings.NewReader(test)},
	}
	if valid != "" {
		f.Valid = Input{Name: "valid.csv", Text: strings.NewReader(valid)}
	}
	s, err := ReadFiles(f, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const header = "user,item,time\n"

func TestFilesGiveTheSplit(t *testing.T) {
	train := header + "a,1,2000-01-05\na,2,2000-01-01\nb,1,2000-01-01\nb,3,2000-01-02\n"
	valid := header + "a,4,1999-01-01\n" // older than the train rows, and still held out
	test := header + "b,5,2000-01-04\na,6,2000-01-09\nb,6,2000-01-03\nc,1,2000-01-01\n"
	s := readFiles(t, Options{}, train, valid, test)
	p, err := ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	p.Sampled = 2
	split, err := NewSplit(s, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int64) string {
		if i == None {
			return "-"
		}
		return s.Meta.ItemID[i]
	}
	var got []string
	var part Part
	for u := range s.Users() {
		split.User(u, &part)
		line := s.Meta.UserID[u] + ":"
		for _, i := range part.Train {
			line += " " + name(int64(i))
		}
		got = append(got, line+" | "+name(part.Valid)+" | "+name(part.Test))
		for _, i := range append(slices.Clone(part.Candidates[0]), part.Candidates[1]...) {
			if slices.Contains(part.Seen(), i) {
				t.Errorf("item %s of user %d is a candidate", name(int64(i)), u)
			}
		}
	}
	if want := []string{"a: 2 1 | 4 | 6", "b: 1 3 | - | 6", "c: | - | -"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "by files: 4 train, 1 validation and 4 test rows"; s.Meta.Split != want {
		t.Errorf("split is %q, want %q", s.Meta.Split, want)
	}
	if want := []string{"1 of 3 users have no train rows and are not evaluated"}; !slices.Equal(s.Meta.Notes, want) {
		t.Errorf("notes are %q, want %q", s.Meta.Notes, want)
	}
	for _, other := range []string{"fedrecgel", "privrec"} {
		p, err := ProtocolNamed(other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewSplit(s, p, 1); err == nil || !strings.Contains(err.Error(), "use --protocol deployed") {
			t.Errorf("%s: error is %v", other, err)
		}
	}
}

// The split is part of the hash, and dedup works within a file.
func TestTheSplitEntersTheHash(t *testing.T) {
	rows := "a,1,10\na,2,20\na,3,30\nb,1,10\nb,2,20\nb,3,30\n"
	lines := strings.SplitAfter(rows, "\n")
	whole := mustLoad(t, header+rows, Options{})
	one := readFiles(t, Options{}, header+lines[0]+lines[1]+lines[3]+lines[4], "", header+lines[2]+lines[5])
	two := readFiles(t, Options{}, header+lines[0]+lines[3], header+lines[1]+lines[4], header+lines[2]+lines[5])
	if dump(one) != dump(whole) || dump(two) != dump(whole) {
		t.Fatal("files of a split have other rows than one file")
	}
	if whole.Meta.Hash == one.Meta.Hash {
		t.Error("the split is not part of the hash")
	}
	// Without a validation file the newest train row is for validation: the same split as with one.
	if one.Meta.Hash != two.Meta.Hash || !slices.Equal(one.ValidFrom, []int32{1, 1}) ||
		!slices.Equal(one.TestFrom, []int32{2, 2}) {
		t.Errorf("validation from %d, test from %d, hashes %s and %s", one.ValidFrom, one.TestFrom, one.Meta.Hash,
			two.Meta.Hash)
	}
	three := readFiles(t, Options{}, header+lines[0]+lines[3]+lines[4], header+lines[1], header+lines[2]+lines[5])
	if dump(three) != dump(whole) || three.Meta.Hash == one.Meta.Hash {
		t.Error("another split of the same rows has the same hash, or other rows")
	}
	s := readFiles(t, Options{Dedup: "first"}, header+"a,1,1\na,1,2\na,2,3\n", "", header+"a,1,4\na,1,5\n")
	if want := "a: 1@1 2@3 1@4\n"; dump(s) != want {
		t.Errorf("got %s, want %s", dump(s), want)
	}
	cut, err := ParseCut("0.5,0.9")
	if err != nil {
		t.Fatal(err)
	}
	if whole.WithCut(cut).Meta.Hash == whole.Meta.Hash || whole.WithCut(Cut{}).Meta.Hash != whole.Meta.Hash {
		t.Error("a time cut is not part of the hash, or the default is")
	}
}

func TestFilesOfASplitMustAgree(t *testing.T) {
	for _, c := range []struct{ train, test, want string }{
		{header + "a,1,2000-01-05\n", header + "a,1,978300760\n", "test.csv: found \"times in another format\""},
		{header + "a,1,5\n", "user,item\na,2\n", "test.csv: found \"a time column in some files\""},
		{"user,item,rating\na,1,5\n", "user,item\na,2\n", "test.csv: found \"a rating column in some files\""},
		{header + "a,1,5\n", header, "test.csv line 1: found \"\", expected at least one row after the header"},
	} {
		_, err := ReadFiles(Files{
			Train: Input{Name: "train.csv", Text: strings.NewReader(c.train)},
			Test:  Input{Name: "test.csv", Text: strings.NewReader(c.test)},
		}, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestTimeCuts(t *testing.T) {
	var b strings.Builder
	b.WriteString(header)
	for day := range 20 {
		fmt.Fprintf(&b, "u,i%d,2000-11-%02d\n", day, day+1)
	}
	b.WriteString("v,i0,2000-11-03\nv,i1,2000-11-12\nv,i2,2000-11-18\n")
	s := mustLoad(t, b.String(), Options{})
	for _, c := range []struct{ cut, want string }{
		{"2000-11-11,2000-11-16", "10 i10 i15; 1 i1 i2"},
		{"2000-11-05T12:00:00Z, 974678400", "5 i5 i19; 1 i1 -"}, // Unix seconds of 20 November
		{"0.5,0.75", "10 i10 i15; 1 i1 i2"},
		{"", "16 i16 i17; 2 - i2"},
		{"0.9,0.5", "validation must start before test"},
		{"0.5", "must be two shares"},
		{"0.5,2000-11-11", "must be two shares"},
		{"2000-11-11,0.5", "must be two shares"},
		{"1/11/2000,2/11/2000", "must be two shares"},
		{"1999-01-01,2000-11-11", "validation must start after the first time"},
		{"2000-11-11,2001-11-11", "at its last at the latest"},
	} {
		p, err := ProtocolNamed("temporal")
		if err != nil {
			t.Fatal(err)
		}
		p.Sampled = 0
		var split *Split
		if p.Cut, err = ParseCut(c.cut); err == nil {
			split, err = NewSplit(s, p, 1)
		}
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: error is %v, want %s", c.cut, err, c.want)
			}
			continue
		}
		var got []string
		var part Part
		for u := range s.Users() {
			split.User(u, &part)
			line := fmt.Sprint(len(part.Train))
			for _, i := range []int64{part.Valid, part.Test} {
				if i == None {
					line += " -"
				} else {
					line += " " + s.Meta.ItemID[i]
				}
			}
			got = append(got, line)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%q: got %s, want %s", c.cut, text, c.want)
		}
	}
}

// A split without a user to evaluate is an error, and not a metric of 0.
func TestSplitsWithoutATestUserAreRefused(t *testing.T) {
	deployed, err := ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	const train, test = "user,item,time\na,1,1\na,2,2\nb,1,3\n", "user,item,time\nA,3,4\nB,3,5\n"
	files, err := ReadFiles(Files{
		Train: Input{Name: "train", Text: strings.NewReader(train)},
		Test:  Input{Name: "test", Text: strings.NewReader(test)},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSplit(files, deployed, 1); err == nil || !strings.Contains(err.Error(), "no user of train is in") {
		t.Errorf("error is %v", err)
	}
	temporal, err := ProtocolNamed("temporal")
	if err != nil {
		t.Fatal(err)
	}
	if temporal.Cut, err = ParseCut("2001-01-03,2001-01-05"); err != nil {
		t.Fatal(err)
	}
	text := "user,item,time\na,1,2001-01-01\na,2,2001-01-04\nb,1,2001-01-03\nb,2,2001-01-06\n"
	if _, err := NewSplit(mustLoad(t, text, Options{}), temporal, 1); err == nil ||
		!strings.Contains(err.Error(), "validation starts at 2001-01-03T00:00:00Z and test at 2001-01-05T00:00:00Z") ||
		!strings.HasSuffix(err.Error(), "use --time-cut 0.7,0.85") {
		t.Errorf("error is %v", err)
	}
	// The default cut is at 80 and 90 percent of the rows. Users that never come back have no other one.
	for rows, want := range map[string]string{
		"a,1,%d0\na,2,%d1\nb,1,%d2\nb,2,%d3\nc,1,%d4\nc,2,%d5\n": "; use --protocol deployed",
		"a,1,%d0\na,2,%d5\nb,1,%d1\nb,2,%d2\nc,1,%d3\nc,2,%d4\n": "",
	} {
		temporal.Cut = Cut{}
		text := "user,item,time\n" + strings.ReplaceAll(rows, "%d", "97830720")
		s, err := NewSplit(mustLoad(t, text, Options{}), temporal, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckTested(); (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", rows, err, want)
		}
	}
}
