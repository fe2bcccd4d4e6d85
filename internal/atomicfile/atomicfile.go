// Package atomicfile replaces files atomically: a crash leaves the old content or the new one,
// never a mixture. Its one convention: the new content is synced before it replaces the old one.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Write replaces a file atomically, and creates its folder if necessary. Everyone may read the file.
func Write(path string, b []byte) error { return WriteTo(path, writeAll(b)) }

// WriteTo is Write for content that is produced in pieces.
func WriteTo(path string, write func(io.Writer) error) error {
	return replace(path, 0o644, 0o755, write)
}

// WriteSecret is Write for a file that only its owner may read, from the first byte on. It creates a folder that
// only its owner may enter.
func WriteSecret(path string, b []byte) error { return replace(path, secretMode, 0o700, writeAll(b)) }

// secretMode is the mode with which os.CreateTemp creates files.
const secretMode = 0o600

func writeAll(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// replace writes a temporary file, which has its mode before it has its name.
func replace(path string, mode, folder fs.FileMode, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
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
	if mode != secretMode {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// SyncDir waits until the names of the files in a folder are on disk. It does nothing on systems that cannot sync
// a folder: Windows, and some file systems.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
