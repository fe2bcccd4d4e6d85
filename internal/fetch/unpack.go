package fetch

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unpack writes the wanted files of a zip archive to dir, by their base names, at most most bytes in total. It rejects
// archives with paths that lead elsewhere.
func unpack(ctx context.Context, r io.ReaderAt, size int64, dir string, wanted []string, most int64) error {
	z, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("not a zip archive: %w", err)
	}
	var seen []string
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, "/")
		if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
			return fmt.Errorf("the archive contains the path %q, which leads outside of it", f.Name)
		}
		base := path.Base(name)
		if name != f.Name || strings.HasPrefix(name, "__MACOSX/") || !slices.Contains(wanted, base) {
			continue
		}
		if !f.Mode().IsRegular() {
			return fmt.Errorf("%q in the archive is not a regular file", f.Name)
		}
		if slices.Contains(seen, base) {
			return fmt.Errorf("the archive contains %s twice", base)
		}
		seen = append(seen, base)
		n, err := extract(ctx, f, filepath.Join(dir, base), most)
		if err != nil {
			return fmt.Errorf("%q in the archive: %w", f.Name, err)
		}
		most -= n
	}
	return nil
}

// extract writes one file of at most most bytes, whatever size the archive declares.
func extract(ctx context.Context, f *zip.File, to string, most int64) (int64, error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(&contextReader{ctx, in}, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("exceeds the limit of %d bytes", most)
	}
	return n, errors.Join(err, out.Sync(), out.Close())
}

// place moves the files of dir to a folder and returns their paths. A new folder appears in one step. Into an
// existing folder it moves file by file; it replaces existing files only if force is set.
func place(dir, folder string, force bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(folder, e.Name()))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return out, os.Rename(dir, folder)
	}
	for i, e := range entries {
		if _, err := os.Stat(out[i]); err == nil && !force && e.Name() != sumFile {
			continue
		}
		if err := os.Rename(filepath.Join(dir, e.Name()), out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
