package enrolment

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"
)

// token allows a number of devices to enrol before it expires.
type token struct {
	Hash    string    `json:"hash"`
	Uses    int       `json:"uses"`
	Expires time.Time `json:"expires"`
	Note    string    `json:"note,omitempty"`
	used    int
}

// NewToken makes a token that lets a number of devices enrol until it expires.
func (r *Registry) NewToken(uses int, expires time.Time, note string) (string, error) {
	text, t := newToken(uses, expires, note)
	return text, r.queue.Do(change{Op: opToken, Made: &t})
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
