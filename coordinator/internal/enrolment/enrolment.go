// Package enrolment registers devices: it gives each public key a device ID, once and for all,
// checks the tokens that allow it, and remembers which devices left or were revoked and when each
// was last heard of. It never learns anything else about a device. Its one convention: a change is
// on disk, in an append-only log, before anybody sees it.
package enrolment

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/batch"
	"github.com/tacit-rec/tacit/internal/store"
)

// Reasons why an enrolment is refused.
var (
	ErrToken = errors.New("the token is unknown or expired; ask the operator for a new one")
	ErrQuota = errors.New("the token has no uses left; ask the operator for a new one")
	ErrFull  = errors.New("the federation has no device IDs left")
	ErrBusy  = errors.New("another request enrols this key; try again")
)

// Registry is the devices of one federation. Its methods may be called from many goroutines.
type Registry struct {
	store *store.Store
	queue *batch.Queue[change]

	mu        sync.RWMutex
	idOf      map[string]uint32 // by key
	keyOf     map[uint32]string // by device ID
	revoked   map[uint32]bool   // by device ID: left or revoked
	firstFree uint32            // all IDs below it are taken
	enrolled  int
	tokens    map[string]*token // by hash
	writing   map[string]string // by key whose enrolment is being written: the hash of its token
	changed   chan struct{}     // closed and replaced when a device enrols
	lastSeen  []int64           // by device ID, in Unix nanoseconds; 0 for never
}

// change is one entry of the log. A record holds several.
type change struct {
	ID      uint32 `json:"s"`
	Key     []byte `json:"k,omitempty"`
	Token   string `json:"t,omitempty"` // hash of the token that was used
	Revoked bool   `json:"gone,omitempty"`
	Made    *token `json:"made,omitempty"`
}

// token allows a number of devices to enrol before it expires.
type token struct {
	Hash    string    `json:"hash"`
	Uses    int       `json:"uses"`
	Expires time.Time `json:"ends"`
	Note    string    `json:"note,omitempty"`
	used    int
}

const logName = "seats" // the name that state folders have always had

