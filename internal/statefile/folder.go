package statefile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/wire"
)

// Folder is a device.Blobs in a folder. The model is public, so it is not encrypted.
type Folder struct{ dir string }

// OpenFolder returns the store in a folder. The first Put creates the folder.
func OpenFolder(dir string) Folder { return Folder{dir} }

func (f Folder) file(hash [32]byte) string { return filepath.Join(f.dir, hex.EncodeToString(hash[:])) }

// Get returns a blob, or nil if it is missing or too large.
func (f Folder) Get(hash [32]byte) ([]byte, error) {
	info, err := os.Stat(f.file(hash))
	if err == nil && info.Size() > wire.MaxBlobBytes {
		return nil, nil
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(f.file(hash))
	}
	if errors.Is(err, fs.ErrNotExist) { // another process may remove it meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model folder: %w", err)
	}
	return b, nil
}

// Put writes a blob atomically.
func (f Folder) Put(hash [32]byte, b []byte) error {
	if err := atomicfile.Write(f.file(hash), b); err != nil {
		return fmt.Errorf("model folder: %w", err)
	}
	return nil
}

// Keep removes all other blobs. Files that are not blobs stay.
func (f Folder) Keep(hashes [][32]byte) error {
	keep := map[string]bool{}
	for _, h := range hashes {
		keep[hex.EncodeToString(h[:])] = true
	}
	files, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("model folder: %w", err)
	}
	for _, file := range files {
		name := file.Name()
		if b, err := hex.DecodeString(name); err != nil || len(b) != 32 || keep[name] {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("model folder: %w", err)
		}
	}
	if len(keep) == 0 {
		_ = os.Remove(f.dir) // fails if other files are in it
	}
	return nil
}
