// Package enrolment registers devices: it gives each public key a device ID, once and for all,
// checks the tokens that allow it, remembers which devices left, were revoked or are excluded, and
// knows which of the others are active. It never learns anything about a device's user. Its one
// convention: a change is on disk, in an append-only log, before anybody sees it.
package enrolment

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/batch"
	"github.com/tacit-rec/tacit/internal/store"
)

// Reasons why an enrolment is refused.
var (
	ErrToken        = errors.New("the token is unknown or expired; ask the operator for a new one")
	ErrTokenRevoked = errors.New("the token was revoked; ask the operator for a new one")
	ErrQuota        = errors.New("the token has no uses left; ask the operator for a new one")
	ErrFull         = errors.New("the federation has no device IDs left")
	ErrBusy         = errors.New("another request enrols this key; try again")
	ErrRate         = errors.New("too many devices enrol at the moment; try again in a minute")

	ErrNoToken  = errors.New("enrolment requires a token; ask the operator for one")
	ErrAppToken = errors.New("the app token is invalid or expired; the app must fetch a new one")
	ErrAppUsed  = errors.New("the app token has been used; the app must fetch a new one")
)

// State is how a device stands with the federation.
type State string

// The states of a device. The first two are those of an enrolled device.
const (
	Active   State = "active"
	Overdue  State = "overdue"  // it did not check in when it was expected
	Left     State = "left"     // by its own wish; it may enrol again
	Revoked  State = "revoked"  // by the operator
	Excluded State = "excluded" // proven to lie
)

// Registry is the devices of one federation. Its methods may be called from many goroutines.
type Registry struct {
	store      *store.Store
	queue      *batch.Queue[change]
	federation []byte // ID
	limits     Limits

	mu        sync.RWMutex
	idOf      map[string]uint32 // by key
	devices   map[uint32]*device
	reserved  map[uint32]bool   // IDs whose enrolment is being written
	writing   map[string]string // by key whose enrolment is being written: the hash of its token
	firstFree uint32            // all IDs below it are taken
	members   int               // devices that are enrolled now
	tokens    map[string]*token // by hash
	appKeys   map[string]*AppKey
	usedApp   map[string]int64 // app tokens that were used, with their expiry in Unix seconds
	openRate  minuteRate
	appRate   minuteRate
	changed   chan struct{} // closed and replaced when the set of active devices may have changed
	active    activeCache
	last      time.Time // of the last enrolment since the start
	programs  []program // of devices, by number
	savedSeen string    // log with the last list of when devices were seen

	ledgerLines func() int // may be nil
}

// device is one device. The fields above seen change under the registry's lock only.
type device struct {
	key      string
	barred   State  // Left, Revoked, Excluded, or empty for an enrolled device
	reason   string // why it is excluded
	note     string // of the token that it enrolled with
	enrolled int64  // in Unix seconds
	order    int    // number of devices that enrolled before it
	line     int    // of the privacy ledger, when it enrolled for the first time
	presence
}

// change is one entry of the log. A record holds several.
type change struct {
	Op     string `json:"op"`
	ID     uint32 `json:"id,omitempty"`
	Key    []byte `json:"key,omitempty"`
	Token  string `json:"token,omitempty"` // hash of the token that was used
	Reason string `json:"reason,omitempty"`
	At     int64  `json:"at,omitempty"`          // in Unix seconds
	Line   int    `json:"ledger_line,omitempty"` // lines of the privacy ledger when the device enrolled
	Made   *token `json:"made,omitempty"`
	Note   string `json:"note,omitempty"` // of the device
	App    string `json:"app,omitempty"`  // ID of the app key
	Ends   int64  `json:"ends,omitempty"` // of an app token, in Unix seconds
}

// The operations of the log.
const (
	opEnrol   = "enrol"
	opLeave   = "leave"
	opRevoke  = "revoke"
	opExclude = "exclude"
	opReadmit = "readmit"
	opToken   = "token"

	opRevokeToken  = "revoke-token"
	opAppKey       = "app-key"
	opRemoveAppKey = "remove-app-key"
)

const logName = "devices"