// Open loads the registry from the store. The caller closes it before the store.
func Open(st *store.Store) (*Registry, error) {
	r := newRegistry()
	r.store = st
	err := st.Replay(logName, func(record []byte) error {
		var all []change
		if err := json.Unmarshal(record, &all); err != nil {
			return fmt.Errorf("the enrolment log is corrupt: %w", err)
		}
		for _, c := range all {
			r.apply(c)
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	r.queue = batch.New(r.commit)
	return r, nil
}

func newRegistry() *Registry {
	return &Registry{
		idOf: map[string]uint32{}, keyOf: map[uint32]string{}, revoked: map[uint32]bool{},
		tokens: map[string]*token{}, writing: map[string]string{}, changed: make(chan struct{}),
	}
}

// Close finishes pending writes. Afterwards every change fails.
func (r *Registry) Close() { r.queue.Stop() }

// Enrol returns the device ID of a key. A new key gets the wanted ID if it is free and below
// limit, otherwise the lowest free one, and is on disk when Enrol returns. again reports that the
// key was enrolled before; then no token is needed.
func (r *Registry) Enrol(key ed25519.PublicKey, token string, wanted *uint32, limit int, now time.Time) (
	id uint32, again bool, err error,
) {
	c, again, err := r.reserve(key, token, wanted, limit, now)
	if err != nil || again {
		return c.ID, again, err
	}
	if err := r.queue.Do(c); err != nil {
		r.release(c)
		return 0, false, err
	}
	return c.ID, false, nil
}

// Lookup finds the device ID of a key, and whether that device left or was revoked.
func (r *Registry) Lookup(key ed25519.PublicKey) (id uint32, known, revoked bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, known = r.idOf[string(key)]
	return id, known, known && r.revoked[id]
}

// Enrolled reports whether a device ID is taken, now or in the past.
func (r *Registry) Enrolled(id uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keyOf[id] != ""
}

// Count is the number of devices that ever enrolled, and a channel that closes when it changes.
func (r *Registry) Count() (int, <-chan struct{}) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.enrolled, r.changed
}

// Revoke refuses a device's requests from now on. A device that leaves is revoked too.
func (r *Registry) Revoke(id uint32) error { return r.queue.Do(change{ID: id, Revoked: true}) }

// NewToken makes a token that lets a number of devices enrol until it expires.
func (r *Registry) NewToken(uses int, expires time.Time, note string) (string, error) {
	text, t := newToken(uses, expires, note)
	return text, r.queue.Do(change{Made: &t})
}

// Seen notes that a device was heard of. It is kept in memory only, 8 bytes for each ID up to the
// highest one.
func (r *Registry) Seen(id uint32, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if missing := int(id) + 1 - len(r.lastSeen); missing > 0 {
		r.lastSeen = append(r.lastSeen, make([]int64, missing)...)
	}
	r.lastSeen[id] = now.UnixNano()
}

// SeenSince lists the devices that were heard of at a time or later, in order.
func (r *Registry) SeenSince(since time.Time) (ids []uint32) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, at := range r.lastSeen {
		if at > 0 && at >= since.UnixNano() {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// commit writes changes to the log, then applies them.
func (r *Registry) commit(all []change) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := r.store.Append(logName, b); err != nil {
		return err
	}
	for _, c := range all {
		r.apply(c)
	}
	return nil
}

// apply makes a change that is on disk visible.
func (r *Registry) apply(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c.Made != nil:
		t := *c.Made
		r.tokens[t.Hash] = &t
	case c.Revoked:
		if r.keyOf[c.ID] != "" {
			r.revoked[c.ID] = true
		}
	default:
		r.keyOf[c.ID] = string(c.Key)
		r.idOf[string(c.Key)] = c.ID
		r.enrolled++
		delete(r.writing, string(c.Key))
		if t := r.tokens[c.Token]; t != nil {
			t.used++
		}
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// reserve chooses the ID of a new key and holds it while the change is written.
func (r *Registry) reserve(key ed25519.PublicKey, text string, wanted *uint32, limit int, now time.Time) (
	c change, again bool, err error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, known := r.idOf[string(key)]; known {
		return change{ID: id}, true, nil
	}
	if _, busy := r.writing[string(key)]; busy {
		return change{}, false, ErrBusy
	}
	t := r.token(text)
	switch {
	case t == nil || now.After(t.Expires):
		return change{}, false, ErrToken
	case t.used+r.beingUsed(t.Hash) >= t.Uses:
		return change{}, false, ErrQuota
	}
	id, err := r.freeID(wanted, limit)
	if err != nil {
		return change{}, false, err
	}
	r.keyOf[id] = string(key)
	r.writing[string(key)] = t.Hash
	return change{ID: id, Key: key, Token: t.Hash}, false, nil
}

func (r *Registry) freeID(wanted *uint32, limit int) (uint32, error) {
	if wanted != nil && int(*wanted) < limit && r.keyOf[*wanted] == "" {
		return *wanted, nil
	}
	for r.keyOf[r.firstFree] != "" {
		r.firstFree++
	}
	if int(r.firstFree) >= limit {
		return 0, ErrFull
	}
	return r.firstFree, nil
}

// release frees an ID whose change could not be written.
func (r *Registry) release(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keyOf, c.ID)
	r.firstFree = min(r.firstFree, c.ID)
	delete(r.writing, string(c.Key))
}

// beingUsed counts the enrolments with a token that are being written.
func (r *Registry) beingUsed(hash string) (n int) {
	for _, h := range r.writing {
		if h == hash {
			n++
		}
	}
	return n
}

// token finds a token by its text, in constant time for each.
func (r *Registry) token(text string) (found *token) {
	hash := hashToken(text)
	for h, t := range r.tokens {
		if subtle.ConstantTimeCompare([]byte(h), []byte(hash)) == 1 {
			found = t
		}
	}
	return found
}

func hashToken(text string) string {
	h := sha256.Sum256([]byte("tacit token " + text))
	return base64.RawURLEncoding.EncodeToString(h[:])
}

func newToken(uses int, expires time.Time, note string) (text string, t token) {
	var b [18]byte
	rand.Read(b[:])
	text = base64.RawURLEncoding.EncodeToString(b[:])
	return text, token{Hash: hashToken(text), Uses: uses, Expires: expires, Note: note}
}
