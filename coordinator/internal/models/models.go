// Package models keeps the versions of a run's model: it saves them with everything that training
// needs to resume, signs their manifests, offers patches between them, serves their public
// parts to devices and exports them. It never changes a model; the round engine does that. Its one
// convention: a version is on disk, and the file that says how far the coordinator has published
// names it, before anybody can see it.
package models

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// Version is a model and all that is needed to resume training from it. Every large part is a
// blob, named by the hexadecimal form of its hash.
type Version struct {
	Version uint64 `json:"version"`
	Run     string `json:"run"`
	// RunNumber is that of the run in the federation, from 1.
	RunNumber int    `json:"run_number"`
	Round     int    `json:"round"` // rounds of the run that it was trained for
	Items     int    `json:"items"`
	Manifest  []byte `json:"manifest"` // pb.SignedManifest

	Values  []string `json:"values"`            // by slot: its values; empty if the coordinator keeps none
	Public  []string `json:"shown"`             // those of Values that devices read
	Patches []string `json:"changes,omitempty"` // patches from older versions of public blobs
	// DiffSafe says that the rows that differ from the version before reveal nothing of a cohort.
	DiffSafe bool `json:"clear,omitempty"`

	Rules        []ruleState `json:"rule"` // by slot
	Clip         float64     `json:"clip,omitempty"`
	Catalogue    string      `json:"catalogue"`
	Features     string      `json:"features,omitempty"`
	Plan         string      `json:"plan"`
	Participants string      `json:"came,omitempty"` // devices that contributed in this epoch of check-in rounds
	TreeNoise    []byte      `json:"tree_noise,omitempty"`

	Counted     int     `json:"counted"` // devices in the last round's sum
	Cohort      int     `json:"asked"`   // devices of its cohort
	Idle        int     `json:"idle"`    // devices in the sum without training data
	Discarded   bool    `json:"kept,omitempty"`
	Seconds     float64 `json:"seconds"`
	CreatedMs   int64   `json:"at_ms"`
	LedgerLines int     `json:"paid,omitempty"`
}

// ruleState is what a server rule remembers of a slot.
type ruleState struct {
	M     string `json:"m,omitempty"`
	V     string `json:"v,omitempty"`
	Steps int    `json:"steps,omitempty"`
}

// VersionsOnDisk is the number of versions that stay on disk.
const VersionsOnDisk = 10

const keyPrefix = "version."

// VersionOfKey is the version that a key of the store belongs to.
func VersionOfKey(key string) (version uint64, ok bool) {
	text, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return 0, false
	}
	version, err := strconv.ParseUint(text, 10, 64)
	return version, err == nil
}

func key(number uint64) string { return fmt.Sprintf(keyPrefix+"%016d", number) }

// Models is the versions of one run. Its methods may be called from many goroutines; only one at a
// time may save.
type Models struct {
	store      *store.Store
	dir        string
	federation []byte
	signer     ed25519.PrivateKey
	fault      func(point string) error // tests let a step fail here

	mu     sync.Mutex
	run    []byte
	kept   []string // blobs that the run needs whatever its versions are
	last   uint64   // number of the last version that was published
	newest *Version
	signed *pb.SignedManifest
	cache  cache
}

// Options are what New needs.
type Options struct {
	Store      *store.Store
	Dir        string // of the store
	Federation []byte
	Signer     ed25519.PrivateKey
	Fault      func(point string) error // may be nil
}

// New returns the versions of a folder. Begin must follow before one is saved.
func New(o Options) *Models {
	m := &Models{store: o.Store, dir: o.Dir, federation: o.Federation, signer: o.Signer, fault: o.Fault}
	if m.fault == nil {
		m.fault = func(string) error { return nil }
	}
	return m
}

// Begin sets the run that the versions belong to.
func (m *Models) Begin(run []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = run
}

// Keep sets the blobs that are not deleted even if no version names them.
func (m *Models) Keep(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = names
}

// Newest is the newest version; nil before the first. It must not be changed.
func (m *Models) Newest() *Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest
}

// Round is the number of rounds that the newest version was trained for.
func (m *Models) Round() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil {
		return 0
	}
	return m.newest.Round
}

// Last is the number of the newest version, and Signed its manifest.
func (m *Models) Last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Signed is the manifest of the newest version; nil before the first.
func (m *Models) Signed() *pb.SignedManifest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.signed
}

// Skip makes numbers up to last used, so that the next version has a higher one.
func (m *Models) Skip(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = max(m.last, last)
}

