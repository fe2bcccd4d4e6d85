// Package atomicfile writes files whole: a crash leaves the old one or the new one,
// never half of either.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write replaces a file at once, and makes its folder.
func Write(path string, b []byte) error {
	return WriteTo(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteTo is Write for what does not have to be in memory.
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
