//go:build !js

package rpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// LoadTLS loads a certificate and returns the config of a server and the pin of its key. New connections use a new
// certificate soon after the files have changed. If the new files are invalid, the server keeps the old certificate
// and calls warn, which may be nil.
func LoadTLS(certificate, key string, warn func(error)) (*tls.Config, string, error) {
	c := &certificateFile{certificate: certificate, key: key, warn: warn, now: time.Now}
	if err := c.load(c.stat()); err != nil {
		return nil, "", err
	}
	if info := c.loaded[1]; info != nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
		c.warning(fmt.Errorf("all users of this machine can read the private key %s: set its mode to 0600", key))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil }
	return config, pinOf(c.current.Leaf), nil
}

// certificateFile is a certificate that is loaded again when its files change.
type certificateFile struct {
	certificate, key string
	warn             func(error)
	now              func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	loaded  [2]fs.FileInfo // of the current certificate
	failed  [2]fs.FileInfo // of the last attempt, if it failed
	warned  bool           // about the failed attempt
	checked time.Time
}

// checkEvery is how often the files are checked, at most.
const checkEvery = 2 * time.Second

func (c *certificateFile) stat() (out [2]fs.FileInfo) {
	for i, path := range []string{c.certificate, c.key} {
		if info, err := os.Stat(path); err == nil {
			out[i] = info
		}
	}
	return out
}

func (c *certificateFile) load(files [2]fs.FileInfo) error {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.certificate, c.key, err)
	}
	if end := pair.Leaf.NotAfter; c.now().After(end) {
		err := fmt.Errorf("certificate %s expired on %s", c.certificate, end.UTC().Format(time.DateOnly))
		if c.current != nil {
			return err // the current one cannot be worse
		}
		c.warning(err)
	}
	c.current, c.loaded = &pair, files
	c.failed, c.warned = [2]fs.FileInfo{}, false
	return nil
}

// get returns the certificate for a new connection.
func (c *certificateFile) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checked).Abs() >= checkEvery {
		c.checked = now
		c.reload()
	}
	return c.current
}

// reload loads the files if they have changed. It warns at the second failure with the same files, because
// certificate and key are rarely replaced at the same moment.
func (c *certificateFile) reload() {
	files := c.stat()
	if same(files, c.loaded) {
		return
	}
	again := same(files, c.failed)
	err := c.load(files)
	switch {
	case err == nil:
	case !again:
		c.failed, c.warned = files, false
	case !c.warned:
		c.warned = true
		c.warning(fmt.Errorf("the server keeps its certificate: %w", err))
	}
}

func (c *certificateFile) warning(err error) {
	if c.warn != nil {
		c.warn(err)
	}
}

func same(a, b [2]fs.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}

// MakeTLS returns the config of a server with a self-signed certificate and the pin of its key. The folder keeps it in
// a file that only its owner may read. If the file is missing, MakeTLS creates it, or returns fs.ErrNotExist unless
// create is set: clients trust the certificate by its pin and do not accept another.
func MakeTLS(dir string, create bool) (*tls.Config, string, error) {
	path := filepath.Join(dir, "tls.pem")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, "", fmt.Errorf("certificate %s: %w", path, fs.ErrNotExist)
		}
		if err := makeCertificate(dir, path); err != nil {
			return nil, "", fmt.Errorf("cannot create a certificate in %s: %w", dir, err)
		}
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, "",
			fmt.Errorf("%s has mode %04o, so other users may have read its key: delete it, start "+
				"with --new-pin and give devices the new pin, or set its mode to 0600", path, info.Mode().Perm())
	}
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		return nil, "", fmt.Errorf("certificate %s: %w", path, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, pinOf(pair.Leaf), nil
}
