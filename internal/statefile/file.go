// Package statefile keeps the files of a device on an ordinary computer: the state file, encrypted
// with a passphrase or with a key in the system's keyring, and the folder of the model. It also reads
// the conditions (power, network, load) under which a device takes part. It never interprets the
// record that it stores, and replaces files atomically.
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

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// Options say how to encrypt a new state file. The header of an existing file says how it is encrypted.
type Options struct {
	// Passphrase returns the passphrase and is called at most once. An empty passphrase for a new
	// file means no encryption. Nil means no passphrase.
	Passphrase func(isNew bool) ([]byte, error)
	// Keyring encrypts a new file with a key in the system's keyring.
	Keyring bool

	kib uint32 // memory cost of a passphrase, set by tests; 0 means the safe default
}

// File is a device.Store in one file.
type File struct {
	path       string
	opt        Options
	encryption *encryption // nil until the file is read or written
}

// Errors that a program may handle.
var (
	ErrPassphrase = errors.New("the passphrase is wrong")
	ErrCorrupt    = errors.New("the state file is corrupt")
	ErrInUse      = errors.New("another process uses this state file")
)

// maxFileBytes is the largest possible state file.
const maxFileBytes = 4 << 30

// Open returns the state file at a path. The first Save creates it.
func Open(path string, opt Options) *File { return &File{path: path, opt: opt} }

// Exists reports whether the state file exists.
func (f *File) Exists() bool {
	_, err := os.Stat(f.path)
	return err == nil
}

// Protection describes how the file is encrypted.
func (f *File) Protection() string {
	if f.encryption == nil {
		return "not saved yet"
	}
	switch f.encryption.kind {
	case byPassphrase:
		return "encrypted with a passphrase"
	case byKeyring:
		return "encrypted with a key in the system's keyring"
	}
	return "NOT encrypted: only the file mode (0600) protects it from other users of this computer"
}

// Load reads and decrypts the record. It returns nil if the file does not exist.
func (f *File) Load() ([]byte, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	if info.Size() > maxFileBytes || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file, or larger than %d bytes", ErrCorrupt, f.path,
			int64(maxFileBytes))
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
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

// readKey sets the key of an encrypted file.
func (f *File) readKey(s *encryption) error {
	switch s.kind {
	case byPassphrase:
		if f.opt.Passphrase == nil {
			return fmt.Errorf("%s is encrypted with a passphrase, but none was given", f.path)
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

// Save encrypts the record, replaces the file atomically and returns when it is on disk.
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
		return fmt.Errorf("cannot save the state file: %w", err)
	}
	return nil
}

// newEncryption chooses the encryption of a new file.
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

// replace writes a file with mode 0600 atomically: after a crash either the old or the new one is
// complete.
func replace(path string, b []byte) error {
	if err := atomicfile.WriteSecret(path, b); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// Lock keeps other processes from saving until unlock is called.
func (f *File) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	return lock(f.path+".lock", true)
}

// Acquire makes this process the only one that runs the device until release is called. It returns
// ErrInUse if another process runs it.
func (f *File) Acquire() (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	return lock(f.path+".run", false)
}

// Wipe removes the file and its key in the keyring.
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
	return errors.Join(gone, atomicfile.SyncDir(filepath.Dir(f.path)))
}

func random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("cannot read random bytes: %w", err)
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
