package data

import (
	"slices"
	"strings"
	"testing"
)

func TestTitlesAndGenresComeFromColumns(t *testing.T) {
	const text = "uid,iid,title,genres,city\n" +
		"1,a,\"Alien, 1979\",Horror|Sci-Fi,Rome\n1,b,,,Rome\n2,b,Heat\x1b[31m,\"['Crime', 'Drama']\",Oslo\n" +
		"2,a,\"Alien, 1979\",Horror,Rome\n3,c,,(no genres listed),Oslo\n"
	s := mustLoad(t, text, Options{})
	if want := []string{"Alien, 1979", "Heat [31m", "item c"}; !slices.Equal(s.Meta.Title, want) {
		t.Errorf("titles are %q, want %q", s.Meta.Title, want)
	}
	if g := s.Meta.Genres; !slices.Equal(g[0], []string{"Horror", "Sci-Fi"}) || !slices.Equal(g[1], []string{
		"Crime", "Drama",
	}) || len(g[2]) > 0 {
		t.Errorf("genres are %q", g)
	}
	if f := s.Meta.Features.Item; len(f) != 1 || f[0].Card != 4 || f[0].Len() != 3 {
		t.Errorf("features are %+v", f)
	}
	if n := s.Meta.Notes; len(n) != 1 || n[0] != "unused columns: city" {
		t.Errorf("notes are %q", n)
	}
	plain := mustLoad(t, text, Options{Columns: "user=uid,item=iid"})
	if plain.Meta.Title != nil || plain.Meta.Genres != nil {
		t.Error("columns that are not asked for are read")
	}
}

func TestTitlesMoveWithTheirItems(t *testing.T) {
	s := mustLoad(t, "user,item,title\n1,a,A\n2,b,B\n2,c,C\n3,a,A\n", Options{MinRows: 2})
	if want := []string{"B", "C"}; !slices.Equal(s.Meta.Title, want) {
		t.Errorf("titles are %q, want %q", s.Meta.Title, want)
	}
}

// The title of a review is not the title of an item.
func TestTitlesThatDifferAreIgnoredUnlessSet(t *testing.T) {
	const text = "user,item,title\n1,a,Great\n2,a,Awful\n1,b,Meh\n2,b,So so\n"
	s := mustLoad(t, text, Options{})
	if s.Meta.Title != nil || len(s.Meta.Notes) != 1 ||
		!strings.Contains(s.Meta.Notes[0], "2 of 2 items have several") {
		t.Errorf("titles %q, notes %q", s.Meta.Title, s.Meta.Notes)
	}
	s = mustLoad(t, text, Options{Columns: "user,item,title"})
	if !slices.Equal(s.Meta.Title, []string{"Great", "Meh"}) || len(s.Meta.Notes) != 1 {
		t.Errorf("titles %q, notes %q", s.Meta.Title, s.Meta.Notes)
	}
}

func TestContextColumnsAreFeaturesOfRows(t *testing.T) {
	const text = "city,user,item,when,weather\nRome,1,a,20,sun\nOslo,1,b,10,rain\nRome,2,a,5,rain\n"
	s := mustLoad(t, text, Options{Columns: "user=user,item=item,time=when,context=weather,context=city"})
	f := s.Meta.Features.Row
	if len(f) != 2 || f[0].Name != "weather" || f[1].Name != "city" {
		t.Fatalf("features are %+v", f)
	}
	var got []string
	for x := range s.Item {
		got = append(got, f[0].Names[f[0].Code[x]]+" "+f[1].Names[f[1].Code[x]])
	}
	if want := []string{"rain Oslo", "sun Rome", "rain Rome"}; !slices.Equal(got, want) {
		t.Errorf("context is %q, want %q", got, want)
	}
	if !strings.Contains(s.Meta.Columns, "context=weather (column 5), context=city (column 1)") {
		t.Errorf("columns are %s", s.Meta.Columns)
	}
	many := "user,item" + strings.Repeat(",context", 33)
	if _, err := Read(strings.NewReader(text), "f", Options{Columns: many}); err == nil ||
		!strings.Contains(err.Error(), "at most 32 context columns") {
		t.Errorf("error is %v", err)
	}
}

func TestUnusedColumnsAreNamedWithASuggestion(t *testing.T) {
	for _, c := range []struct{ text, columns, want string }{
		{
			"user,item,label,when\n1,a,x,881250949\n1,b,y,881250950\n", "",
			"unused columns: label, when; did you mean time=when? add --columns user=user,item=item,time=when",
		},
		{
			"user,item,my_title,when\n1,a,x,2001-02-03\n", "",
			"unused columns: my_title, when; did you mean title=my_title, time=when? add --columns " +
				"user=user,item=item,title=my_title,time=when",
		},
		{
			"1\ta\t3\t881250949\tx\n", "user=1,item=2",
			"unused columns: 3, 4, 5; did you mean time=4? add --columns user=1,item=2,time=4",
		},
		{"user,item,a,b,c,d,e,f,g,h,i\n1,2,3,4,5,6,7,8,9,10,11\n", "", "unused columns: a, b, c, d, e, f, g, h and " +
			"1 more"},
		{"user,item\n1,2\n", "", ""},
		{"user,item,a=b\n1,2,2001-01-01\n", "", "unused columns: a=b"},
	} {
		s := mustLoad(t, c.text, Options{Columns: c.columns})
		if got := strings.Join(s.Meta.Notes, "\n"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if _, columns, ok := strings.Cut(c.want, "--columns "); ok {
			s := mustLoad(t, c.text, Options{Columns: columns})
			if s.Time == nil && s.Meta.TimeKind != NoTime {
				t.Errorf("--columns %s gives no times", columns)
			}
		}
	}
}

func TestLongTitlesAreCutBetweenLetters(t *testing.T) {
	for _, letter := range []string{"x", "é", "電", "🎬"} {
		for extra := range 4 {
			long := strings.Repeat("a", extra) + strings.Repeat(letter, maxTitle)
			got := title([]byte(long))
			if !strings.HasPrefix(long, got) || len(got) <= maxTitle-len(letter) || len(got) > maxTitle {
				t.Errorf("%d bytes of %q: got %d bytes, %q", len(long), letter, len(got), got)
			}
		}
	}
	if got := title([]byte(strings.Repeat("\xe9", maxTitle+1))); got != strings.Repeat("é", maxTitle) {
		t.Errorf("a long Latin-1 title is %q", got)
	}
}

func TestAFieldOverSeveralLinesIsNamed(t *testing.T) {
	for _, by := range []string{",", ";"} {
		text := strings.ReplaceAll("user,item,title\n1,2,\"a\nb\"\n1,3,c\n", ",", by)
		_, err := Read(strings.NewReader(text), "f", Options{})
		if err == nil || !strings.Contains(err.Error(), "a closing quote in the same line; remove line breaks") ||
			!strings.Contains(err.Error(), `found "1`+by+"2") {
			t.Errorf("error is %v", err)
		}
	}
}
