//go:build !js

package device

import "github.com/tacit-rec/tacit/internal/statefile"

var (
	_ Store = (*statefile.File)(nil)
	_ Blobs = statefile.Folder{}
)

// Errors of state files that OpenFile and the methods of a Device wrap.
var (
	ErrPassphrase   = statefile.ErrPassphrase
	ErrStateCorrupt = statefile.ErrCorrupt
)

// OpenFile opens the device whose private record is in a state file, or creates both. The model is
// kept unencrypted in the folder path + ".model": every device of the federation has the same one.
// OpenFile sets Store and Blobs of the options.
func OpenFile(path string, opt Options) (*Device, error) {
	opt.Store = statefile.Open(path, statefile.Options{Passphrase: opt.Passphrase, Keyring: opt.Keyring})
	opt.Blobs = statefile.OpenFolder(path + ".model")
	return Open(opt)
}
