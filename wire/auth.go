package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Auth says which key signed a request, when, and for which body. It is the value of the header Tacit-Auth:
//
//	v2 <key> <time> <nonce> <length> <digest> <signature>
//
// The time is in decimal milliseconds since 1970, the length of the body in decimal bytes, the rest in
// lower-case hex. The digest is the SHA-256 of the body. The signed bytes are "tacit request 2\n", the
// federation ID, the path of the procedure and a newline, time and length as 8 bytes each (big endian), the
// nonce, and the digest. The body is not needed to verify the signature: a server verifies it first and
// then reads the body that the signer announced.
type Auth struct {
	Key       [ed25519.PublicKeySize]byte
	TimeMs    int64
	Nonce     [NonceBytes]byte
	BodyBytes int64
	Digest    [sha256.Size]byte
	Signature [ed25519.SignatureSize]byte
}

// SignRequest returns the value of Tacit-Auth for a request. It panics if the key is invalid.
func SignRequest(key ed25519.PrivateKey, federation []byte, path string, ms int64, nonce [NonceBytes]byte,
	body []byte,
) string {
	a := Auth{TimeMs: ms, Nonce: nonce, BodyBytes: int64(len(body)), Digest: sha256.Sum256(body)}
	copy(a.Key[:], key.Public().(ed25519.PublicKey))
	copy(a.Signature[:], ed25519.Sign(key, a.message(federation, path)))
	return a.String()
}

// String returns the value of the header.
func (a *Auth) String() string {
	return strings.Join([]string{
		authVersion, hex.EncodeToString(a.Key[:]), strconv.FormatInt(a.TimeMs, 10), hex.EncodeToString(a.Nonce[:]),
		strconv.FormatInt(a.BodyBytes, 10), hex.EncodeToString(a.Digest[:]), hex.EncodeToString(a.Signature[:]),
	}, " ")
}

const authVersion = "v2"

var (
	errAuth = errors.New("malformed Tacit-Auth header: must be v2, a key, a time, a nonce, the body's length and " +
		"digest, and a signature")
	errOldAuth = errors.New("the Tacit-Auth header is of an older protocol version: update the device")
)

// ParseAuth parses a header. It does not verify the signature.
func ParseAuth(s string) (*Auth, error) {
	if strings.HasPrefix(s, "v1 ") {
		return nil, errOldAuth
	}
	if len(s) > maxAuthBytes {
		return nil, errAuth
	}
	f := strings.Split(s, " ")
	if len(f) != 7 || f[0] != authVersion {
		return nil, errAuth
	}
	a := &Auth{}
	for i, dst := range map[int]*int64{2: &a.TimeMs, 4: &a.BodyBytes} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != f[i] {
			return nil, errAuth
		}
		*dst = n
	}
	for i, dst := range map[int][]byte{1: a.Key[:], 3: a.Nonce[:], 5: a.Digest[:], 6: a.Signature[:]} {
		if len(f[i]) != 2*len(dst) || strings.ToLower(f[i]) != f[i] {
			return nil, errAuth
		}
		if _, err := hex.Decode(dst, []byte(f[i])); err != nil {
			return nil, errAuth
		}
	}
	return a, nil
}

// Verify reports whether the key of the header signed it for this path. It says nothing about the body that was
// sent: see Covers.
func (a *Auth) Verify(federation []byte, path string) bool {
	return ed25519.Verify(a.Key[:], a.message(federation, path), a.Signature[:])
}

// Covers reports whether a body is the one that was signed.
func (a *Auth) Covers(body []byte) bool {
	return int64(len(body)) == a.BodyBytes && sha256.Sum256(body) == a.Digest
}

// message returns the signed bytes. Only the path has no fixed size.
func (a *Auth) message(federation []byte, path string) []byte {
	if len(federation) != IDBytes {
		panic("wire: the federation ID has the wrong size")
	}
	b := append(make([]byte, 0, 160+len(path)), "tacit request 2\n"...)
	b = append(b, federation...)
	b = append(b, path...)
	b = append(b, '\n')
	b = binary.BigEndian.AppendUint64(b, uint64(a.TimeMs))
	b = binary.BigEndian.AppendUint64(b, uint64(a.BodyBytes))
	b = append(b, a.Nonce[:]...)
	return append(b, a.Digest[:]...)
}
