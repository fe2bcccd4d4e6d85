package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// closeStateDir closes a state folder to other users, because it holds keys and tokens. It refuses a folder that
// others can write to, and warns about one that it cannot close.
func closeStateDir(dir string, warn func(string)) error {
	info, err := os.Stat(dir)
	if err != nil {
		return input(err, "choose another folder with --state")
	}
	mode := info.Mode().Perm()
	switch {
	case runtime.GOOS == "windows" || mode&0o077 == 0:
		return nil
	case mode&0o002 != 0:
		return input(fmt.Errorf("--state %s has mode %04o: every user of this machine can change the coordinator's "+
			"keys", dir, mode), "check the files in it, then: chmod 700 "+dir)
	}
	if err := os.Chmod(dir, mode&^0o077); err != nil {
		warn(fmt.Sprintf("the state folder %s has mode %04o, so its group can use it: chmod 700 %s", dir, mode, dir))
		return nil
	}
	warn(fmt.Sprintf("the state folder %s had mode %04o; it is now closed to other users (%04o)", dir, mode,
		mode&^0o077))
	return nil
}

// checkLocalAccess refuses a file with tokens that other users may have read.
func checkLocalAccess(dir string) error {
	path := filepath.Join(dir, localAccessFile)
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil // a missing file is created
	}
	return input(fmt.Errorf("%s has mode %04o, so other users may have read the operator's token", path,
		info.Mode().Perm()), "delete it to get a new token, or set its mode to 0600")
}

// secure returns the TLS configuration of --cert, --insecure or the coordinator's own certificate, and the pin. A lost
// certificate is replaced only if no device knows its pin, or with --new-pin.
func (f *serveFlags) secure(enrolled int, warn func(string)) (*tls.Config, string, error) {
	switch {
	case f.insecure:
		return nil, "", nil
	case f.cert != "":
		c, pin, err := rpc.LoadTLS(f.cert, f.key, func(err error) { warn(err.Error()) })
		if err != nil {
			return nil, "", input(err, "")
		}
		return c, pin, nil
	}
	c, pin, err := rpc.MakeTLS(filepath.Join(f.state, "tls"), enrolled == 0 || f.newPin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", input(fmt.Errorf("the coordinator's certificate %s is missing, and %s enrolled, which would "+
			"not accept a new one", filepath.Join(f.state, "tls", "tls.pem"), devicesAre(enrolled)),
			"restore tls/tls.pem from a backup, or add --new-pin and give devices the new pin")
	}
	if err != nil {
		return nil, "", input(err, "")
	}
	return c, pin, nil
}

func devicesAre(n int) string {
	if n == 1 {
		return "1 device is"
	}
	return fmt.Sprintf("%d devices are", n)
}
