package store

import (
	"errors"
	"fmt"
)

// Damage says that something in the folder is missing or corrupt, and what an operator can do.
// The store loads nothing from a damaged folder.
type Damage struct {
	What  string // what is damaged, and how
	Where string // the log, blob or file
	Hint  string // the command to type
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s: %s; %s", d.Where, d.What, d.Hint)
}

// FormatError says that another version of Tacit wrote the folder. The store changes nothing in it.
type FormatError struct {
	Dir          string
	Found, Known int // the format of the folder, and the one that this program reads
}

func (e *FormatError) Error() string {
	age := "an older"
	if e.Found > e.Known {
		age = "a newer"
	}
	return fmt.Sprintf("%s was written by %s version of Tacit: it has state format %d, and this program reads "+
		"format %d", e.Dir, age, e.Found, e.Known)
}

// Hint says what an operator can do.
func (e *FormatError) Hint() string {
	if e.Found > e.Known {
		return "start the version that wrote it, or choose another folder with --state"
	}
	return "formats are not converted: start the version that wrote it, or choose a new folder with --state and " +
		"enrol the devices again"
}

var (
	// ErrNotFound says that a key, log or blob does not exist.
	ErrNotFound = errors.New("store: not found")
	// ErrFenced says that the writer lost ownership of the folder.
	ErrFenced = errors.New("store: another owner has written since; open the store again")
	// ErrLocked says that another process has the folder open.
	ErrLocked = errors.New("the state folder is in use")
)

func damage(dir, where, format string, args ...any) error {
	return &Damage{
		What:  fmt.Sprintf(format, args...),
		Where: where,
		Hint: fmt.Sprintf("`tacit serve --state %s --repair` keeps everything that is intact and says what was lost",
			dir),
	}
}
