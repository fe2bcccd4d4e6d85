package data

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// KnownSet is a public data set that Open reads by name.
type KnownSet struct {
	Name    string
	About   string
	Home    string // the owner's page
	Licence string // a summary of the owner's terms; Home has the full text
	Archive Archive
	Folder  string // subfolder of the data folder; sets with the same files share it
	MinRows int    // users with fewer rows are dropped, as in the counts below; 0 keeps all

	Users, Items, Rows int // of the published files, after all filters

	variants  []variant
	extra     []string                        // files that add titles, genres and attributes
	readExtra func(dir *folder, s *Set) error // reads the extra files; nil without extra files
}

// Archive is a zip file that the owner offers for download. It is the zero value if the owner requires people to
// download the files themselves.
type Archive struct {
	URL    string
	Size   int64  // in bytes; 0 if unknown
	SHA256 string // in hexadecimal; empty if unknown
}

// variant is one layout in which a set is published: its rows are in all of the files, in this order.
type variant struct {
	files []string
	how   reading
}

// Files lists every file that Open may read, in any layout.
func (k KnownSet) Files() []string {
	var out []string
	for _, f := range k.variants {
		out = append(out, f.files...)
	}
	return append(out, k.extra...)
}

// Needs describes the required files.
func (k KnownSet) Needs() string {
	var out []string
	for _, f := range k.variants {
		last := len(f.files) - 1
		words := f.files[last]
		if last > 0 {
			words = strings.Join(f.files[:last], ", ") + " and " + words
		}
		out = append(out, words)
	}
	return strings.Join(out, ", or ")
}

// Find returns the path of the set's first file in a data folder; empty if Open would fail.
func (k KnownSet) Find(fsys fs.FS) string {
	for _, dir := range []string{k.Folder, "."} {
		for _, f := range k.variants {
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

// MissingFileError reports that a set's file is missing. It wraps fs.ErrNotExist.
type MissingFileError struct {
	Name string
	File string // the expected path in the data folder
	Hint string
}

func (e *MissingFileError) Error() string {
	return fmt.Sprintf("%s: file %s is missing in the data folder; %s", e.Name, e.File, e.Hint)
}

func (e *MissingFileError) Unwrap() error { return fs.ErrNotExist }

func (k KnownSet) missing(file string) error {
	hint := fmt.Sprintf("put %s from %s into <data folder>/%s, or use -d world", k.Needs(), k.Home, k.Folder)
	if k.Archive.URL != "" {
		hint = fmt.Sprintf("download it with `tacit data fetch %s`, or %s", k.Name, hint)
	}
	return &MissingFileError{Name: k.Name, File: path.Join(k.Folder, file), Hint: hint}
}

// Open reads a known set from its folder in fsys, or from the root of fsys if the folder is missing. Files may be
// gzip, with or without ".gz" in the name. opt overrides the set's own format and filters; an empty or "auto" header
// overrides nothing, and MinRows of 1 keeps every user.
func Open(fsys fs.FS, name string, opt Options) (*Set, error) {
	k, err := find(name)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{k.Folder, "."} {
		for _, f := range k.variants {
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
	return nil, k.missing(k.variants[0].files[0])
}

func (k KnownSet) read(d *folder, parts []part, how reading) (*Set, error) {
	name := k.Name
	if len(parts) == 1 {
		name = parts[0].file
	}
	s, err := load(name, parts, how, maxRows)
	if err != nil {
		return nil, err
	}
	s.Meta.Name = k.Name
	if k.readExtra != nil {
		if err := k.readExtra(d, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// with overrides a set's own options with opt.
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

func find(name string) (KnownSet, error) {
	var names []string
	for _, k := range KnownSets() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return KnownSet{}, &InputError{
		File: "data folder", Found: name, Expected: oneOf("data set", names),
		Hint: nearest(name, names),
	}
}

// folder is the folder of one set's files.
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
		return nil, "", err
	}
	return f, file, nil
}

// parts opens files up to the first that fails, and returns its error.
func (d *folder) parts(names []string) (out []part, err error) {
	for _, name := range names {
		f, file, err := d.open(name)
		if err != nil {
			return out, err
		}
		out = append(out, part{r: f, file: file})
	}
	return out, nil
}

func closeAll(parts []part) {
	for _, p := range parts {
		p.r.(fs.File).Close()
	}
}

// each calls do with the fields of every line of a file; a missing file is not an error.
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

// titles allocates Title and Genres. An item without a title is "item 17".
func (s *Set) titles() {
	s.Meta.Title = make([]string, s.NumItems)
	s.Meta.Genres = make([][]string, s.NumItems)
	for i, id := range s.Meta.ItemID {
		s.Meta.Title[i] = "item " + id
	}
}

// attrs reads user attributes: the identifier is the first column, followed by one column for each name.
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
