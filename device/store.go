package device

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

// memoryStore is a Store that lasts as long as the process.
type memoryStore struct{ b []byte }

func (m *memoryStore) Load() ([]byte, error) { return m.b, nil }
func (m *memoryStore) Save(b []byte) error   { m.b = b; return nil }
func (m *memoryStore) Lock() (func(), error) { return func() {}, nil }
func (m *memoryStore) Wipe() error           { m.b = nil; return nil }
