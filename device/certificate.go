//go:build !js

package device

import (
	"crypto/tls"
	"errors"
)

// certificateError replaces the errors of TLS, which nobody but their authors can read.
func certificateError(err error) error {
	if e := new(tls.CertificateVerificationError); errors.As(err, &e) && !errors.Is(err, ErrPin) {
		return ErrCertificate
	}
	return err
}
