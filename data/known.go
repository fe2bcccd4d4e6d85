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
	Name    string
	About   string
	Home    string // the owner's page
	Licence string // the owner's terms in our words; Home has them whole
	Archive Archive
	Folder  string // of its files in the data folder; sets read from the same files share it
	MinRows int    // users with fewer rows are left out, as in the counts below; 0 keeps all

	Users, Items, Rows int // of the published files, after MinRows and what the reading leaves out

	forms []form
	also  []string                        // files that add titles, genres and attributes
	more  func(dir *folder, s *Set) error // reads them; nil if there are none
}

// Archive is a zip file that the owner offers to everybody. It is zero where
// the owner asks people, and not programs, to fetch the files.
type Archive struct {
	URL    string
	Size   int64  // 0: not known
	SHA256 string // in hexadecimal; empty: not known
}

// form is one shape that a set is published in: its rows are in all of the
// files, in this order.
type form struct {
	files []string
	how   reading
}

// Files lists every file that Open may read, those of all forms.
func (k Known) Files() []string {
	var out []string
	for _, f := range k.forms {
		out = append(out, f.files...)
	}
	return append(out, k.also...)
}

// Needs says in words which files must be there.
func (k Known) Needs() string {
	var out []string
	for _, f := range k.forms {
		last := len(f.files) - 1
		words := f.files[last]
		if last > 0 {
			words = strings.Join(f.files[:last], ", ") + " and " + words
		}
		out = append(out, words)
	}
	return strings.Join(out, ", or ")
}

// Find returns the first of the set's files in a data folder, as a path there;
// it is empty if Open would find none.
func (k Known) Find(fsys fs.FS) string {
	for _, dir := range []string{k.Folder, "."} {
		for _, f := range k.forms {
			d, first := &folder{fsys, dir}, ""
			for i, name := range f.files {
				in, file, err := d.open(name)
				if err != nil {
					first = ""
					break
				}
				in.Close()
				if i == 0 {
					first = file
				}
			}
			if first != "" {
				return first
			}
		}
	}
	return ""
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

func (k Known) missing(file string) error {
	hint := fmt.Sprintf("place %s of %s in <data folder>/%s, or use -d world", k.Needs(), k.Home, k.Folder)
	if k.Archive.URL != "" {
		hint = fmt.Sprintf("tacit data fetch %s downloads it; or %s", k.Name, hint)
	}
	return &Missing{Set: k.Name, File: path.Join(k.Folder, file), Hint: hint}
}

// Open reads a known set from its folder in fsys, or from the root of fsys if
// it has no such folder. Files may be gzip, with ".gz" added to the name or not.
// Format and filters are the set's own where opt does not say otherwise; a
// header of "auto" does not, and MinRows of 1 keeps every user.
func Open(fsys fs.FS, name string, opt Options) (*Set, error) {
	k, err := find(name)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{k.Folder, "."} {
		for _, f := range k.forms {
			d := &folder{fsys, dir}
			parts, err := d.parts(f.files)
			defer closeAll(parts)
			if errors.Is(err, fs.ErrNotExist) && len(parts) == 0 {
				continue
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil, k.missing(f.files[len(parts)])
			}
			if err != nil {
				return nil, err
			}
			return k.read(d, parts, f.how.with(opt, k.MinRows))
		}
	}
	return nil, k.missing(k.forms[0].files[0])
}

func (k Known) read(d *folder, parts []part, how reading) (*Set, error) {
	name := k.Name
	if len(parts) == 1 {
		name = parts[0].file
	}
	s, err := load(name, parts, how, maxRows)
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

// with puts the options asked for over a set's own.
func (how reading) with(opt Options, minRows int) reading {
	own := how.Options
	if opt.Sep == "" {
		opt.Sep = own.Sep
	}
	if opt.Header == "" || opt.Header == "auto" {
		opt.Header = own.Header
	}
	if opt.Columns == "" {
		opt.Columns = own.Columns
	}
	if !opt.HasThreshold {
		opt.Threshold, opt.HasThreshold = own.Threshold, own.HasThreshold
	}
	if opt.MinRows == 0 {
		opt.MinRows = minRows
	}
	how.Options = opt
	return how
}

func find(name string) (Known, error) {
	var names []string
	for _, k := range KnownSets() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Known{}, &BadInput{
		File: "data folder", Found: name, Want: oneOf("data set", names),
		Hint: nearest(name, names),
	}
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

// parts opens files, up to the first that cannot be: the error is of that one.
func (d *folder) parts(names []string) (out []part, err error) {
	for _, name := range names {
		f, file, err := d.open(name)
		if err != nil {
			return out, err
		}
		out = append(out, part{f, file})
	}
	return out, nil
}

func closeAll(parts []part) {
	for _, p := range parts {
		p.r.(fs.File).Close()
	}
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
