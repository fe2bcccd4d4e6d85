// Package operators keeps the tokens of the admin API: one per operator or program, by name, each with all
// rights or only that of reading. Its one convention: the store holds hashes, and a change is on disk when
// a method returns.
package operators

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/store"
)

// Local is the operator whose token is in the state folder, for programs of the same user.
const Local = "local"

// maxOperators bounds the list.
const maxOperators = 100

// Operator may call the admin API.
type Operator struct {
	Name     string    `json:"name"`
	ReadOnly bool      `json:"read_only"` // may make only calls that read
	Created  time.Time `json:"created"`
}

// saved is an operator on disk.
type saved struct {
	Operator
	Hash []byte `json:"hash"` // SHA-256 of the token
}

// List is the operators of a coordinator. Its methods may be called from many goroutines.
type List struct {
	store *store.Store

	mu    sync.Mutex
	all   []saved
	local []byte // hash of the local token; nil for none
}

const key = "operators"

// Reasons why a change is refused.
var (
	ErrName    = errors.New("the name must have 1 to 64 lower-case letters, digits, dots or dashes, and not be local")
	ErrTaken   = errors.New("an operator of this name exists; choose another name, or remove it first")
	ErrUnknown = errors.New("no operator has this name; tacit admin operators lists them")
	ErrFull    = fmt.Errorf("there are %d operators, the maximum; remove one first", maxOperators)
)

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,63}$`)

// Open loads the list.
func Open(st *store.Store) (*List, error) {
	l := &List{store: st}
	if err := st.GetJSON(key, &l.all); err != nil {
		return nil, fmt.Errorf("the list of operators is corrupt: %w", err)
	}
	return l, nil
}

func hash(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// SetLocal sets the token of the local operator; empty for none.
func (l *List) SetLocal(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.local = nil
	if token != "" {
		l.local = hash(token)
	}
}

// Find returns the operator whose token it is. It compares hashes, so that its duration reveals nothing
// about tokens.
func (l *List) Find(token string) (Operator, bool) {
	got := hash(token)
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := Operator{Name: Local}, l.local != nil && subtle.ConstantTimeCompare(got, l.local) == 1
	for _, o := range l.all {
		if subtle.ConstantTimeCompare(got, o.Hash) == 1 {
			found, ok = o.Operator, true
		}
	}
	return found, ok
}

// Add adds an operator and returns the token, which is kept nowhere.
func (l *List) Add(name string, readOnly bool, now time.Time) (token string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !names.MatchString(name) || name == Local:
		return "", ErrName
	case slices.ContainsFunc(l.all, func(o saved) bool { return o.Name == name }):
		return "", ErrTaken
	case len(l.all) >= maxOperators:
		return "", ErrFull
	}
	var b [24]byte
	rand.Read(b[:])
	token = hex.EncodeToString(b[:])
	o := saved{Operator{name, readOnly, now.UTC().Round(time.Second)}, hash(token)}
	return token, l.replace(append(slices.Clone(l.all), o))
}

// Remove revokes the token of an operator.
func (l *List) Remove(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(l.all), func(o saved) bool { return o.Name == name })
	if len(all) == len(l.all) {
		return ErrUnknown
	}
	return l.replace(all)
}

func (l *List) replace(all []saved) error {
	if err := l.store.PutJSON(key, all); err != nil {
		return err
	}
	l.all = all
	return nil
}

// All lists the operators, without the local one.
func (l *List) All() []Operator {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Operator{}
	for _, o := range l.all {
		out = append(out, o.Operator)
	}
	return out
}