// Open loads the registry from the store. The caller closes it before the store. A device counts as
// present until it has had a grace period to check in.
func Open(st *store.Store, federation []byte, limits Limits, now time.Time) (*Registry, error) {
	r := newRegistry()
	r.store, r.federation, r.limits = st, federation, limits
	r.limits.setDefaults()
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
	if err := r.loadSeen(); err != nil {
		return nil, err
	}
	for _, d := range r.devices {
		d.due.Store(now.Add(RestartGrace).UnixNano())
		if at := d.seen.Load(); at > 0 && now.Sub(time.Unix(0, at)) > longAway {
			d.missed.Store(true)
		}
	}
	for h, ends := range r.usedApp {
		if ends < now.Unix() {
			delete(r.usedApp, h)
		}
	}
	r.queue = batch.New(r.commit)
	return r, nil
}

func newRegistry() *Registry {
	return &Registry{
		idOf: map[string]uint32{}, devices: map[uint32]*device{}, reserved: map[uint32]bool{},
		tokens: map[string]*token{}, writing: map[string]string{}, changed: make(chan struct{}),
		appKeys: map[string]*AppKey{}, usedApp: map[string]int64{},
	}
}

// Close finishes pending writes. Afterwards every change fails.
func (r *Registry) Close() { r.queue.Stop() }

// Request is the request of a key to enrol.
type Request struct {
	Key     ed25519.PublicKey
	Token   string       // of the operator or of an app; empty for open enrolment
	Wanted  *uint32      // the device ID that it asks for; may be nil
	Limit   int          // all device IDs are below it
	Address netip.Prefix // of the caller, for rate limits
	Now     time.Time
}

// Enrol returns the device ID of a key. A new key gets the wanted ID if it is free, otherwise the lowest
// free one, and is on disk when Enrol returns. A key that left enrols again with a token and keeps its ID.
// again reports that the key was enrolled before; a device that did not leave needs no token then.
func (r *Registry) Enrol(q Request) (id uint32, again bool, err error) {
	line := 0
	if r.ledgerLines != nil { // without the lock: if the ledger grows meanwhile, the device counts a release too many
		line = r.ledgerLines()
	}
	c, again, err := r.reserve(q)
	if err != nil || c.Op == "" {
		return c.ID, again, err
	}
	c.Line = line
	if err := r.queue.Do(c); err != nil {
		r.release(c)
		return 0, false, err
	}
	return c.ID, again, nil
}

// Lookup finds the device ID of a key. barred is Left, Revoked or Excluded if the device may not take
// part, and empty otherwise.
func (r *Registry) Lookup(key ed25519.PublicKey) (id uint32, known bool, barred State) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, known = r.idOf[string(key)]
	if known {
		barred = r.devices[id].barred
	}
	return id, known, barred
}

// SetLedger sets what counts the lines of the privacy ledger, before devices enrol.
func (r *Registry) SetLedger(lines func() int) { r.ledgerLines = lines }

// LedgerLine is the number of lines that the privacy ledger had when a device enrolled for the first
// time; false if the device is unknown. The releases of later lines concern it.
func (r *Registry) LedgerLine(id uint32) (line int, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	d := r.devices[id]
	if d == nil {
		return 0, false
	}
	return d.line, true
}

// Enrolled reports whether a device ID is taken, now or in the past.
func (r *Registry) Enrolled(id uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.devices[id] != nil
}

// Barred is Left, Revoked or Excluded if a device may not take part, and empty otherwise.
func (r *Registry) Barred(id uint32) State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if d := r.devices[id]; d != nil {
		return d.barred
	}
	return ""
}

// Count is the number of devices that are enrolled now, and a channel that closes when the set of
// active devices may have changed.
func (r *Registry) Count() (int, <-chan struct{}) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.members, r.changed
}

// Leave ends a device's enrolment by its own wish.
func (r *Registry) Leave(id uint32) error { return r.queue.Do(change{Op: opLeave, ID: id}) }

// Revoke refuses a device's requests from now on.
func (r *Registry) Revoke(id uint32) error { return r.queue.Do(change{Op: opRevoke, ID: id}) }

// Exclude refuses the requests of a device that was proven to lie. The reason is kept.
func (r *Registry) Exclude(id uint32, reason string) error {
	return r.queue.Do(change{Op: opExclude, ID: id, Reason: bounded(reason)})
}

