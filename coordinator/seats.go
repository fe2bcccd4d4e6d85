package coordinator

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

	"github.com/tacit-rec/tacit/internal/store"
)

// seats is who is enrolled: a key for each number. It is kept as a log of changes.
type seats struct {
	mu      sync.RWMutex
	byKey   map[string]uint32
	key     map[uint32]string // by seat
	gone    map[uint32]bool   // by seat: left, or was shown the door
	free    uint32            // no seat below it is free
	taken   int
	tokens  map[string]*token // by the hash of their text
	waiting map[string]string // by key whose seat is being written: the token that it used
	changed chan struct{}     // closed and made anew when somebody enrols
}

// change is a line of the log.
type change struct {
	Seat  uint32 `json:"s"`
	Key   []byte `json:"k,omitempty"`
	Token string `json:"t,omitempty"` // hash of the one that was used
	Gone  bool   `json:"gone,omitempty"`
	Made  *token `json:"made,omitempty"`
}

// token lets so many devices enrol until a time.
type token struct {
	Hash string    `json:"hash"`
	Uses int       `json:"uses"`
	Ends time.Time `json:"ends"`
	Note string    `json:"note,omitempty"`
	used int
}

const seatLog = "seats"

func loadSeats(st *store.Store) (*seats, error) {
	s := &seats{
		byKey: map[string]uint32{}, key: map[uint32]string{}, gone: map[uint32]bool{},
		tokens: map[string]*token{}, waiting: map[string]string{}, changed: make(chan struct{}),
	}
	err := st.Replay(seatLog, func(record []byte) error {
		var all []change
		if err := json.Unmarshal(record, &all); err != nil {
			return fmt.Errorf("coord: the log of seats: %w", err)
		}
		for _, c := range all {
			s.apply(c)
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return s, err
}

// apply makes a change that is on disk.
func (s *seats) apply(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Made != nil:
		t := *c.Made
		s.tokens[t.Hash] = &t
	case c.Gone:
		if s.key[c.Seat] != "" {
			s.gone[c.Seat] = true
		}
	default:
		s.key[c.Seat] = string(c.Key)
		s.byKey[string(c.Key)] = c.Seat
		s.taken++
		delete(s.waiting, string(c.Key))
		if t := s.tokens[c.Token]; t != nil {
			t.used++
		}
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// enrolled is how many have a seat that they have not left, and a channel that closes when
// that changes.
func (s *seats) enrolled() (int, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.taken, s.changed
}

// of finds the seat of a key. A revoked key has none.
func (s *seats) of(key ed25519.PublicKey) (seat uint32, known, gone bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seat, known = s.byKey[string(key)]
	return seat, known, known && s.gone[seat]
}

// Why an enrolment is refused.
var (
	errToken = errors.New("the token is not one of this federation's, or its time is over")
	errQuota = errors.New("the token has been used as often as it may be")
	errFull  = errors.New("the federation has no seats left")
)

// reserve finds a seat for a new key. Its change is to be written, then applied. again
// says that the key has one.
func (s *seats) reserve(key ed25519.PublicKey, text string, wants bool, seat uint32, most int,
	now time.Time,
) (c change, again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if has, known := s.byKey[string(key)]; known {
		return change{Seat: has}, true, nil
	}
	if _, busy := s.waiting[string(key)]; busy {
		return change{}, false, errBusy
	}
	t := s.find(text)
	switch {
	case t == nil || now.After(t.Ends):
		return change{}, false, errToken
	case t.used+s.pending(t.Hash) >= t.Uses:
		return change{}, false, errQuota
	}
	if !wants || int(seat) >= most || s.key[seat] != "" {
		for s.key[s.free] != "" {
			s.free++
		}
		if seat = s.free; int(seat) >= most {
			return change{}, false, errFull
		}
	}
	s.key[seat] = string(key) // nobody else may have it while it is written
	s.waiting[string(key)] = t.Hash
	return change{Seat: seat, Key: key, Token: t.Hash}, false, nil
}

// giveUp frees a seat whose change could not be written.
func (s *seats) giveUp(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.key, c.Seat)
	s.free = min(s.free, c.Seat)
	delete(s.waiting, string(c.Key))
}

// pending is how many are being enrolled with a token.
func (s *seats) pending(token string) (n int) {
	for _, t := range s.waiting {
		if t == token {
			n++
		}
	}
	return n
}

// has reports whether somebody has a seat, or had.
func (s *seats) has(seat uint32) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.key[seat] != ""
}

func (s *seats) find(text string) *token {
	h := hashToken(text)
	for k, t := range s.tokens {
		if subtle.ConstantTimeCompare([]byte(k), []byte(h)) == 1 {
			return t
		}
	}
	return nil
}

// errBusy says that the same key is being enrolled by another call.
var errBusy = errors.New("this key is being enrolled")

func hashToken(text string) string {
	h := sha256.Sum256([]byte("tacit token " + text))
	return base64.RawURLEncoding.EncodeToString(h[:])
}

func newToken(uses int, ends time.Time, note string) (text string, t token) {
	var b [18]byte
	rand.Read(b[:])
	text = base64.RawURLEncoding.EncodeToString(b[:])
	return text, token{Hash: hashToken(text), Uses: uses, Ends: ends, Note: note}
}
