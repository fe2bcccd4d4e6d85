package data

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Known is a public data set that Open can read by name.
type Known struct {
	Name  string
	About string
	Home  string   // the owner's page
	Files []string // the first is needed; the others add titles, genres and attributes

	Users, Items, Rows int // of the published files

	opt  Options
	more func(dir *folder, s *Set) error // reads the other files; nil if there are none
}

// KnownSets returns the sets that Open knows. The slice is the caller's.
func KnownSets() []Known {
	return []Known{
		{
			Name: "ml-100k", About: "film ratings, 1997-1998 (MovieLens 100K)",
			Home:  "https://grouplens.org/datasets/movielens/100k/",
			Files: []string{"u.data", "u.item", "u.genre", "u.user"},
			Users: 943, Items: 1682, Rows: 100000,
			opt:  Options{Sep: "tab", Header: "no", Columns: "user,item,rating,time"},
			more: ml100k,
		},
		{
			Name: "ml-1m", About: "film ratings, 2000-2003 (MovieLens 1M)",
			Home:  "https://grouplens.org/datasets/movielens/1m/",
			Files: []string{"ratings.dat", "movies.dat", "users.dat"},
			Users: 6040, Items: 3706, Rows: 1000209,
			opt:  Options{Sep: "::", Header: "no", Columns: "user,item,rating,time"},
			more: ml1m,
		},
		{
			Name: "filmtrust", About: "film ratings without times (FilmTrust)",
			Home:  "https://www.librec.net/datasets.html",
			Files: []string{"ratings.txt"},
			Users: 1508, Items: 2071, Rows: 35497,
			opt: Options{Sep: "space", Header: "no", Columns: "user,item,rating"},
		},
		{
			Name: "frappe", About: "app usage counts by context, without times (Frappe)",
			Home:  "https://www.baltrunas.info/context-aware",
			Files: []string{"frappe.csv"},
			Users: 957, Items: 4082, Rows: 96203,
			opt: Options{Sep: "tab", Header: "yes", Columns: "user=user,item=item,rating=cnt"},
		},
	}
}

// Missing says that a set's file is not where Open looked. It is an
// fs.ErrNotExist.
type Missing struct {
	Set  string
	File string // where the file should be, from the data folder
	Hint string
}

func (e *Missing) Error() string {
	return fmt.Sprintf("data: %s: no file %s in the data folder; %s", e.Set, e.File, e.Hint)
}

func (e *Missing) Unwrap() error { return fs.ErrNotExist }

// Open reads a known set from its folder in fsys, or from the root of fsys if
// it has no such folder. Files may be gzip, with ".gz" added to the name or not.
// The format is the set's own where opt does not say otherwise; a header of
// "auto" does not.
func Open(fsys fs.FS, name string, opt Options) (*Set, error) {
	k, err := find(name)
	if err != nil {
		return nil, err
	}
	if opt.Sep == "" {
		opt.Sep = k.opt.Sep
	}
	if opt.Header == "" || opt.Header == "auto" {
		opt.Header = k.opt.Header
	}
	if opt.Columns == "" {
		opt.Columns = k.opt.Columns
	}
	for _, dir := range []string{k.Name, "."} {
		d := &folder{fsys, dir}
		f, file, err := d.open(k.Files[0])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		s, err := Delimited(f, file, opt)
		if err != nil {
			return nil, err
		}
		s.Meta.Name = k.Name
		if k.more != nil {
			if err := k.more(d, s); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
	return nil, &Missing{
		Set: k.Name, File: path.Join(k.Name, k.Files[0]),
		Hint: fmt.Sprintf("place the files of %s in <data folder>/%s, or use -d world", k.Home, k.Name),
	}
}

func find(name string) (Known, error) {
	var names []string
	for _, k := range KnownSets() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Known{}, &BadInput{File: "data folder", Found: name, Want: oneOf("data set", names), Hint: nearest(name, names)}
}

// folder is where the files of one set are.
type folder struct {
	fsys fs.FS
	dir  string
}

func (d *folder) open(name string) (f fs.File, file string, err error) {
	for _, ext := range []string{"", ".gz"} {
		file = path.Join(d.dir, name+ext)
		if f, err = d.fsys.Open(file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("data: %w", err)
	}
	return f, file, nil
}

// each calls do with the fields of every line of a file that is there.
func (d *folder) each(name string, s sep, width int, do func(f [][]byte)) error {
	f, file, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := newLines(f, file)
	if err != nil {
		return err
	}
	return in.each(s, width, do)
}

// places maps identifiers to their numbers.
func places(ids []string) map[string]int {
	m := make(map[string]int, len(ids))
	for i, id := range ids {
		m[id] = i
	}
	return m
}

// titles readies Title and Genres: an item that no catalogue names is "item 17".
func (s *Set) titles() {
	s.Meta.Title = make([]string, s.NItem)
	s.Meta.Genres = make([][]string, s.NItem)
	for i, id := range s.Meta.ItemID {
		s.Meta.Title[i] = "item " + id
	}
}

// attrs reads user attributes: the identifier comes first in a line, then one
// column for each name.
func (s *Set) attrs(d *folder, file string, by sep, names ...string) error {
	at := places(s.Meta.UserID)
	var attrs []Attr
	for _, n := range names {
		attrs = append(attrs, Attr{Name: n, Values: make([]string, s.Users())})
	}
	found := false
	err := d.each(file, by, 1+len(names), func(f [][]byte) {
		if u, ok := at[text(f[0])]; ok {
			found = true
			for i := range attrs {
				attrs[i].Values[u] = text(f[i+1])
			}
		}
	})
	if err == nil && found {
		s.Meta.Attrs = attrs
	}
	return err
}

// ml100k reads u.genre (name|number), u.item (id|title|date||url|19 flags) and
// u.user.
func ml100k(d *folder, s *Set) error {
	var genres []string
	if err := d.each("u.genre", "|", 2, func(f [][]byte) { genres = append(genres, text(f[0])) }); err != nil {
		return err
	}
	at := places(s.Meta.ItemID)
	s.titles()
	err := d.each("u.item", "|", 5+len(genres), func(f [][]byte) {
		i, ok := at[text(f[0])]
		if !ok {
			return
		}
		s.Meta.Title[i] = text(f[1])
		for g, flag := range f[5:] {
			if string(flag) == "1" {
				s.Meta.Genres[i] = append(s.Meta.Genres[i], genres[g])
			}
		}
	})
	if err != nil {
		return err
	}
	return s.attrs(d, "u.user", "|", "age", "gender", "occupation", "zip")
}

// ml1m reads movies.dat (id::title::genre|genre) and users.dat.
func ml1m(d *folder, s *Set) error {
	at := places(s.Meta.ItemID)
	s.titles()
	err := d.each("movies.dat", "::", 3, func(f [][]byte) {
		if i, ok := at[text(f[0])]; ok {
			s.Meta.Title[i] = text(f[1])
			s.Meta.Genres[i] = strings.Split(text(f[2]), "|")
		}
	})
	if err != nil {
		return err
	}
	return s.attrs(d, "users.dat", "::", "gender", "age", "occupation", "zip")
}