// Readmit undoes Exclude.
func (r *Registry) Readmit(id uint32) error { return r.queue.Do(change{Op: opReadmit, ID: id}) }

// ExcludedDevice is a device that was proven to lie.
type ExcludedDevice struct {
	ID     uint32 `json:"id"`
	Reason string `json:"reason"`
}

// Excluded lists the excluded devices, by ID.
func (r *Registry) Excluded() (all []ExcludedDevice) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, id := range r.active.ids {
		if d := r.devices[id]; d.barred == Excluded {
			all = append(all, ExcludedDevice{id, d.reason})
		}
	}
	return all
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
	d := r.devices[c.ID]
	switch c.Op {
	case opToken, opRevokeToken, opAppKey, opRemoveAppKey:
		r.applyToken(c)
		return
	case opEnrol:
		r.applyEnrolment(c)
	case opLeave:
		r.bar(d, Left, "")
	case opRevoke:
		r.bar(d, Revoked, "")
	case opExclude:
		r.bar(d, Excluded, c.Reason)
	case opReadmit:
		if d != nil && d.barred == Excluded {
			r.bar(d, "", "")
		}
	}
	r.noteChange()
}

// noteChange tells the loop that the set of active devices may have changed.
func (r *Registry) noteChange() {
	r.active.valid = false
	close(r.changed)
	r.changed = make(chan struct{})
}

// bar sets why a device may not take part; empty if it may. A device cannot end its exclusion by
// leaving, nor its revocation by lying.
func (r *Registry) bar(d *device, s State, reason string) {
	switch {
	case d == nil, s == Left && d.barred != "", s == Excluded && d.barred == Revoked:
		return
	case s == "" && d.barred != "":
		r.members++
	case s != "" && d.barred == "":
		r.members--
	}
	d.barred, d.reason = s, reason
}

func (r *Registry) applyEnrolment(c change) {
	delete(r.writing, string(c.Key))
	delete(r.reserved, c.ID)
	d := r.devices[c.ID]
	if d == nil {
		d = &device{key: string(c.Key), order: len(r.devices), line: c.Line}
		r.devices[c.ID] = d
		r.idOf[d.key] = c.ID
		r.active.add(c.ID)
		r.members++
	} else if d.barred == Left { // it may have been revoked while the change was written
		r.bar(d, "", "")
	}
	d.enrolled, r.last = c.At, time.Unix(c.At, 0)
	d.due.Store(time.Unix(c.At, 0).Add(Grace(0)).UnixNano())
	d.note = c.Note
	if t := r.tokens[c.Token]; t != nil {
		t.used++
	}
	if c.App != "" {
		r.usedApp[c.Token] = c.Ends
		if k := r.appKeys[c.App]; k != nil {
			k.Signed++
		}
	}
}

// reserve chooses the ID of a new key and holds it while the change is written. The change is empty if
// the key is enrolled.
func (r *Registry) reserve(q Request) (c change, again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, again := r.idOf[string(q.Key)]
	if again && r.devices[id].barred != Left {
		return change{ID: id}, true, nil
	}
	if _, busy := r.writing[string(q.Key)]; busy {
		return change{}, false, ErrBusy
	}
	p, err := r.check(q)
	if err != nil {
		return change{}, false, err
	}
	if !again {
		if id, err = r.freeID(q.Wanted, q.Limit); err != nil {
			return change{}, false, err
		}
		r.reserved[id] = true
	}
	r.writing[string(q.Key)] = p.hash
	return change{
		Op: opEnrol, ID: id, Key: q.Key, Token: p.hash, Note: p.note, App: p.app, Ends: p.ends, At: q.Now.Unix(),
	}, again, nil
}

func (r *Registry) taken(id uint32) bool { return r.devices[id] != nil || r.reserved[id] }

func (r *Registry) freeID(wanted *uint32, limit int) (uint32, error) {
	if wanted != nil && int(*wanted) < limit && !r.taken(*wanted) {
		return *wanted, nil
	}
	for r.taken(r.firstFree) {
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
	if r.reserved[c.ID] {
		delete(r.reserved, c.ID)
		r.firstFree = min(r.firstFree, c.ID)
	}
	delete(r.writing, string(c.Key))
}
