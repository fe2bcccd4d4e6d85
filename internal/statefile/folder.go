package statefile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/wire"
)

// Folder keeps a model: what every device of the federation has, and so not sealed.
type Folder struct{ dir string }

var _ device.Blobs = Folder{}

// OpenFolder is a store in a folder, which is made when it is needed.
func OpenFolder(dir string) Folder { return Folder{dir} }

func (f Folder) file(hash [32]byte) string { return filepath.Join(f.dir, hex.EncodeToString(hash[:])) }

func (f Folder) Get(hash [32]byte) ([]byte, error) {
	info, err := os.Stat(f.file(hash))
	if err == nil && info.Size() > wire.MaxBlobBytes {
		return nil, nil
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(f.file(hash))
	}
	if errors.Is(err, fs.ErrNotExist) { // it may go while we look, too
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("local: the model: %w", err)
	}
	return b, nil
}

func (f Folder) Put(hash [32]byte, b []byte) error {
	if err := atomicfile.Write(f.file(hash), b); err != nil {
		return fmt.Errorf("local: the model: %w", err)
	}
	return nil
}

// Keep removes the other blobs, and nothing that is none.
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
		return fmt.Errorf("local: the model: %w", err)
	}
	for _, file := range files {
		name := file.Name()
		if b, err := hex.DecodeString(name); err != nil || len(b) != 32 || keep[name] {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("local: the model: %w", err)
		}
	}
	if len(keep) == 0 {
		_ = os.Remove(f.dir) // it stays where something else is in it
	}
	return nil
}
