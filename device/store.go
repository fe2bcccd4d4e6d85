package device

import "github.com/tacit-rec/tacit/internal/statefile"

// Store keeps the private record of one device.
type Store interface {
	// Load returns the bytes of the last Save, or nil if nothing was saved.
	Load() ([]byte, error)
	// Save replaces the record atomically: after a crash either the old or the new one is complete.
	Save(b []byte) error
	// Lock keeps other processes from saving until unlock is called.
	Lock() (unlock func(), err error)
	// Wipe removes the record and the key that encrypts it.
	Wipe() error
}

// Blobs keeps the public parts of a model, such as the catalogue, by their SHA-256. Several devices
// may use it at the same time.
type Blobs interface {
	// Get returns nil if the blob is missing. The caller must not change the bytes and checks
	// them against the hash.
	Get(hash [32]byte) ([]byte, error)
	Put(hash [32]byte, b []byte) error
	// Keep removes all blobs except the given ones.
	Keep(hashes [][32]byte) error
}

var (
	_ Store = (*statefile.File)(nil)
	_ Blobs = statefile.Folder{}
)

// Errors of state files that OpenFile and the methods of a Device wrap.
var (
	ErrPassphrase   = statefile.ErrPassphrase
	ErrStateCorrupt = statefile.ErrCorrupt
)

// OpenFile opens the device whose private record is in a state file, or creates both. The model is
// kept unencrypted in the folder path + ".model": every device of the federation has the same one.
// OpenFile sets Store and Blobs of the options.
func OpenFile(path string, opt Options) (*Device, error) {
	opt.Store = statefile.Open(path, statefile.Options{Passphrase: opt.Passphrase, Keyring: opt.Keyring})
	opt.Blobs = statefile.OpenFolder(path + ".model")
	return Open(opt)
}

// memoryStore is a Store that lasts as long as the process.
type memoryStore struct{ b []byte }

func (m *memoryStore) Load() ([]byte, error) { return m.b, nil }
func (m *memoryStore) Save(b []byte) error   { m.b = b; return nil }
func (m *memoryStore) Lock() (func(), error) { return func() {}, nil }
func (m *memoryStore) Wipe() error           { m.b = nil; return nil }
