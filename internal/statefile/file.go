// Package statefile is what a device has on an ordinary computer: a state file, sealed by a
// passphrase or by a key in the system's keyring, a folder for the model, and a look at
// power, network and load. It is the only part of a device that opens files.
package statefile

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tacit-rec/tacit/device"
)

// Options say how a new state file is sealed. A file that is there says it itself.
type Options struct {
	// Passphrase is asked for once. For a new file it may return nothing, which means no
	// passphrase. Nil means none.
	Passphrase func(isNew bool) ([]byte, error)
	// Keyring seals a new file with a key that is kept in the system's keyring.
	Keyring bool

	kib uint32 // that a passphrase costs, for tests; 0 for what is safe
}

// File is an agent.Vault in one file.
type File struct {
	path       string
	opt        Options
	encryption *encryption // nil until it is known
}

var _ device.Store = (*File)(nil)

// The errors that a program answers with more than a message.
var (
	ErrPassphrase = errors.New("local: the passphrase is wrong")
	ErrCorrupt    = errors.New("local: the state file is damaged")
	ErrInUse      = errors.New("local: another process uses this state file")
)

// maxFileBytes bounds what is read: a record cannot be larger.
const maxFileBytes = 4 << 30

// Open prepares a state file. Nothing is written before the first Save.
func Open(path string, opt Options) *File { return &File{path: path, opt: opt} }

// Exists reports whether there is a state file.
func (f *File) Exists() bool {
	_, err := os.Stat(f.path)
	return err == nil
}

// Protection says in words how the file is kept from other eyes.
func (f *File) Protection() string {
	if f.encryption == nil {
		return "nothing is saved yet"
	}
	switch f.encryption.kind {
	case byPassphrase:
		return "encrypted with a passphrase"
	case byKeyring:
		return "encrypted with a key in the system's keyring"
	}
	return "NOT encrypted: only the file's mode, 0600, keeps other users of this computer out"
}

// Load reads the record.
func (f *File) Load() ([]byte, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if info.Size() > maxFileBytes || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file, or of %d bytes", ErrCorrupt, f.path, info.Size())
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	s, body, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, f.path)
	}
	if f.encryption == nil || !bytes.Equal(f.encryption.header, s.header) {
		if err := f.readKey(s); err != nil {
			return nil, err
		}
		f.encryption = s
	}
	return f.encryption.decrypt(body)
}

// readKey finds the key of a seal.
func (f *File) readKey(s *encryption) error {
	switch s.kind {
	case byPassphrase:
		if f.opt.Passphrase == nil {
			return fmt.Errorf("local: %s is encrypted with a passphrase, and none was given", f.path)
		}
		phrase, err := f.opt.Passphrase(false)
		if err != nil {
			return err
		}
		return s.derive(phrase)
	case byKeyring:
		return s.fromKeyring()
	}
	return nil
}

// Save replaces the file at once, and returns when that is on disk.
func (f *File) Save(b []byte) error {
	if f.encryption == nil {
		if err := f.newEncryption(); err != nil {
			return err
		}
	}
	out, err := f.encryption.encrypt(b)
	if err != nil {
		return err
	}
	if err := replace(f.path, out); err != nil {
		return fmt.Errorf("local: the state file: %w", err)
	}
	return nil
}

// newEncryption makes the seal of a new file.
func (f *File) newEncryption() (err error) {
	if f.opt.Keyring {
		f.encryption, err = newKeyringEncryption()
		return err
	}
	var phrase []byte
	if f.opt.Passphrase != nil {
		if phrase, err = f.opt.Passphrase(true); err != nil {
			return err
		}
	}
	if len(phrase) == 0 {
		f.encryption = &encryption{kind: plain, header: append([]byte(magic), fileVersion, plain)}
		return nil
	}
	f.encryption, err = newPassphraseEncryption(phrase, cmp.Or(f.opt.kib, kib))
	return err
}

// replace writes a file that only its owner may read: after a crash there is the old
// one or the new one, whole.
func replace(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.Close()
			os.Remove(t.Name())
		}
	}()
	if _, err := t.Write(b); err != nil {
		return err
	}
	if err := errors.Join(t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes a rename last. Windows has no such call.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock keeps others from saving, for as long as a save takes.
func (f *File) Lock() (func(), error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return lock(f.path+".lock", true)
}

// Acquire makes this process the one that runs the device, until release is called.
func (f *File) Acquire() (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return lock(f.path+".run", false)
}

// Wipe removes the file and the key that it was sealed with.
func (f *File) Wipe() error {
	var gone error
	if b, err := os.ReadFile(f.path); err == nil {
		if s, _, err := parse(b); err == nil && s.kind == byKeyring {
			gone = s.deleteKey()
		}
	}
	for _, name := range []string{f.path, f.path + ".lock", f.path + ".run"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			gone = errors.Join(gone, err)
		}
	}
	f.encryption = nil
	return errors.Join(gone, syncFolder(filepath.Dir(f.path)))
}

func random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("local: no random bytes: %w", err)
	}
	return b, nil
}

func digest(parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
