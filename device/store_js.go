package device

import "errors"

// Errors of stores. A browser has no state files: its store returns these errors itself.
var (
	ErrPassphrase   = errors.New("the passphrase is wrong")
	ErrStateCorrupt = errors.New("the stored state of the device is corrupt")
)