// Resume makes a version that is on disk the newest.
func (m *Models) Resume(v *Version) error {
	signed := &pb.SignedManifest{}
	if err := proto.Unmarshal(v.Manifest, signed); err != nil {
		return fmt.Errorf("version %d: the manifest is corrupt: %w", v.Version, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.newest, m.signed = v.Version, v, signed
	return nil
}

// List reads all versions that are on disk, the oldest first.
func (m *Models) List() ([]*Version, error) {
	var out []*Version
	keys := m.store.Keys(keyPrefix)
	slices.Sort(keys)
	for _, k := range keys {
		b, err := m.store.Get(k)
		if errors.Is(err, store.ErrNotFound) {
			continue // deleted since Keys returned
		}
		if err != nil {
			return nil, err
		}
		v := &Version{}
		if err := json.Unmarshal(b, v); err != nil {
			return nil, fmt.Errorf("%s is corrupt: %w", k, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Find reads one version; nil if it is not on disk.
func (m *Models) Find(number uint64) (*Version, error) {
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Version == number {
			return v, nil
		}
	}
	return nil, nil
}

// Manifests are those of all versions, the oldest first.
func (m *Models) Manifests() ([]*pb.SignedManifest, error) {
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	var out []*pb.SignedManifest
	for _, v := range all {
		s := &pb.SignedManifest{}
		if err := proto.Unmarshal(v.Manifest, s); err != nil {
			return nil, fmt.Errorf("version %d: the manifest is corrupt: %w", v.Version, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// Complete deletes the versions that lost a part in a repair, and returns the others.
func (m *Models) Complete() (out []*Version, err error) {
	all, err := m.List()
	if err != nil {
		return nil, err
	}
	present := map[string]bool{"": true}
	for h := range m.store.Blobs() {
		present[hex.EncodeToString(h[:])] = true
	}
	for _, v := range all {
		if slices.ContainsFunc(v.parts(), func(name string) bool { return !present[name] }) {
			if err := m.store.Delete(key(v.Version)); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, v)
	}
	return out, nil
}

// Check reads every part of a version and reports why training cannot resume from it: a part is missing
// or corrupt, or a number is not finite.
func (m *Models) Check(v *Version) error {
	numbers := len(v.numbers())
	for i, name := range v.parts() {
		if name == "" {
			continue
		}
		b, err := m.Read(name)
		if err == nil && i < numbers {
			err = wire.CheckFinite(b)
		}
		if err != nil {
			return fmt.Errorf("version %d: %w", v.Version, err)
		}
	}
	return nil
}

// parts names the blobs that training needs to resume.
func (v *Version) parts() []string {
	return append(v.numbers(), v.Plan, v.Catalogue, v.Features, v.Participants)
}

// numbers names the blobs that are rows of numbers; some names are empty.
func (v *Version) numbers() []string {
	out := slices.Clone(v.Values)
	for _, r := range v.Rules {
		out = append(out, r.M, r.V)
	}
	return out
}

// prune deletes old versions, and the blobs that no version needs.
func (m *Models) prune() error {
	all, err := m.List()
	if err != nil {
		return err
	}
	old := max(0, len(all)-VersionsOnDisk)
	for _, v := range all[:old] {
		if err := m.store.Delete(key(v.Version)); err != nil {
			return err
		}
	}
	used := map[string]bool{}
	m.mu.Lock()
	for _, name := range m.kept {
		used[name] = true
	}
	m.mu.Unlock()
	for _, v := range all[old:] {
		for _, name := range append(v.parts(), v.Patches...) {
			used[name] = true
		}
	}
	for h := range m.store.Blobs() {
		if used[hex.EncodeToString(h[:])] {
			continue
		}
		if err := m.store.DropBlob(h); err != nil {
			return err
		}
	}
	return nil
}

// Put stores a message as a blob, and names it.
func (m *Models) Put(p proto.Message) (name string, b []byte, err error) {
	if b, err = wire.Marshal(p); err != nil {
		return "", nil, err
	}
	name, err = m.put(b)
	return name, b, err
}

func (m *Models) put(b []byte) (name string, err error) {
	h, err := m.store.PutBlob(b)
	return hex.EncodeToString(h[:]), err
}

// Read reads a blob by its name.
func (m *Models) Read(name string) ([]byte, error) { return m.store.Blob(hash(name)) }

func hash(name string) (h store.Hash) {
	hex.Decode(h[:], []byte(name)) // an invalid name finds nothing
	return h
}
