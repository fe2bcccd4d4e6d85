package store

import (
	"errors"
	"fmt"
)

// Damage says that something in the folder is not as it was written, and what
// an operator can do. Nothing is loaded from a folder with damage.
type Damage struct {
	What  string // what is damaged, and how
	Where string // the log, blob or file
	Hint  string // the command to type
}

func (d *Damage) Error() string {
	return fmt.Sprintf("store: %s: %s; %s", d.Where, d.What, d.Hint)
}

var (
	// ErrNotFound is the answer for a key, log or blob that is not there.
	ErrNotFound = errors.New("store: not found")
	// ErrFenced is the answer to a writer that is no longer the owner.
	ErrFenced = errors.New("store: another owner has written since; open the store again")
	// ErrLocked is the answer where another process has the folder open.
	ErrLocked = errors.New("store: in use")
)

func damage(dir, where, format string, args ...any) error {
	return &Damage{
		What:  fmt.Sprintf(format, args...),
		Where: where,
		Hint:  fmt.Sprintf("`tacit serve --state %s --repair` keeps what is whole and says what was lost", dir),
	}
}
