package data

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func files(kv ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = &fstest.MapFile{Data: []byte(kv[i+1])}
	}
	return m
}

const (
	uData = "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n186\t9\t1\t1\n"
	uItem = "242|Kolya (1996)|24-Jan-1997||http://x|0|1|0\n302|Mis\xe9rables (1995)|||y|0|1|1\n777|Never seen " +
		"(1990)|||z|0|0|0\n"
	uGenre = "unknown|0\nComedy|1\nWar|2\n\n"
	uUser  = "186|39|F|executive|00000\n196|49|M|writer|55105\n1|1|M|none|0\n"
)

func TestML100KHasTitlesGenresAndAttributes(t *testing.T) {
	for _, dir := range []string{"ml-100k/", ""} {
		for _, gz := range []string{"", ".gz"} {
			data := uData
			if gz != "" {
				data = zipped(uData)
			}
			s, err := Open(files(dir+"u.data"+gz, data, dir+"u.item", uItem, dir+"u.genre", uGenre, dir+"u.user",
				uUser), "ml-100k", Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkSet(t, s)
			in := s.Meta
			if in.Name != "ml-100k" || in.TimeKind != RealTime {
				t.Errorf("name %q, times %v", in.Name, in.TimeKind)
			}
			if want := []string{"Kolya (1996)", "Misérables (1995)", "item 9"}; !reflect.DeepEqual(in.Title, want) {
				t.Errorf("titles are %q, want %q", in.Title, want)
			}
			if want := [][]string{{"Comedy"}, {"Comedy", "War"}, nil}; !reflect.DeepEqual(in.Genres, want) {
				t.Errorf("genres are %q, want %q", in.Genres, want)
			}
			want := []Attr{
				{"age", []string{"49", "39"}},
				{"gender", []string{"M", "F"}},
				{"occupation", []string{"writer", "executive"}},
				{"zip", []string{"55105", "00000"}},
			}
			if !reflect.DeepEqual(in.Attrs, want) {
				t.Errorf("attributes are %q, want %q", in.Attrs, want)
			}
		}
	}
}

func TestML1MHasTitlesGenresAndAttributes(t *testing.T) {
	s, err := Open(files("ml-1m/ratings.dat", "1::73::5::978300760\n2::9::1::978300761\n",
		"ml-1m/movies.dat", "73::Mis\xe9rables, Les (1995)::Drama|Musical\n9::Caf\xc3\xa9 (1990)::Comedy\n",
		"ml-1m/users.dat", "1::F::1::10::48067\n"), "ml-1m", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Misérables, Les (1995)", "Café (1990)"}; !reflect.DeepEqual(s.Meta.Title, want) {
		t.Errorf("titles are %q, want %q", s.Meta.Title, want)
	}
	if want := [][]string{{"Drama", "Musical"}, {"Comedy"}}; !reflect.DeepEqual(s.Meta.Genres, want) {
		t.Errorf("genres are %q, want %q", s.Meta.Genres, want)
	}
	if want := (Attr{"gender", []string{"F", ""}}); !reflect.DeepEqual(s.Meta.Attrs[0], want) {
		t.Errorf("attribute is %q, want %q", s.Meta.Attrs[0], want)
	}
}

func TestASetWithoutItsCatalogueStillOpens(t *testing.T) {
	s, err := Open(files("u.data", uData), "ml-100k", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Meta.Title[0] != "item 242" || s.Meta.Attrs != nil {
		t.Fatalf("title %q, attributes %v", s.Meta.Title[0], s.Meta.Attrs)
	}
}

func TestFilmTrustAndFrappeOpen(t *testing.T) {
	fsys := files("filmtrust/ratings.txt", "1 1 2\n1 2 3.5\n",
		"frappe/frappe.csv", "user\titem\tcnt\tdaytime\n0\t0\t1\tmorning\n0\t1\t7\tnoon\n0\t0\t2\tnoon\n")
	for name, want := range map[string]string{"filmtrust": "1: 2=3.5 1=2\n", "frappe": "0: 0=2 1=7 0=1\n"} {
		s, err := Open(fsys, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(s); got != want {
			t.Errorf("%s: got %swant %s", name, got, want)
		}
	}
}

func TestFiltersWorkOnKnownSets(t *testing.T) {
	s, err := Open(files("u.data", uData), "ml-100k", Options{Threshold: 3, HasThreshold: true})
	if err != nil || dump(s) != "196: 242=3@881250949\n186: 302=3@891717742\n" {
		t.Fatalf("got %v, %v", s, err)
	}
}

func TestMissingFileErrorSaysWhatToDo(t *testing.T) {
	_, err := Open(files(), "ml-100k", Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want fs.ErrNotExist", err)
	}
	want := "ml-100k: file ml-100k/u.data is missing in the data folder; download it with `tacit data fetch " +
		"ml-100k`, or put u.data from https://grouplens.org/datasets/movielens/100k/ into <data folder>/ml-100k, or " +
		"use -d world"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestErrorsOfKnownSetsNameTheFile(t *testing.T) {
	for _, c := range []struct {
		name string
		fsys fs.FS
		want string
	}{
		{
			"ml-100l", files(),
			`data folder: found "ml-100l", expected a data set among ml-100k, ml-1m, lastfm-2k, lastfm-2k-artists, filmtrust, frappe, amazon-video, tafeng, qb-article, qb-article-clicks; did you mean "ml-100k"?`,
		},
		{
			"ml-100k", files("ml-100k/u.data", "1\t2\n"),
			`ml-100k/u.data line 1: found "1\t2", expected at least 4 columns separated by tab`,
		},
		{
			"ml-100k", files("u.data", uData, "u.genre", uGenre, "u.item", "1|a|b|c|d\n"),
			`u.item line 1: found "1|a|b|c|d", expected at least 8 columns separated by pipe`,
		},
		{
			"ml-100k", files("u.data", uData, "u.user", "1|2\n"),
			`u.user line 1: found "1|2", expected at least 5 columns separated by pipe`,
		},
		{
			"ml-100k", files("u.data", uData, "u.genre", "Comedy\n"),
			`u.genre line 1: found "Comedy", expected at least 2 columns separated by pipe`,
		},
		{
			"ml-1m", files("ratings.dat", "1::1::1::1\n", "movies.dat", "\n1::x\n"),
			`movies.dat line 2: found "1::x", expected at least 3 columns separated by ::`,
		},
	} {
		if s, err := Open(c.fsys, c.name, Options{}); err == nil || err.Error() != c.want || s != nil {
			t.Errorf("got  %v, %v\nwant %s", s, err, c.want)
		}
	}
}

func realData(t testing.TB) fs.FS {
	dir := os.Getenv("TACIT_DATA")
	if dir == "" {
		t.Skip("set TACIT_DATA to the folder that holds ml-100k to run this")
	}
	return os.DirFS(dir)
}

func openReal(t testing.TB, name string) *Set {
	s, err := Open(realData(t), name, Options{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPublishedFilesHaveThePublishedSizes(t *testing.T) {
	pairs := map[string]int{
		"ml-100k": 100000, "ml-1m": 1000209, "lastfm-2k": 70508, "lastfm-2k-artists": 92780,
		"filmtrust": 35494, "frappe": 18842,
	}
	kinds := map[string]TimeKind{"ml-100k": RealTime, "filmtrust": NoTime, "frappe": NoTime}
	for _, k := range KnownSets() {
		t.Run(k.Name, func(t *testing.T) {
			s := openReal(t, k.Name)
			checkSet(t, s)
			c := Describe(s)
			if c.Users != k.Users || c.Items != k.Items || c.Rows != k.Rows || pairs[k.Name] > 0 &&
				c.Pairs != pairs[k.Name] || c.EmptyItems != 0 {
				t.Errorf("got %d users, %d items (%d empty), %d rows, %d pairs, want %d, %d (0), %d, %d",
					c.Users, c.Items, c.EmptyItems, c.Rows, c.Pairs, k.Users, k.Items, k.Rows, pairs[k.Name])
			}
			// ml-1m also circulates with positions instead of times.
			if want, ok := kinds[k.Name]; ok && s.Meta.TimeKind != want {
				t.Errorf("times are %v, want %v", s.Meta.TimeKind, want)
			} else if !ok && s.Meta.TimeKind == NoTime {
				t.Error("there are no times")
			}
			for i, title := range s.Meta.Title {
				if !strings.HasPrefix(k.Name, "ml-") {
					break
				}
				if strings.HasPrefix(title, "item ") || !strings.HasSuffix(strings.TrimSpace(title), ")") &&
					title != "unknown" {
					t.Errorf("item %d is called %q", i, title)
				}
			}
		})
	}
}

func TestML100KStartsAsItsFileDoes(t *testing.T) {
	s := openReal(t, "ml-100k")
	if s.Meta.UserID[0] != "196" || s.Meta.ItemName(0) != "Kolya (1996)" || s.Meta.Genres[0][0] != "Comedy" {
		t.Errorf("got user %s, film %s %v", s.Meta.UserID[0], s.Meta.ItemName(0), s.Meta.Genres[0])
	}
	// user 196 is a writer of 49
	if a := s.Meta.Attrs; a[0].Values[0] != "49" || a[2].Values[0] != "writer" {
		t.Errorf("user 196 has attributes %s, %s", a[0].Values[0], a[2].Values[0])
	}
}

func TestNamesFallBackToIdentifiersAndNumbers(t *testing.T) {
	in := Info{}
	if in.ItemName(3) != "item 3" || in.UserName(4) != "4" {
		t.Errorf("got %q, %q", in.ItemName(3), in.UserName(4))
	}
	in = Info{ItemID: []string{"B01"}, UserID: []string{"anna"}}
	if in.ItemName(0) != "item B01" || in.UserName(0) != "anna" {
		t.Errorf("got %q, %q", in.ItemName(0), in.UserName(0))
	}
}
