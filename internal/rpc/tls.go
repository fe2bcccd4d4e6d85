//go:build !js

package rpc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

const pinHead = "sha256/"

// ErrPin means that the server's key does not match the pin.
var ErrPin = errors.New("the coordinator's key does not match the pin")

func pinOf(c *x509.Certificate) string {
	h := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return pinHead + base64.RawURLEncoding.EncodeToString(h[:])
}

func makeCertificate(dir, path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tacit coordinator"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(50, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tls-*") // mode 0600 from the start
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link does not replace a file: two servers that start together use the same certificate.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// clientTLS trusts only the key of the pin or, without a pin, the system's certificate authorities.
func clientTLS(pin string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if pin == "" {
		return c, nil
	}
	h, ok := strings.CutPrefix(pin, pinHead)
	if b, err := base64.RawURLEncoding.DecodeString(h); !ok || err != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("pin %.80q: must be %s and 43 characters, as the coordinator prints it", pin, pinHead)
	}
	c.InsecureSkipVerify = true // VerifyConnection checks the pin, for resumed connections too
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return ErrPin
		}
		if got := pinOf(s.PeerCertificates[0]); got != pin {
			return fmt.Errorf("%w: it has %s, the pin is %s", ErrPin, got, pin)
		}
		return nil
	}
	return c, nil
}
