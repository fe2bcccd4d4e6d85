package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// An app token lets one anonymous installation of an app enrol. The app's server or build signs it with a
// key whose public half the operator has given to the coordinator. Its text is "app." and, in base64url
// without padding:
//
//	byte 0         version, 1
//	bytes 1 to 8   expiry in Unix seconds, big endian
//	bytes 9 to 24  random ID; a coordinator accepts each once
//	bytes 25 to 88 ed25519 signature of "tacit app token 1\n", the federation ID (16 bytes) and bytes 0 to 24
type AppToken struct {
	Expires   int64 // in Unix seconds
	ID        [16]byte
	signed    []byte
	signature []byte
}

const (
	appPrefix   = "app."
	appDomain   = "tacit app token 1\n"
	appVersion  = 1
	appSigned   = 1 + 8 + 16
	appTokenLen = appSigned + ed25519.SignatureSize
)

// NewAppToken signs an app token for a federation that expires at a time, in Unix seconds. The ID must
// be random and new.
func NewAppToken(key ed25519.PrivateKey, federation []byte, expires int64, id [16]byte) string {
	b := binary.BigEndian.AppendUint64([]byte{appVersion}, uint64(expires))
	b = append(b, id[:]...)
	b = append(b, ed25519.Sign(key, appMessage(federation, b))...)
	return appPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// IsAppToken reports whether a token is an app token, valid or not.
func IsAppToken(text string) bool { return strings.HasPrefix(text, appPrefix) }

// ReadAppToken reads the text of an app token. It does not verify the signature.
func ReadAppToken(text string) (*AppToken, error) {
	body, found := strings.CutPrefix(text, appPrefix)
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if !found || err != nil || len(b) != appTokenLen || b[0] != appVersion {
		return nil, errors.New("malformed app token")
	}
	t := &AppToken{
		Expires: int64(binary.BigEndian.Uint64(b[1:])), signed: b[:appSigned], signature: b[appSigned:],
	}
	copy(t.ID[:], b[9:])
	return t, nil
}

// Verify reports whether the owner of a key signed the token for a federation.
func (t *AppToken) Verify(key ed25519.PublicKey, federation []byte) bool {
	return ed25519.Verify(key, appMessage(federation, t.signed), t.signature)
}

func appMessage(federation, signed []byte) []byte {
	return bytes.Join([][]byte{[]byte(appDomain), federation, signed}, nil)
}
