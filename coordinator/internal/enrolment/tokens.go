package enrolment

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/wire"
)

// token allows a number of devices to enrol before it expires.
type token struct {
	Hash    string    `json:"hash"`
	Uses    int       `json:"uses"`
	Expires time.Time `json:"expires"`
	Note    string    `json:"note,omitempty"`
	used    int
	revoked bool
}

// NewToken makes a token that lets a number of devices enrol until it expires.
func (r *Registry) NewToken(uses int, expires time.Time, note string) (string, error) {
	text, t := newToken(uses, expires, bounded(note))
	return text, r.queue.Do(change{Op: opToken, Made: &t})
}

// Token is what the operator sees of a token.
type Token struct {
	ID      string    `json:"id"` // names it; it does not let anybody enrol
	Note    string    `json:"note,omitempty"`
	Uses    int       `json:"uses"`
	Used    int       `json:"used"`
	Expires time.Time `json:"expires"`
	Revoked bool      `json:"revoked,omitempty"`
}

// idLength is the number of letters of a hash that name a token or a key.
const idLength = 12

// Tokens lists the tokens, the latest expiry first.
func (r *Registry) Tokens() []Token {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := []Token{}
	for hash, t := range r.tokens {
		all = append(all, Token{hash[:idLength], t.Note, t.Uses, t.used, t.Expires.UTC(), t.revoked})
	}
	slices.SortFunc(all, func(a, b Token) int {
		return cmp.Or(b.Expires.Compare(a.Expires), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// ErrUnknown says that no token or app key has an ID.
var ErrUnknown = errors.New("unknown ID")

// RevokeToken refuses a token from now on. Devices that enrolled with it stay.
func (r *Registry) RevokeToken(id string) error {
	r.mu.RLock()
	hash := ""
	for h := range r.tokens {
		if h[:idLength] == id {
			hash = h
		}
	}
	r.mu.RUnlock()
	if hash == "" {
		return ErrUnknown
	}
	return r.queue.Do(change{Op: opRevokeToken, Token: hash})
}

// Hex is bytes that JSON holds as hexadecimal digits.
type Hex []byte

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads them.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// AppKey signs app tokens. The registry has its public half.
type AppKey struct {
	ID     string    `json:"id"`
	Key    Hex       `json:"public_key"`
	Note   string    `json:"note,omitempty"`
	Added  time.Time `json:"added"`
	Signed int       `json:"enrolled"` // devices that enrolled with its tokens
}

const maxAppKeys = 16

// AddAppKey accepts app tokens that the owner of a key signs, from now on.
func (r *Registry) AddAppKey(key ed25519.PublicKey, note string, now time.Time) (id string, err error) {
	if len(key) != ed25519.PublicKeySize {
		return "", fmt.Errorf("an app key of %d bytes: must be %d", len(key), ed25519.PublicKeySize)
	}
	r.mu.RLock()
	n := len(r.appKeys)
	r.mu.RUnlock()
	if n >= maxAppKeys {
		return "", fmt.Errorf("there are %d app keys, the maximum; remove one first", n)
	}
	hash := sha256.Sum256(key)
	id = hex.EncodeToString(hash[:])[:idLength]
	return id, r.queue.Do(change{Op: opAppKey, Token: id, Key: key, Reason: bounded(note), At: now.Unix()})
}

// RemoveAppKey refuses the tokens of a key from now on.
func (r *Registry) RemoveAppKey(id string) error {
	r.mu.RLock()
	known := r.appKeys[id] != nil
	r.mu.RUnlock()
	if !known {
		return ErrUnknown
	}
	return r.queue.Do(change{Op: opRemoveAppKey, Token: id})
}

// AppKeys lists the app keys, by ID.
func (r *Registry) AppKeys() []AppKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := []AppKey{}
	for _, k := range r.appKeys {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b AppKey) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// applyToken makes a change of tokens or app keys visible.
func (r *Registry) applyToken(c change) {
	switch c.Op {
	case opToken:
		t := *c.Made
		r.tokens[t.Hash] = &t
	case opRevokeToken:
		if t := r.tokens[c.Token]; t != nil {
			t.revoked = true
		}
	case opAppKey:
		r.appKeys[c.Token] = &AppKey{ID: c.Token, Key: Hex(c.Key), Note: c.Reason, Added: time.Unix(c.At, 0).UTC()}
	case opRemoveAppKey:
		delete(r.appKeys, c.Token)
	}
}

// permit is what lets a key enrol.
type permit struct {
	hash string // of a token; unique for an app token
	note string
	app  string // ID of the app key
	ends int64  // of an app token, in Unix seconds
}

// Limits of app tokens.
const (
	maxAppTokenLife = 24 * time.Hour // a used token is remembered until it expires
	maxAppTokens    = 1 << 18        // used ones that have not expired
)

// check decides whether a request may enrol another device.
func (r *Registry) check(q Request) (permit, error) {
	switch {
	case q.Token == "":
		return r.checkOpen(q)
	case wire.IsAppToken(q.Token):
		return r.checkApp(q.Token, q.Now)
	}
	t := r.token(q.Token)
	switch {
	case t == nil || q.Now.After(t.Expires):
		return permit{}, ErrToken
	case t.revoked:
		return permit{}, ErrTokenRevoked
	case t.used+r.beingUsed(t.Hash) >= t.Uses:
		return permit{}, ErrQuota
	}
	return permit{hash: t.Hash, note: t.Note}, nil
}

func (r *Registry) checkApp(text string, now time.Time) (permit, error) {
	t, err := wire.ReadAppToken(text)
	if err != nil || t.Expires < now.Unix() || t.Expires > now.Add(maxAppTokenLife).Unix() {
		return permit{}, ErrAppToken
	}
	i := slices.IndexFunc(r.sortedAppKeys(), func(k *AppKey) bool { return t.Verify([]byte(k.Key), r.federation) })
	if i < 0 {
		return permit{}, ErrAppToken
	}
	key := r.sortedAppKeys()[i]
	hash := "app " + hex.EncodeToString(t.ID[:])
	if _, used := r.usedApp[hash]; used || r.beingUsed(hash) > 0 {
		return permit{}, ErrAppUsed
	}
	if len(r.usedApp) >= maxAppTokens {
		for h, ends := range r.usedApp {
			if ends < now.Unix() {
				delete(r.usedApp, h)
			}
		}
		if len(r.usedApp) >= maxAppTokens {
			return permit{}, ErrRate
		}
	}
	if !r.appRate.allow(netip.Prefix{}, now, r.limits.AppPerMinute, 0) {
		return permit{}, ErrRate
	}
	return permit{hash: hash, note: key.Note, app: key.ID, ends: t.Expires}, nil
}

func (r *Registry) sortedAppKeys() []*AppKey {
	all := make([]*AppKey, 0, len(r.appKeys))
	for _, k := range r.appKeys {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *AppKey) int { return cmp.Compare(a.ID, b.ID) })
	return all
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

// hashToken writes hexadecimal digits, because commands name a token by the first of them: an ID must not begin
// with a dash.
func hashToken(text string) string {
	h := sha256.Sum256([]byte("tacit token " + text))
	return hex.EncodeToString(h[:])
}

func newToken(uses int, expires time.Time, note string) (text string, t token) {
	var b [18]byte
	rand.Read(b[:])
	text = hex.EncodeToString(b[:])
	return text, token{Hash: hashToken(text), Uses: uses, Expires: expires, Note: note}
}
