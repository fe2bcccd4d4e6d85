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

// Auth says which key signed a request and when. It is the value of the header Tacit-Auth:
//
//	v1 <key> <time> <nonce> <signature>
//
// The time is in decimal milliseconds since 1970, the rest in lower-case hex. The signed bytes are
// "tacit request 1\n", the federation ID, the path of the procedure and a newline, the time as 8 bytes
// (big endian), the nonce, and the SHA-256 of the body.
type Auth struct {
	Key       [ed25519.PublicKeySize]byte
	TimeMs    int64
	Nonce     [NonceBytes]byte
	Signature [ed25519.SignatureSize]byte
}

// SignRequest returns the value of Tacit-Auth for a request. It panics if the key is invalid.
func SignRequest(key ed25519.PrivateKey, federation []byte, path string, ms int64, nonce [NonceBytes]byte,
	body []byte,
) string {
	a := Auth{TimeMs: ms, Nonce: nonce}
	copy(a.Key[:], key.Public().(ed25519.PublicKey))
	sig := ed25519.Sign(key, a.message(federation, path, body))
	return strings.Join([]string{
		"v1", hex.EncodeToString(a.Key[:]), strconv.FormatInt(ms, 10),
		hex.EncodeToString(nonce[:]), hex.EncodeToString(sig),
	}, " ")
}

var errAuth = errors.New("malformed Tacit-Auth header: must be v1, a key, a time, a nonce and a signature")

// ParseAuth parses a header. It does not verify the signature.
func ParseAuth(s string) (*Auth, error) {
	if len(s) > maxAuthBytes {
		return nil, errAuth
	}
	f := strings.Split(s, " ")
	if len(f) != 5 || f[0] != "v1" {
		return nil, errAuth
	}
	a := &Auth{}
	ms, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || ms < 0 || strconv.FormatInt(ms, 10) != f[2] {
		return nil, errAuth
	}
	a.TimeMs = ms
	for i, dst := range map[int][]byte{1: a.Key[:], 3: a.Nonce[:], 4: a.Signature[:]} {
		if len(f[i]) != 2*len(dst) || strings.ToLower(f[i]) != f[i] {
			return nil, errAuth
		}
		if _, err := hex.Decode(dst, []byte(f[i])); err != nil {
			return nil, errAuth
		}
	}
	return a, nil
}

// Verify reports whether the key of the header signed the request.
func (a *Auth) Verify(federation []byte, path string, body []byte) bool {
	return ed25519.Verify(a.Key[:], a.message(federation, path, body), a.Signature[:])
}

// message returns the signed bytes. Only the path has no fixed size.
func (a *Auth) message(federation []byte, path string, body []byte) []byte {
	if len(federation) != IDBytes {
		panic("wire: the federation ID has the wrong size")
	}
	digest := sha256.Sum256(body)
	b := append(make([]byte, 0, 160+len(path)), "tacit request 1\n"...)
	b = append(b, federation...)
	b = append(b, path...)
	b = append(b, '\n')
	b = binary.BigEndian.AppendUint64(b, uint64(a.TimeMs))
	b = append(b, a.Nonce[:]...)
	return append(b, digest[:]...)
}
