// Package atomicfile replaces files atomically: a crash leaves the old content or the new one,
// never a mixture. Its one convention: the new content is synced before it replaces the old one.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write replaces a file atomically, and creates its folder if necessary.
func Write(path string, b []byte) error {
	return WriteTo(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteTo is Write for content that is produced in pieces.
func WriteTo(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
