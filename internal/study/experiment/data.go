package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/parquet"
	"github.com/tacit-rec/tacit/param"
)

// DataDirs lists the folders that data sets are looked up in: the given one, or $TACIT_DATA and the
// user's cache folder.
func DataDirs(given string) []string {
	var dirs []string
	if given != "" {
		return []string{given}
	}
	if d := os.Getenv("TACIT_DATA"); d != "" {
		dirs = append(dirs, d)
	}
	if d, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(d, "tacit", "data"))
	}
	return dirs
}

// worldInMemory is the number of rows up to which a synthetic world is held in memory.
const worldInMemory = 4_000_000

// ReadData parses a text of interactions that did not come from a file.
func ReadData(s *Settings, text []byte, name string) (data.Source, error) {
	opt, err := s.dataOptions()
	if err != nil {
		return nil, err
	}
	if s.TestFile != "" {
		return nil, AsInput(errors.New("--test-file requires a train file, and the data is a text"),
			"pass the train file with -d FILE")
	}
	in, err := inputOf(bytes.NewReader(text), int64(len(text)), name)
	if err != nil {
		return nil, err
	}
	set, err := in.Read(opt)
	if err != nil {
		return nil, AsInput(err, "")
	}
	return s.withCut(set)
}

// inputOf detects Parquet files by their first bytes.
func inputOf(f interface {
	io.Reader
	io.ReaderAt
}, size int64, name string,
) (data.Input, error) {
	in := data.Input{Name: name, Text: f}
	magic := make([]byte, len(parquet.Magic))
	if n, _ := f.ReadAt(magic, 0); n < len(magic) || string(magic) != parquet.Magic {
		return in, nil
	}
	table, err := parquet.Open(f, size)
	if err != nil {
		return in, AsInput(fmt.Errorf("%s: %w", name, err), "")
	}
	in.Table = table
	return in, nil
}

// dataOptions are the settings that say how to read a data set.
func (s *Settings) dataOptions() (data.Options, error) {
	opt := data.Options{
		Sep: s.Sep, Header: s.Header, Columns: s.Columns, TimeFormat: s.TimeFormat, Dedup: s.Dedup,
		MinRows: s.MinRows, KCore: s.KCore,
	}
	if s.Threshold != "" {
		x, err := strconv.ParseFloat(s.Threshold, 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return opt, AsInput(fmt.Errorf("threshold = %q: must be a finite number", s.Threshold), "")
		}
		opt.Threshold, opt.HasThreshold = float32(x), true
	}
	return opt, nil
}

// OpenData opens the data that the settings name: the synthetic world, a known data set, a file, or the files of a
// split.
func OpenData(s *Settings, dir string) (data.Source, error) {
	src, err := openData(s, dir)
	if err != nil {
		return nil, err
	}
	return s.withCut(src)
}

func openData(s *Settings, dir string) (data.Source, error) {
	opt, err := s.dataOptions()
	if err != nil {
		return nil, err
	}
	if s.Data == "world" {
		if s.TestFile != "" || s.KCore > 0 {
			return nil, AsInput(errors.New("--test-file and --k-core require a file, and the data is world"),
				"pass the train file with -d FILE, or omit them")
		}
		cfg, err := data.ParseWorld(s.World)
		if err != nil {
			return nil, AsInput(err, "example: --world users=1000,items=500,mean-rows=40")
		}
		w, err := data.NewWorld(cfg)
		if err != nil {
			return nil, AsInput(err, "")
		}
		if cfg.Users*cfg.MeanRows <= worldInMemory {
			return w.Generate(), nil
		}
		return w, nil
	}
	if s.World != "" {
		return nil, AsInput(fmt.Errorf("--world requires -d world, and the data is %s", s.Data), "use -d world")
	}
	for _, k := range data.KnownSets() {
		if k.Name == s.Data && s.TestFile != "" {
			return nil, AsInput(fmt.Errorf("--test-file requires a train file, and %s is a known data set", s.Data),
				"pass the train file with -d FILE")
		}
		if k.Name == s.Data {
			return openKnown(s.Data, dir, opt)
		}
	}
	set, err := openFiles(s, opt)
	if err != nil {
		return nil, err
	}
	for _, name := range []*string{&s.Data, &s.ValidFile, &s.TestFile} {
		if *name == "" {
			continue
		}
		if full, err := filepath.Abs(*name); err == nil {
			*name = full // written settings must work from any folder
		}
	}
	return set, nil
}

// openKnown opens a known data set in the first folder that has it.
func openKnown(name, dir string, opt data.Options) (data.Source, error) {
	dirs := DataDirs(dir)
	var first error
	for _, d := range dirs {
		set, err := data.Open(os.DirFS(d), name, opt)
		if err == nil {
			return set, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, AsInput(err, "")
		}
		if first == nil {
			first = err
		}
	}
	return nil, AsInput(fmt.Errorf("%w (looked in: %s)", first, strings.Join(dirs, ", ")), "")
}

// openFiles reads the file of the settings, or the files of a split.
func openFiles(s *Settings, opt data.Options) (data.Source, error) {
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	var in [3]data.Input
	for i, path := range []string{s.Data, s.ValidFile, s.TestFile} {
		if path == "" {
			continue
		}
		f, err := openFile(path, i == 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if in[i], err = inputOf(f, st.Size(), filepath.Base(path)); err != nil {
			return nil, err
		}
	}
	var set *data.Set
	var err error
	if s.TestFile == "" {
		set, err = in[0].Read(opt)
	} else {
		set, err = data.ReadFiles(data.Files{Train: in[0], Valid: in[1], Test: in[2]}, opt)
	}
	if err != nil {
		return nil, AsInput(err, "")
	}
	return set, nil
}

// openFile opens a file of interactions. The name may be a misspelt data set if named is set.
func openFile(path string, named bool) (*os.File, error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return nil, AsInput(fmt.Errorf("%s is a folder: must be a file", path), "choose a file, or use --data-dir "+
			path+" with -d NAME")
	case err == nil && !st.Mode().IsRegular():
		return nil, AsInput(fmt.Errorf("%s is not a regular file", path), "")
	}
	f, err := os.Open(path)
	if err == nil {
		return f, nil
	}
	if !named || !errors.Is(err, fs.ErrNotExist) {
		return nil, AsInput(err, "")
	}
	var names []string
	for _, k := range data.KnownSets() {
		names = append(names, k.Name)
	}
	hint := "tacit data list shows the names; the path of a file is allowed too"
	if near := param.Nearest(path, append(names, "world")); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return nil, AsInput(fmt.Errorf("unknown data set or file %q", path), hint)
}
